# SPDX-License-Identifier: GPL-3.0-or-later
"""The zip holds the add-on and nothing else, and works once installed."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
SMOKE = Path(__file__).with_name("installed_smoke.py")


def test_zip_holds_the_addon_and_nothing_else(extension_zip: Path) -> None:
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "ik_addon").rglob("*.py")}
    with zipfile.ZipFile(extension_zip) as archive:
        files = {name for name in archive.namelist() if not name.endswith("/")}
    assert files == modules | {"LICENSE", "README.md", "__init__.py", "blender_manifest.toml"}


def test_zip_installs_enables_solves_and_leaves(extension_zip: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, SMOKE, extension_zip],
        env={**os.environ, "BLENDER_USER_RESOURCES": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    output = run.stdout + run.stderr
    assert run.returncode == 0, output
    assert "Traceback" not in output and "Error" not in output, output
    assert run.stdout.splitlines()[-1] == "installed, solved, disabled, enabled, solved, disabled", output

# SPDX-License-Identifier: GPL-3.0-or-later
"""The extension's zip, built as a release is."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def extension_zip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Validated and built by the builder of the installed bpy wheel."""
    if importlib.util.find_spec("bpy") is None:
        pytest.skip("the extension's builder comes with the bpy package, which is not installed")
    build = subprocess.run(
        [sys.executable, ROOT / ".ci" / "build_extension.py", tmp_path_factory.mktemp("zip")],
        capture_output=True,
        text=True,
    )
    assert build.returncode == 0, build.stdout + build.stderr
    return Path(build.stdout.splitlines()[-1])

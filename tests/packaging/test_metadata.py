# SPDX-License-Identifier: GPL-3.0-or-later
"""The extension's manifest, the Python project and the files say the same."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [
    ROOT / "__init__.py",
    *(
        path
        for folder in (".ci", "benchmarks", "examples", "ik_addon", "tests")
        for path in sorted((ROOT / folder).rglob("*.py"))
    ),
]


def toml(name: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / name).read_text("utf-8"))


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    return toml("blender_manifest.toml")


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return toml("pyproject.toml")["project"]


def test_manifest_and_project_agree(manifest: dict[str, Any], project: dict[str, Any]) -> None:
    assert manifest["version"] == project["version"]
    assert manifest["tagline"] == project["description"]
    assert manifest["license"] == [f"SPDX:{project['license']}"]


def test_readme_installs_the_zip_of_this_version(manifest: dict[str, Any]) -> None:
    assert f"{manifest['id']}-{manifest['version']}.zip" in (ROOT / "README.md").read_text("utf-8")


def test_manifest_promises(manifest: dict[str, Any]) -> None:
    assert manifest["id"] == "ik_chains"
    assert manifest["blender_version_min"] == "4.2.0"
    assert "wheels" not in manifest  # NumPy comes with Blender; nothing else is needed
    assert list(manifest["permissions"]) == ["files"]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_source_states_its_licence(source: Path) -> None:
    assert source.read_text("utf-8").startswith("# SPDX-License-Identifier: GPL-3.0-or-later\n")

# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may import whom, read from the sources: the core knows no Blender, arrows run downward."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "ik_addon"
MODULES = sorted(PACKAGE.rglob("*.py"))
BELOW: dict[str, set[str]] = {
    "core": set(),
    "blender": {"core"},
    "ops": {"core", "blender"},
    "ui": {"core", "blender"},
    "cli": {"core", "blender"},
}


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def layer(module: str) -> str | None:
    """`ik_addon.core.aim` -> `core`; None for the top of the package and for everything outside it."""
    parts = module.split(".")
    return parts[1] if parts[0] == "ik_addon" and len(parts) > 1 and parts[1] in BELOW else None


NAMES = frozenset(map(dotted, MODULES))
CORE = [path for path in MODULES if layer(dotted(path)) == "core"]
LAYERED = [path for path in MODULES if layer(dotted(path))]


def each(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=lambda path: path.relative_to(ROOT).as_posix())


def imports(path: Path) -> Iterator[str]:
    """Every module that a source file imports, at its top or inside a function, as an absolute name."""
    package = dotted(path) if path.name == "__init__.py" else dotted(path).rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            members = [f"{base}.{alias.name}" for alias in node.names]
            yield from (member if member in NAMES else base for member in members)


@each(LAYERED)
def test_arrows_run_downward(path: Path) -> None:
    """A layer uses itself and what lies below; of a neighbour (ops, ui, cli) only what its package offers."""
    own = layer(dotted(path))
    for module in imports(path):
        other = layer(module)
        if other in BELOW[own] | {own, None}:
            continue
        assert own not in ("core", "blender"), f"{own} imports {module}, which lies above it"
        assert module == f"ik_addon.{other}", f"{own} reaches into its neighbour: {module}"


@each(CORE)
def test_core_imports_numpy_alone(path: Path) -> None:
    roots = {module.partition(".")[0] for module in imports(path)}
    assert roots <= {"numpy", "ik_addon"} | sys.stdlib_module_names


@each(MODULES)
def test_imports_inside_the_package_are_relative(path: Path) -> None:
    """Installed, the package is called bl_ext.<repository>.ik_chains.ik_addon."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            assert not any(alias.name.split(".")[0] == "ik_addon" for alias in node.names), node.lineno
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            assert node.module.split(".")[0] != "ik_addon", node.lineno


@each(MODULES)
def test_names_of_modules_and_versions_of_blender(path: Path) -> None:
    """The search path stays as it is, and only the compat module asks which Blender this is."""
    expressions = {
        ast.unparse(node)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
    }
    assert "sys.path" not in expressions
    if path.relative_to(PACKAGE).as_posix() != "blender/compat.py":
        assert "bpy.app.version" not in expressions


def test_core_runs_without_blender() -> None:
    """Also the package above it must not need bpy to be imported."""
    modules = [dotted(path) for path in CORE]
    script = (
        "import importlib, sys\n"
        "sys.modules.update(dict.fromkeys(['bpy', 'mathutils', 'bpy_extras', 'gpu']))\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr

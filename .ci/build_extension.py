# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the extension's zip with the builder that the bpy wheel carries. Blender itself is not started.

    python .ci/build_extension.py OUTPUT_FOLDER

Validates the sources, builds, validates the zip, and prints its path as the last line.
"""

import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]


def wheel_file(pattern: str) -> Path:
    """The one file of the installed bpy wheel that matches; bpy is not imported."""
    spec = importlib.util.find_spec("bpy")
    if spec is None or spec.submodule_search_locations is None:
        sys.exit("build_extension: the builder comes with the bpy package, which is not installed here")
    return next(Path(spec.submodule_search_locations[0]).glob(pattern))


def main(output_folder: Path) -> None:
    builder = wheel_file("*/scripts/addons_core/bl_pkg/cli/blender_ext.py")
    tags = wheel_file("*/scripts/modules/_bpy_internal/extensions/tags.py")

    def run(*arguments: str | Path) -> None:
        subprocess.run([sys.executable, builder, *arguments, f"--valid-tags={tags}"], check=True)

    manifest = tomllib.loads((SOURCE / "blender_manifest.toml").read_text("utf-8"))
    built = output_folder / f"{manifest['id']}-{manifest['version']}.zip"
    output_folder.mkdir(parents=True, exist_ok=True)
    run("validate", SOURCE)
    run("build", "--source-dir", SOURCE, "--output-filepath", built)
    run("validate", built)
    print(built)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))

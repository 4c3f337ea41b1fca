# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line, with Blender as the Python package `bpy`."""

import sys

from .cli.program import module_command

if __name__ == "__main__":
    sys.exit(module_command(sys.argv[1:]))

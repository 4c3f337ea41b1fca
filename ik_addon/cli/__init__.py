# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: `python -m ik_addon VERB ...` and `blender --command ik_addon VERB ...`."""

from __future__ import annotations

from typing import Any

_commands: list[Any] = []


def register() -> None:
    """Make `--command ik_addon` known to Blender."""
    import bpy

    from .program import blender_command

    _commands.append(bpy.utils.register_cli_command("ik_addon", blender_command))


def unregister() -> None:
    """Take the command away: registered twice it could not be reached."""
    import bpy

    while _commands:
        bpy.utils.unregister_cli_command(_commands.pop())

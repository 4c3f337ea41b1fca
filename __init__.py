# SPDX-License-Identifier: GPL-3.0-or-later
"""What Blender loads when the extension is enabled; the add-on is the package beside it."""


def register() -> None:
    from . import ik_addon

    ik_addon.register()


def unregister() -> None:
    from . import ik_addon

    ik_addon.unregister()

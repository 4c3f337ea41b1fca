# SPDX-License-Identifier: GPL-3.0-or-later
"""Exact, explainable inverse kinematics for Blender's armatures."""

import importlib

# Name of the add-on in Blender's preferences: of the extension that this package is in.
ADDON_ID = __package__.rpartition(".")[0] or __package__

# Each has register() and unregister(); later ones build on earlier ones.
MODULES = ("blender.properties", "blender.bake_store", "ops", "ui", "cli", "blender.handlers")


def _modules() -> list:
    return [importlib.import_module(f".{name}", __package__) for name in MODULES]


def register() -> None:
    """Add the classes, properties and handlers to Blender."""
    for module in _modules():
        module.register()


def unregister() -> None:
    """Take away all that `register` added."""
    for module in reversed(_modules()):
        module.unregister()

# SPDX-License-Identifier: GPL-3.0-or-later
"""Exact, explainable inverse kinematics for Blender's armatures."""


def register() -> None:
    """Add the classes, properties and handlers to Blender."""


def unregister() -> None:
    """Take away all that `register` added."""

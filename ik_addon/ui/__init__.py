# SPDX-License-Identifier: GPL-3.0-or-later
"""The sidebar tab: panels that only read."""

import bpy

from . import gizmos, panels

register, unregister = bpy.utils.register_classes_factory((*panels.CLASSES, *gizmos.CLASSES))

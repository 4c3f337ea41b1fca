# SPDX-License-Identifier: GPL-3.0-or-later
"""The sidebar tab: panels that only read."""

import bpy

from . import contact_panel, gizmos, panels, plot_panel

register, unregister = bpy.utils.register_classes_factory(
    (*panels.CLASSES, *plot_panel.CLASSES, *contact_panel.CLASSES, *gizmos.CLASSES)
)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Operators: gather, call, report."""

import bpy

from . import bake_ops, chain_ops, contact_ops, drag_op, plot_ops, setup_op, snap_ops, space_ops

draw_bake_settings = bake_ops.draw_settings
draw_contact_settings = contact_ops.draw_settings
PRESETS = chain_ops.PRESETS
PARTS = setup_op.PARTS

MODULES = (chain_ops, setup_op, snap_ops, space_ops, drag_op, contact_ops, bake_ops, plot_ops)
CLASSES = [cls for module in MODULES for cls in module.CLASSES]
register, unregister = bpy.utils.register_classes_factory(CLASSES)

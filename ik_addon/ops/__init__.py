# SPDX-License-Identifier: GPL-3.0-or-later
"""Operators: gather, call, report."""

import bpy

from . import bake_ops, chain_ops, drag_op, snap_ops, space_ops

draw_bake_settings = bake_ops.draw_settings

CLASSES = (*chain_ops.CLASSES, *snap_ops.CLASSES, *space_ops.CLASSES, *drag_op.CLASSES, *bake_ops.CLASSES)
register, unregister = bpy.utils.register_classes_factory(CLASSES)

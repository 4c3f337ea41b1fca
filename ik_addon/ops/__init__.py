# SPDX-License-Identifier: GPL-3.0-or-later
"""Operators: gather, call, report."""

import bpy

from . import chain_ops, snap_ops

register, unregister = bpy.utils.register_classes_factory((*chain_ops.CLASSES, *snap_ops.CLASSES))

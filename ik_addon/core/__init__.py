# SPDX-License-Identifier: GPL-3.0-or-later
"""Inverse kinematics in NumPy alone: no bpy, no mathutils.

Conventions, for every module below: column vectors, right-handed, quaternions
wxyz, radians, float64, matrices ``(..., 4, 4)`` row-major in memory. Functions
take any leading batch dimensions and broadcast them.
"""

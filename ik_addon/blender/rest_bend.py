# SPDX-License-Identifier: GPL-3.0-or-later
"""To which side a limb bends by itself: read off its rest pose."""

from __future__ import annotations

import bpy
import numpy as np

from ..core import limb
from .chain_bones import ChainBones

# A rest pose bent by less than this (radians) is straight: its plane would be noise.
STRAIGHT = 2e-3
# Sine of the angle from which on an end bone leads away from its limb, as a foot does.
ASIDE = 0.5


def rest_hinge(ob: bpy.types.Object, bones: ChainBones, limb_mode: str = "") -> tuple[float, float, float]:
    """The rest bend axis of a chain in the space of its first bone (see `ChainJob.hinge`).

    Of a limb of three bones, with a mode, it is that of the part that is solved as two bones.

    A chain that is bent at rest keeps its side. A straight one of two bones bends to where its end
    bone leads, when that leads aside: a knee to the side of the toes. Any other one bends by a
    positive turn of its lower bones about the first bone's X axis, so the middle goes toward its
    -Z: forward for a leg that was drawn downward with roll 0.
    """
    data = ob.data.bones
    turned = [data[name] for name in bones.turned]
    joints = [bone.head_local for bone in turned]
    joints.append(data[bones.end].head_local if bones.end else turned[-1].tail_local)
    points = np.array([tuple(joint) for joint in joints], float)
    if limb_mode:
        turned = turned[limb.bend_root(limb_mode) :]
        points = limb.bend_joints(points, limb_mode)
    steps = np.diff(points, axis=0)
    bend = np.cross(steps[1:], steps[:-1]).sum(axis=0) if len(steps) > 1 else np.zeros(3)
    scale = np.sum(np.linalg.norm(steps[1:], axis=1) * np.linalg.norm(steps[:-1], axis=1))
    if np.linalg.norm(bend) <= STRAIGHT * scale:
        bend = _toward_end(points, ob, bones)
    if not bend.any():
        return (-1.0, 0.0, 0.0)
    rest = np.array(turned[0].matrix_local.to_3x3(), np.float64)
    return tuple((rest.T @ (bend / np.linalg.norm(bend))).tolist())


def _toward_end(points: np.ndarray, ob: bpy.types.Object, bones: ChainBones) -> np.ndarray:
    """The bend axis of a straight limb whose end bone leads aside; zeros for any other chain.

    An end bone leads to where its children start: importers guess at tails.
    """
    if not bones.end or len(points) != 3:
        return np.zeros(3)
    end = ob.data.bones[bones.end]
    ahead = [tuple(bone.head_local) for bone in end.children] or [tuple(end.tail_local)]
    line, aside = points[-1] - points[0], np.mean(ahead, axis=0) - points[-1]
    axis = np.cross(line, aside)
    is_aside = np.linalg.norm(axis) > ASIDE * np.linalg.norm(line) * np.linalg.norm(aside)
    return axis if is_aside else np.zeros(3)

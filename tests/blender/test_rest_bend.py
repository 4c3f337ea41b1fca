# SPDX-License-Identifier: GPL-3.0-or-later
"""The side to which a limb bends that is straight at rest, as Blender evaluates it."""

import math
from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import armature, edit_mode, head, update

from ik_addon.blender import chains

pytestmark = pytest.mark.usefixtures("fresh")

Vector = tuple[float, float, float]


def straight_leg(foot: Vector, toe: Vector | None = None, roll: float = 0.0) -> bpy.types.Object:
    """A leg along -Z whose foot leads to the offset `foot`; a toe hangs on the foot at an offset."""
    ankle = np.array((0.0, 0.0, 0.1))
    bones = [
        ("thigh", "", (0.0, 0.0, 1.0), (0.0, 0.0, 0.55)),
        ("shin", "thigh", (0.0, 0.0, 0.55), tuple(ankle)),
        ("foot", "shin", tuple(ankle), tuple(ankle + foot)),
    ]
    if toe is not None:
        bones.append(("toe", "foot", tuple(ankle + toe), tuple(ankle + toe + (0.0, 0.0, 0.1))))
    ob = armature("Rig", bones)
    with edit_mode(ob) as edited:
        edited["thigh"].roll = edited["shin"].roll = roll
    update()
    return ob


def bend(ob: bpy.types.Object, **settings: Any) -> np.ndarray:
    """The unit direction to which the knee goes when the ankle is lifted."""
    chain = chains.add(ob, "thigh", "foot", use_tail=False, **settings)
    chain.target_location.z += 0.2
    update()
    assert chain.status == "OK"
    knee = head(ob, "shin")
    assert np.hypot(knee[0], knee[1]) == pytest.approx(math.sqrt(0.45**2 - 0.35**2), abs=1e-5)
    return np.array([knee[0], knee[1]]) / np.hypot(knee[0], knee[1])


@pytest.mark.parametrize("roll", [0.0, 1.0, math.pi, -2.0])
@pytest.mark.parametrize("toward", [(0.0, -1.0), (0.0, 1.0), (0.6, -0.8), (-1.0, 0.0)])
def test_a_knee_bends_to_where_the_foot_leads(toward: tuple[float, float], roll: float) -> None:
    ob = straight_leg((0.2 * toward[0], 0.2 * toward[1], -0.05), roll=roll)
    assert bend(ob) @ toward > 1.0 - 1e-6


def test_where_the_toes_start_counts_more_than_a_tail_that_an_importer_guessed() -> None:
    ob = straight_leg((0.2, 0.0, 0.0), toe=(0.0, -0.2, -0.05))
    assert bend(ob) @ (0.0, -1.0) > 1.0 - 1e-6


@pytest.mark.parametrize("aside", [0.0, 0.05], ids=["in line", "not far off the line"])
@pytest.mark.parametrize("roll", [0.0, 1.0])
def test_a_hand_says_nothing_about_the_elbow(aside: float, roll: float) -> None:
    """Such a limb bends to the -Z of its root bone."""
    ob = straight_leg((0.0, aside, -0.2), roll=roll)
    axis = np.array(ob.data.bones["thigh"].matrix_local, float)[:3, 2]
    assert bend(ob) @ -axis[:2] > 1.0 - 1e-6


def test_a_bent_rest_pose_keeps_its_side() -> None:
    ob = armature(
        "Rig",
        (
            ("thigh", "", (0.0, 0.0, 1.0), (0.0, 0.02, 0.55)),
            ("shin", "thigh", (0.0, 0.02, 0.55), (0.0, 0.0, 0.1)),
            ("foot", "shin", (0.0, 0.0, 0.1), (0.0, -0.2, 0.05)),
        ),
    )
    chain = chains.add(ob, "thigh", "foot", use_tail=False)
    chain.target_location.z += 0.2
    update()
    assert head(ob, "shin")[1] > 0.1


@pytest.mark.parametrize("mode", ["POINT", "DIRECTION"])
def test_a_pole_is_placed_on_the_side_to_which_the_limb_would_bend(mode: str) -> None:
    ob = straight_leg((0.0, 0.2, -0.05), roll=0.4)
    assert bend(ob, pole_mode=mode) @ (0.0, 1.0) > 1.0 - 1e-6

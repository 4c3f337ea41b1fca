# SPDX-License-Identifier: GPL-3.0-or-later
"""Bodies as plain data: a human under the names of many riggers and exporters, and animals."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ik_addon.core.body import RestBone

# hips, spine, clavicle, upper arm, forearm, hand, finger, thigh, shin, foot, toe; {} is the side.
HUMAN = (
    "hips",
    "spine",
    "clavicle",
    "upper_arm",
    "forearm",
    "hand",
    "finger",
    "thigh",
    "shin",
    "foot",
    "toe",
)
STYLES: dict[str, tuple[tuple[str, str], tuple[str, ...]]] = {
    "Blender": ("LR", (
        "hips", "spine", "shoulder.{}", "upper_arm.{}", "forearm.{}", "hand.{}", "f_index.01.{}", "thigh.{}",
        "shin.{}", "foot.{}", "toe.{}",
    )),
    "Rigify, deforming": ("LR", (
        "DEF-spine", "DEF-spine.001", "DEF-shoulder.{}", "DEF-upper_arm.{}", "DEF-forearm.{}", "DEF-hand.{}",
        "DEF-f_index.01.{}", "DEF-thigh.{}", "DEF-shin.{}", "DEF-foot.{}", "DEF-toe.{}",
    )),
    "Mixamo": (("Left", "Right"), (
        "mixamorig:Hips", "mixamorig:Spine", "mixamorig:{}Shoulder", "mixamorig:{}Arm", "mixamorig:{}ForeArm",
        "mixamorig:{}Hand", "mixamorig:{}HandIndex1", "mixamorig:{}UpLeg", "mixamorig:{}Leg",
        "mixamorig:{}Foot", "mixamorig:{}ToeBase",
    )),
    "Unreal": ("lr", (
        "pelvis", "spine_01", "clavicle_{}", "upperarm_{}", "lowerarm_{}", "hand_{}", "index_01_{}",
        "thigh_{}", "calf_{}", "foot_{}", "ball_{}",
    )),
    "VRM": ("LR", (
        "J_Bip_C_Hips", "J_Bip_C_Spine", "J_Bip_{}_Shoulder", "J_Bip_{}_UpperArm", "J_Bip_{}_LowerArm",
        "J_Bip_{}_Hand", "J_Bip_{}_Index1", "J_Bip_{}_UpperLeg", "J_Bip_{}_LowerLeg", "J_Bip_{}_Foot",
        "J_Bip_{}_ToeBase",
    )),
    "3ds Max": ("LR", (
        "Bip01 Pelvis", "Bip01 Spine", "Bip01 {} Clavicle", "Bip01 {} UpperArm", "Bip01 {} Forearm",
        "Bip01 {} Hand", "Bip01 {} Finger0", "Bip01 {} Thigh", "Bip01 {} Calf", "Bip01 {} Foot",
        "Bip01 {} Toe0",
    )),
    "Quaternius": ("LR", (
        "Hips", "Abdomen", "Shoulder.{}", "UpperArm.{}", "LowerArm.{}", "Palm.{}", "Thumb.{}", "UpperLeg.{}",
        "LowerLeg.{}", "Foot.{}", "Toes.{}",
    )),
    "KayKit": ("lr", (
        "hips", "spine", "clavicle.{}", "upperarm.{}", "lowerarm.{}", "wrist.{}", "handslot.{}",
        "upperleg.{}", "lowerleg.{}", "foot.{}", "toes.{}",
    )),
    "CMU joints": (("Left", "Right"), (
        "Hips", "Chest", "{}Collar", "{}Shoulder", "{}Elbow", "{}Wrist", "{}Finger", "{}Hip", "{}Knee",
        "{}Ankle", "{}Toe",
    )),
    "glTF with numbers": (("Left", "Right"), (
        "b_Hip_01", "b_Spine_02", "b_{}Shoulder_03", "b_{}UpperArm_04", "b_{}ForeArm_05", "b_{}Hand_06",
        "b_{}Finger_07", "b_{}UpLeg_08", "b_{}Leg_09", "b_{}Foot_010", "b_{}Toe_011",
    )),
    "words turned round": (("left", "right"), (
        "hips", "spine", "collar_{}", "arm_upper_{}", "arm_lower_{}", "hand_{}", "finger_{}", "leg_upper_{}",
        "leg_lower_{}", "foot_{}", "toe_{}",
    )),
    "side in front": ("lr", (
        "hip", "waist", "{}-shoulder", "{}-arm", "{}-forearm", "{}-hand", "{}-thumb", "{}-thigh", "{}-leg",
        "{}-foot", "{}-toe",
    )),
    "no separators": ("lr", (
        "hips", "spine", "{}collar", "{}upperarm", "{}forearm", "{}hand", "{}thumb", "{}thigh", "{}shin",
        "{}foot", "{}toe",
    )),
    "DAZ": ("lr", (
        "hip", "abdomen", "{}Collar", "{}ShldrBend", "{}ForearmBend", "{}Hand", "{}Thumb1", "{}ThighBend",
        "{}Shin", "{}Foot", "{}Toe",
    )),
    "capitals": (("LEFT", "RIGHT"), (
        "HIPS", "SPINE", "{}_CLAVICLE", "{}_UPPERARM", "{}_FOREARM", "{}_HAND", "{}_THUMB", "{}_THIGH",
        "{}_SHIN", "{}_FOOT", "{}_TOE",
    )),
}  # fmt: skip

# Of the left side, in metres, Z up: a T-pose, straight arms.
PLACES = {
    "hips": (0.0, 0.0, 1.0), "spine": (0.0, 0.0, 1.1), "clavicle": (0.03, 0.0, 1.45),
    "upper_arm": (0.18, 0.0, 1.45), "forearm": (0.45, 0.0, 1.45), "hand": (0.7, 0.0, 1.45),
    "finger": (0.8, 0.0, 1.45), "thigh": (0.1, 0.0, 0.95), "shin": (0.1, -0.02, 0.5),
    "foot": (0.1, 0.02, 0.08), "toe": (0.1, -0.12, 0.02),
}  # fmt: skip
PARENTS = {
    "hips": "", "spine": "hips", "clavicle": "spine", "upper_arm": "clavicle", "forearm": "upper_arm",
    "hand": "forearm", "finger": "hand", "thigh": "hips", "shin": "thigh", "foot": "shin", "toe": "foot",
}  # fmt: skip


def bone(name: str, parent: str, head: Iterable[float], **more: object) -> RestBone:
    """A bone whose tail is, as importers guess, somewhere else."""
    x, y, z = map(float, head)
    return RestBone(name, parent, (x, y, z), (x, y, z + 0.3), **more)


def human(style: str) -> list[RestBone]:
    """A body of one style, left side first."""
    sides, names = STYLES[style]
    return [
        bone(
            names[i].format(side),
            names[HUMAN.index(PARENTS[part])].format(side) if PARENTS[part] else "",
            np.multiply(PLACES[part], (mirror, 1, 1)),
        )
        for i, part in enumerate(HUMAN)
        for side, mirror in zip(sides if "{}" in names[i] else sides[:1], (1, -1), strict=False)
    ]


def names_of(style: str, side: int) -> dict[str, str]:
    """Names of one side, 0 is left, by what they are in `HUMAN`."""
    sides, names = STYLES[style]
    return {part: name.format(sides[side]) for part, name in zip(HUMAN, names, strict=True)}


def line(*joints: tuple[str, tuple[float, float, float]], parent: str = "body") -> list[RestBone]:
    """Bones one below the other."""
    above = [parent, *(name for name, _ in joints)]
    return [bone(name, above[i], head) for i, (name, head) in enumerate(joints)]


def both_sides(joints: list[RestBone]) -> list[RestBone]:
    """Bones named .L, and their mirror images."""
    swapped = [
        replace(
            item,
            name=item.name.replace(".L", ".R"),
            parent=item.parent.replace(".L", ".R"),
            head=(-item.head[0], *item.head[1:]),
            tail=(-item.tail[0], *item.tail[1:]),
        )
        for item in joints
    ]
    return [*joints, *swapped]


def quadruped() -> list[RestBone]:
    """An animal on its toes, as Rigify's, with a tail; Z up, -Y in front."""
    body = [bone("body", "", (0, 0, 1))]
    front = line(
        ("front_thigh.L", (0.1, -0.5, 0.9)), ("front_shin.L", (0.1, -0.45, 0.6)),
        ("front_foot.L", (0.1, -0.5, 0.25)), ("front_toe.L", (0.1, -0.52, 0.04)),
    )  # fmt: skip
    back = line(
        ("thigh.L", (0.1, 0.5, 0.9)), ("shin.L", (0.1, 0.4, 0.6)), ("foot.L", (0.1, 0.6, 0.3)),
        ("toe.L", (0.1, 0.55, 0.03)),
    )  # fmt: skip
    tail = line(("tail", (0, 0.6, 1)), ("tail.001", (0, 0.7, 1)), ("tail.002", (0, 0.8, 0.9)))
    return [*body, *both_sides([*front, *back]), *tail]

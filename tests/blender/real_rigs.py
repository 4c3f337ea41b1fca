# SPDX-License-Identifier: GPL-3.0-or-later
"""Characters made by others: how to load them, and what Blender evaluates of them frame by frame.

Nothing here asks the add-on where a joint is: joints are the heads and tails of evaluated pose bones.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import bpy
import numpy as np

from ik_addon.blender import files

CONFIGS = Path(__file__).parent / "configs"


@dataclass(frozen=True)
class RealRig:
    """A character and a clip of it.

    Attributes:
        file: below the folder of test characters.
        config: name of the rig configuration in `configs`.
        action: the clip; empty: the one that the file is saved or imported with.
        step: every how many frames of a long clip are looked at.
        sheared: the clip scales bones unevenly, so that a limb is longer in one pose than in another.
    """

    file: str
    config: str
    action: str = ""
    step: int = 1
    sheared: bool = False

    @property
    def name(self) -> str:
        clip = self.action.rpartition("|")[2] or Path(self.file).suffix[1:]
        return f"{Path(self.file).stem}-{clip}"


REAL_RIGS = (
    RealRig("cesium_man/cesium_man.gltf", "cesium_man"),
    RealRig("fox/Fox.glb", "fox", "Survey"),
    RealRig("fox/Fox.glb", "fox", "Run"),
    RealRig("godot_player/player.glb", "player", "walk", sheared=True),
    RealRig("kaykit/Med_MovementBasic.glb", "kaykit", "Rig_Medium|Walking_A"),
    RealRig("kaykit/Med_MovementBasic.glb", "kaykit", "Rig_Medium|Jump_Full_Long"),
    RealRig("kaykit/Med_General.glb", "kaykit", "Rig_Medium|Interact"),
    RealRig("kaykit/Med_General.glb", "kaykit", "Rig_Medium|Throw"),
    RealRig("mannequiny/mannequiny.glb", "mannequiny", "fight_kick_root.001", sheared=True),
    RealRig("mannequiny/mannequiny.glb", "mannequiny", "dash_root.001", sheared=True),
    RealRig("quaternius_glb/Spider.glb", "spider_glb", "SpiderArmature|Spider_Walk"),
    RealRig("quaternius_glb/Snake.glb", "snake_glb", "SnakeArmature|Snake_Attack"),
    RealRig("quaternius_glb/Apatosaurus.glb", "apatosaurus", "Armature|Apatosaurus_Walk", step=2),
    RealRig("quaternius_blend/Spider.blend", "spider_blend", step=2),
    RealRig("quaternius_blend/Snake.blend", "snake_blend"),
    RealRig("quaternius_blend/Dog.blend", "dog_blend"),
    RealRig("quaternius_blend/Horse.blend", "horse_blend", "Walk"),
    RealRig("robot_expressive/RobotExpressive.blend", "robot_blend", "Robot_Walking"),
    RealRig("bvh_cmu/cmu_12_01_walk.bvh", "cmu_12_01", step=4),
    RealRig("bvh_cmu/02_01.bvh", "cmu_02_01", step=3),
    RealRig("tentacle/InfiniteSkinnedTentacle.glb", "tentacle", step=3),
)


def open_rig(rig: RealRig, folder: Path) -> tuple[bpy.types.Object, list[float]]:
    """Load a character with its clip assigned; its armature object and the frames to look at."""
    files.load(folder / rig.file)
    ob = next(ob for ob in bpy.data.objects if ob.type == "ARMATURE")
    mute_native_ik(ob)
    take_meshes_away()
    if rig.action:
        assign(ob, clip(rig.action))
    first, last = ob.animation_data.action.frame_range
    whole = list(range(int(np.ceil(first)), int(np.floor(last)) + 1, rig.step))
    middle = whole[len(whole) // 2]
    return ob, [*whole, middle + 0.25, middle + 0.5]


def clip(name: str) -> bpy.types.Action:
    """An imported action; before Blender 4.4 the importer puts the armature's name behind it."""
    found = [a for a in bpy.data.actions if a.name == name or a.name.startswith(f"{name}_")]
    return min(found, key=lambda action: len(action.name))


def assign(ob: bpy.types.Object, action: bpy.types.Action) -> None:
    """Give an object an action to play, with the slot that the action keeps for it."""
    ob.animation_data_create().action = action
    if hasattr(action, "slots"):
        ob.animation_data.action_slot = action.slots[0]


def mute_native_ik(ob: bpy.types.Object) -> None:
    """Switch Blender's own IK off, as a rigger does before our chains take the limb over."""
    for bone in ob.pose.bones:
        for constraint in bone.constraints:
            if getattr(constraint, "type", None) == "IK":
                constraint.mute = True


def take_meshes_away() -> None:
    """Skinned meshes cost most of a frame and show nothing that the bones do not."""
    for ob in list(bpy.data.objects):
        if ob.type == "MESH":
            bpy.data.objects.remove(ob)


@dataclass(frozen=True)
class Recording:
    """What Blender evaluated of one armature object at F frames.

    Attributes:
        names: of the n bones.
        matrices: ``(F, n, 4, 4)`` float32, pose matrices in armature space.
        heads, tails: ``(F, n, 3)`` in world space.
        residual, status: ``(F, chains)`` as the chains' properties show them.
    """

    names: list[str]
    matrices: np.ndarray
    heads: np.ndarray
    tails: np.ndarray
    residual: np.ndarray
    status: np.ndarray

    def joints(self, bones: Sequence[str], end: str) -> np.ndarray:
        """World positions ``(F, joints, 3)`` of the heads of `bones`, then the head of `end`
        or, for an empty string, the tail of the last bone."""
        at = [self.names.index(name) for name in bones]
        tip = self.heads[:, self.names.index(end)] if end else self.tails[:, at[-1]]
        return np.concatenate([self.heads[:, at], tip[:, None]], axis=1)


def go_to(frame: float) -> None:
    whole = int(np.floor(frame))
    bpy.context.scene.frame_set(whole, subframe=frame - whole)


def record(ob: bpy.types.Object, frames: Iterable[float]) -> Recording:
    """Step through frames and write down the evaluated pose of each."""
    rows: list[list[np.ndarray]] = [[], [], [], [], []]
    for frame in frames:
        go_to(frame)
        seen = ob.evaluated_get(bpy.context.evaluated_depsgraph_get())
        count = len(seen.pose.bones)
        matrices = np.empty(count * 16, np.float32)
        seen.pose.bones.foreach_get("matrix", matrices)
        world = np.array(seen.matrix_world, np.float64)
        rows[0].append(matrices.reshape(count, 4, 4).transpose(0, 2, 1))
        for place, end in ((1, "head"), (2, "tail")):
            points = np.empty(count * 3, np.float32)
            seen.pose.bones.foreach_get(end, points)
            rows[place].append(points.reshape(count, 3) @ world[:3, :3].T + world[:3, 3])
        rows[3].append(np.array([chain.residual for chain in ob.ik_chains]))
        rows[4].append(np.array([chain.status for chain in ob.ik_chains], dtype=object))
    return Recording([bone.name for bone in ob.pose.bones], *(np.stack(part) for part in rows))


def path_of(ob: bpy.types.Object, root: str, end: str, use_tail: bool) -> tuple[list[str], str]:
    """Names of the bones from root down to the tip, and the end bone when the tip is its head."""
    bone = ob.data.bones[end]
    names = [bone.name]
    while bone.name != root:
        bone = bone.parent
        names.insert(0, bone.name)
    return (names, "") if use_tail else (names[:-1], end)


def geometric_gap(distance: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """How far from its target a free chain must stay, ``(F,)``.

    Args:
        distance: ``(F,)`` from root to target.
        lengths: ``(F, n)`` of the bones.
    """
    outer = lengths.sum(axis=1)
    inner = np.maximum(2.0 * lengths.max(axis=1) - outer, 0.0)
    return np.maximum(np.maximum(distance - outer, inner - distance), 0.0)

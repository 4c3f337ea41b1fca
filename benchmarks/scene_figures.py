# SPDX-License-Identifier: GPL-3.0-or-later
"""How exact our chains and Blender's IK constraint are on the same rig, read back from Blender's evaluation.

All rigs are chains of length 1 near the origin, so that distances are shares of the length.
"""

from __future__ import annotations

from collections.abc import Iterator

import bpy
import numpy as np
import rigs
from core_figures import FULL, number, turned, unit

from ik_addon.blender import bake, chains, ranges
from ik_addon.core.job import Status
from ik_addon.core.transforms import axis_angle_to_matrix, matrix_to_quaternion, quaternion_to_axis_angle

# Steps of targets on paths, as a share of the length: small, but far above float32.
STEP = 0.01
# Half angle of the cone about the singular line that paths stay out of, radians.
CONE = np.radians(5.0)


def row(*cells: str) -> str:
    """A line of a table."""
    return f"| {' | '.join(cells)} |"


def head(*cells: str) -> Iterator[str]:
    """The first lines of a table."""
    yield ""
    yield row(*cells)
    yield "|" + "---|" * len(cells)


class Rig:
    """A chain of equal bones of length 1 that bows by 40 degrees, with empties for target and pole."""

    def __init__(self, bones: int, straight: bool = False) -> None:
        bpy.ops.wm.read_factory_settings(use_empty=True)
        self.bones = bones
        armature = bpy.data.armatures.new("Rig")
        self.ob = self._linked(bpy.data.objects.new("Rig", armature))
        bpy.context.view_layer.objects.active = self.ob
        bpy.ops.object.mode_set(mode="EDIT")
        bend = 0.0 if straight else np.radians(20.0)
        head, parent = np.array([0.0, 0.0, 0.5]), None
        for k, angle in enumerate(np.linspace(bend, -bend, bones)):
            tail = head + np.array([0.0, -np.sin(angle), -np.cos(angle)]) / bones
            bone = armature.edit_bones.new(f"bone{k}")
            bone.head, bone.tail, bone.parent, bone.use_connect = head, tail, parent, parent is not None
            head, parent = tail, bone
        bpy.ops.object.mode_set(mode="OBJECT")
        self.target = self._linked(bpy.data.objects.new("Target", None))
        self.pole = self._linked(bpy.data.objects.new("Pole", None))
        self.rest = self.joints_now()
        self.root, self.length = self.rest[0], float(np.linalg.norm(np.diff(self.rest, axis=0), axis=1).sum())

    def _linked(self, ob: bpy.types.Object) -> bpy.types.Object:
        bpy.context.scene.collection.objects.link(ob)
        return ob

    @property
    def names(self) -> tuple[str, str]:
        return "bone0", f"bone{self.bones - 1}"

    def joints_now(self) -> np.ndarray:
        """Evaluated positions ``(n + 1, 3)`` of the joints, in the world."""
        bpy.context.view_layer.update()
        seen = self.ob.evaluated_get(bpy.context.evaluated_depsgraph_get()).pose.bones
        points = [seen[f"bone{k}"].head for k in range(self.bones)] + [seen[self.names[1]].tail]
        return np.array(points, dtype=np.float64)

    def turns_now(self) -> np.ndarray:
        """Evaluated orientations ``(n, 3, 3)`` of the bones."""
        seen = self.ob.evaluated_get(bpy.context.evaluated_depsgraph_get()).pose.bones
        return np.array([seen[f"bone{k}"].matrix.to_3x3().normalized() for k in range(self.bones)], float)

    def put(self, goals: np.ndarray) -> None:
        """Key the target at the points ``(F, 3)``, relative to the root, on frames 1 to F."""
        self.target.animation_data_clear()
        for frame, goal in enumerate(goals, start=1):
            self.target.location = self.root + goal
            self.target.keyframe_insert("location", frame=frame)

    def play(self, count: int) -> np.ndarray:
        """Joints ``(F, n + 1, 3)`` relative to the root over the frames 1 to F."""
        out = []
        for frame in range(1, count + 1):
            bpy.context.scene.frame_set(frame)
            out.append(self.joints_now())
        return np.array(out) - self.root

    def use_blender(self, pole: bool = False) -> bpy.types.Constraint:
        self.use_nothing()
        constraint = self.ob.pose.bones[self.names[1]].constraints.new("IK")
        constraint.target, constraint.chain_count = self.target, self.bones
        if pole:
            constraint.pole_target = self.pole
        return constraint

    def use_ours(self, pole: bool = False, solver: str = "") -> bpy.types.PropertyGroup:
        self.use_nothing()
        settings = {"target_space": "CUSTOM", "target": self.target, "target_location": (0.0, 0.0, 0.0)}
        if pole:
            settings |= {"pole_mode": "POINT", "pole_space": "CUSTOM", "pole_target": self.pole}
            settings |= {"pole_location": (0.0, 0.0, 0.0)}
        solver = solver or ("TWO_BONE" if self.bones == 2 else "FABRIK")
        return chains.add(self.ob, *self.names, solver=solver, **settings)

    def use_nothing(self) -> None:
        rigs.remove_blender_ik(self.ob)
        while len(self.ob.ik_chains):
            chains.remove(self.ob, 0)


def directions(rng: np.random.Generator, count: int) -> np.ndarray:
    return unit(rng.normal(size=(count, 3)))


def off_target(joints: np.ndarray, goals: np.ndarray) -> np.ndarray:
    return np.linalg.norm(joints[:, -1] - goals, axis=-1)


def lengths(joints: np.ndarray) -> np.ndarray:
    return np.linalg.norm(np.diff(joints, axis=1), axis=-1)


def both(rig: Rig, goals: np.ndarray, pole: bool = False) -> list[np.ndarray]:
    """Joints under Blender's constraint and under our chain."""
    return [play_blender(rig, goals, pole), play_ours(rig, goals, pole)]


def largest(values: np.ndarray) -> str:
    return number(float(values.max()))


def lines(count: int = 200) -> Iterator[str]:
    """All tables; ``count`` seeded targets for each line."""
    yield from in_reach(count)
    yield from hard_places(count)
    yield from continuity(count)


def in_reach(count: int) -> Iterator[str]:
    yield from head("tip off the target, in L", *("Blender, median", "max", "IK Chains, median", "max"))
    grown = [0.0, 0.0]
    for bones in (2, 3, 5, 10, 20, 50):
        rng, rig = np.random.default_rng(bones), Rig(bones)
        goals = directions(rng, count) * rng.uniform(0.05, FULL, (count, 1))
        played = both(rig, goals)
        for place, joints in enumerate(played):
            stretch = np.abs(lengths(joints) / lengths(rig.rest[None]) - 1.0)
            grown[place] = max(grown[place], float(stretch.max()))
        off = [off_target(joints, goals) for joints in played]
        figures = [number(float(f(o))) for o in off for f in (np.median, np.max)]
        solver = "two-bone" if bones == 2 else "FABRIK"
        yield row(f"{bones} bones, {solver}", *figures)
        if bones > 2:
            rig.use_ours(solver="CCD")
            off = off_target(rig.play(count), goals)
            yield row(f"{bones} bones, CCD", "", "", number(float(np.median(off))), largest(off))
    yield row(
        "change of a bone's length in all these, as a share", "", number(grown[0]), "", number(grown[1])
    )


def hard_places(count: int) -> Iterator[str]:
    yield from head("largest values, in L", "Blender's IK constraint", "IK Chains")
    straight = Rig(2, straight=True)
    straight.pole.location = straight.root + (0.0, -3.0, -0.5)
    goals = np.array([0.0, 0.0, -1.0]) * np.linspace(0.3, 0.95, 20)[:, None]
    for pole, name in ((False, ""), (True, ", with a pole")):
        off = [largest(off_target(joints, goals)) for joints in both(straight, goals, pole)]
        yield row(f"straight at rest, targets on its line{name}: tip off the target", *off)
    rig = Rig(2)
    rig.pole.location = rig.root + (0.0, -3.0, 0.0)
    on_line = np.array([0.0, -1.0, 0.0]) * np.linspace(0.3, 0.95, 20)[:, None]
    for name, goals in (
        ("target on the line to the pole", on_line),
        ("target on the root, pole", np.zeros((2, 3))),
    ):
        played = both(rig, goals, True)
        shrunk = [1.0 - lengths(joints) / lengths(rig.rest[None]) for joints in played]
        yield row(f"{name}: tip off the target", *(largest(off_target(joints, goals)) for joints in played))
        yield row(f"{name}: share of a bone's length that is lost", *(largest(np.abs(s)) for s in shrunk))
    for bones in (2, 10):
        rng, rig = np.random.default_rng(100 + bones), Rig(bones)
        distance = rng.uniform(1.0, 2.0, count) * rig.length
        goals = directions(rng, count) * distance[:, None]
        further = [off_target(j, goals) - (distance - rig.length) for j in both(rig, goals)]
        name = f"{bones} bones, targets out of reach: further off than geometry demands"
        yield row(name, *(largest(np.abs(f)) for f in further))
    yield from influence(count)
    yield row("does it tell the distance that remains, and why", *reports())


def arc(nearest: np.ndarray, side: np.ndarray, distance: float, half: float) -> np.ndarray:
    """Targets ``(F, 3)`` in steps of `STEP` to both sides of a direction, as far as an angle of ``half``."""
    count = int(half * distance / STEP)
    angles = np.arange(-count, count + 1)[:, None] * STEP / distance
    return distance * (np.cos(angles) * nearest + np.sin(angles) * side)


def steps_of_joints(joints: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Of each step ``(F - 1,)`` the largest one of a joint, over that of the target."""
    moved = np.linalg.norm(np.diff(joints, axis=0), axis=-1).max(axis=1)
    return moved / np.linalg.norm(np.diff(goals, axis=0), axis=-1)


def continuity(count: int) -> Iterator[str]:
    few = max(2, count // 40)
    ways = (f"{few} circles, outside 5° of the line", f"{few} paths 5° beside it", f"{few} paths through it")
    names = ("Blender", "IK Chains", "baked with carried bend")
    yield from head("largest step of a joint over a step of its target of 0.01 L", "on", *names)
    for bones, pole in ((2, False), (2, True), (10, False)):
        rig, rng = Rig(bones), np.random.default_rng(200 + bones + pole)
        axis = np.array([0.0, -1.0, 0.0]) if pole else -unit(rig.rest[-1] - rig.root)
        rig.pole.location = rig.root + 3.0 * axis
        chain = f"{bones} bones, {'with a pole' if pole else 'no pole'}"
        for way, paths in zip(ways, singular_paths(rng, few, axis), strict=True):
            figures = []
            for play in (play_blender, play_ours, play_baked)[: 3 if bones == 2 else 2]:
                ratios = [steps_of_joints(play(rig, goals, pole), goals) for goals in paths]
                seen = [
                    r[outside(g, axis, pole) | (way is ways[2])] for r, g in zip(ratios, paths, strict=True)
                ]
                figures.append(largest(np.concatenate(seen)))
            yield row(chain, way, *figures, *[""] * (3 - len(figures)))


def singular_paths(rng: np.random.Generator, few: int, axis: np.ndarray) -> list[list[np.ndarray]]:
    """Circles anywhere, paths beside the direction ``axis`` and paths through it."""
    circles, beside, through = [], [], []
    for _ in range(few):
        start = unit(rng.normal(size=3))
        circles.append(arc(start, unit(np.cross(start, rng.normal(size=3))), rng.uniform(0.3, FULL), np.pi))
        side, distance = unit(np.cross(axis, rng.normal(size=3))), rng.uniform(0.3, FULL)
        beside.append(arc(turned(axis, side, np.array(1.01 * CONE)), side, distance, 0.3))
        through.append(arc(axis, side, distance, 0.5))
    return [circles, beside, through]


def outside(goals: np.ndarray, axis: np.ndarray, both_ends: bool) -> np.ndarray:
    """Steps ``(F - 1,)`` that stay out of the cone about a line, or about one end of it."""
    cosine = unit(goals) @ axis
    far = (np.abs(cosine) if both_ends else cosine) < np.cos(CONE)
    return far[1:] & far[:-1]


def play_blender(rig: Rig, goals: np.ndarray, pole: bool) -> np.ndarray:
    rig.put(goals)
    rig.use_blender(pole)
    return rig.play(len(goals))


def play_ours(rig: Rig, goals: np.ndarray, pole: bool) -> np.ndarray:
    rig.put(goals)
    rig.use_ours(pole)
    return rig.play(len(goals))


def play_baked(rig: Rig, goals: np.ndarray, pole: bool) -> np.ndarray:
    rig.put(goals)
    rig.use_ours(pole)
    options = bake.BakeOptions((1, len(goals)), carry_bend=True)
    ranges.run(bake.bake(bpy.context.scene, [rig.ob], options))
    played = rig.play(len(goals))
    bake.unbake([rig.ob])
    return played


def influence(count: int) -> Iterator[str]:
    """Influence 0.5 beside half the turn from FK to solved of each bone, in its parent's space."""
    for pole in (False, True):
        rig, rng = Rig(2), np.random.default_rng(300 + pole)
        goals = directions(rng, count) * rng.uniform(0.3, 0.95, (count, 1))
        rig.pole.location = rig.root + (0.4, -3.0, 0.2)
        fk = local(rig.turns_now())
        texts = []
        for use in (rig.use_blender, rig.use_ours):
            off = 0.0
            owner = use(pole)
            for goal in goals:
                rig.target.location = rig.root + goal
                turns = {}
                for weight in (1.0, 0.5):
                    owner.influence = weight
                    rig.joints_now()
                    turns[weight] = local(rig.turns_now())
                off = max(off, off_half_way(fk, turns[1.0], turns[0.5]))
            texts.append(f"{number(np.degrees(off))}°")
        name = "with a pole" if pole else "no pole"
        yield row(f"influence 0.5, {name}: a bone off half of its turn, in degrees", *texts)


def local(turns: np.ndarray) -> np.ndarray:
    """Orientations of bones in their parents' frames."""
    above = np.concatenate([np.eye(3)[None], turns[:-1]])
    return np.swapaxes(above, -1, -2) @ turns


def off_half_way(fk: np.ndarray, solved: np.ndarray, half: np.ndarray) -> float:
    """Largest angle between a bone's turn and half the one from FK to solved; ``(n, 3, 3)`` each.

    Turns by nearly a half circle have two ways round, and are left out.
    """
    axis, angle = quaternion_to_axis_angle(matrix_to_quaternion(np.swapaxes(fk, -1, -2) @ solved))
    wanted = fk @ axis_angle_to_matrix(axis, 0.5 * angle)
    _, off = quaternion_to_axis_angle(matrix_to_quaternion(np.swapaxes(wanted, -1, -2) @ half))
    return float(off[angle < np.radians(179.0)].max(initial=0.0))


def reports() -> tuple[str, str]:
    """What each solver tells of a target that is out of reach."""
    rig = Rig(2)
    rig.target.location = rig.root + (0.0, 0.0, -1.25)
    constraint = rig.use_blender()
    told = [name for name in ("residual", "status", "is_reached") if hasattr(constraint, name)]
    chain = rig.use_ours()
    bpy.context.view_layer.update()
    assert chain.status == Status.TARGET_FAR.name
    return ", ".join(told) or "no", f"yes: {chain.residual:.2f} L, {chain.status}"

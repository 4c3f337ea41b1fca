# SPDX-License-Identifier: GPL-3.0-or-later
"""Random rigs and frames for the pipeline, and forward kinematics of what it returns."""

import numpy as np

from ik_addon.core import pipeline, stage
from ik_addon.core.graph import solve_order
from ik_addon.core.skeleton import Skeleton, forward
from ik_addon.core.stretch import stretched_bones
from ik_addon.core.transforms import compose, normalize, quaternion_to_matrix, slerp

FRAMES = 7
# hips > spine > chest > upper > lower > hand, and a loose bone.
NAMES = ("hips", "spine", "chest", "upper", "lower", "hand", "loose")
PARENTS = (-1, 0, 1, 2, 3, 4, -1)
UPPER, LOWER, HAND, LOOSE = 3, 4, 5, 6


def random_turns(rng, *shape, angle=None):
    q = normalize(rng.normal(size=(*shape, 4)))
    return q if angle is None else slerp(np.broadcast_to([1.0, 0, 0, 0], q.shape), q, np.full(shape, angle))


def skeleton(rng, rigs=1, **changes):
    rest = np.empty((7 * rigs, 4, 4))
    for bone in range(7 * rigs):
        parent = PARENTS[bone % 7]
        step = compose(
            rng.uniform(-0.2, 0.2, 3) + [0, 1, 0], quaternion_to_matrix(random_turns(rng, angle=0.2))
        )
        rest[bone] = step if parent < 0 else rest[bone // 7 * 7 + parent] @ step
    count = 7 * rigs
    fields = {
        "inherit_rotation": np.ones(count, bool),
        "inherit_scale": np.zeros(count, int),
        "local_location": np.ones(count, bool),
        "connected": np.zeros(count, bool),
        **changes,
    }
    return Skeleton(
        names=tuple(f"{bone // 7}/{NAMES[bone % 7]}" for bone in range(count)),
        parents=np.array([p if p < 0 else p + 7 * rig for rig in range(rigs) for p in PARENTS]),
        rest=rest,
        lengths=np.full(count, 0.8),
        **fields,
    )


def build(bones, chains, carriers=None, rigs=1):
    """A stage of `chains`; their dependencies are worked out from parents alone."""

    def above(bone):
        return {bone} | (above(bones.parents[bone]) if bones.parents[bone] >= 0 else set())

    carriers = np.full(rigs, -1) if carriers is None else np.array(carriers)
    reads = []
    for chain in chains:
        looked_at = [*chain.written] + [s.index for s in (chain.target, chain.pole) if s.kind == stage.BONE]
        looked_at += [carriers[s.index] for s in (chain.target, chain.pole) if s.kind == stage.OBJECT]
        reads.append(frozenset().union(*(above(b) for b in looked_at if b >= 0)))
    writes = [frozenset(chain.written) for chain in chains]
    shifts = [chain.move_bone if chain.handling == "MOVE_ROOT" else None for chain in chains]
    turned = sorted({bone for chain in chains for bone in chain.written})
    held = {*turned, *(b for b in shifts if b is not None)}
    for chain in chains:
        if chain.handling == "STRETCH":
            held.update(stretched_bones(bones, chain.bones, chain.end))
    posed = [b for b in range(len(bones.names)) if above(b) & held]
    return stage.Stage(
        skeleton=bones,
        rig_of_bone=np.arange(len(bones.names)) // 7,
        carriers=carriers,
        chains=tuple(chains),
        waves=solve_order(reads, writes, shifts).waves,
        posed=np.array(posed),
        turned=np.isin(posed, turned),
        constrained=np.zeros(0, int),
    )


class Shot:
    """Random FK channels and object matrices over some frames, and the batch they make."""

    def __init__(self, rng, bones, objects=1, scale=False, bend=0.6):
        count = len(bones.names)
        self.location = rng.normal(scale=0.1, size=(FRAMES, count, 3))
        self.rotation = random_turns(rng, FRAMES, count, angle=bend)
        self.scale = rng.uniform(0.7, 1.4, (FRAMES, count, 3)) if scale else np.ones((FRAMES, count, 3))
        turns = quaternion_to_matrix(random_turns(rng, FRAMES, objects))
        self.objects = compose(rng.normal(size=(FRAMES, objects, 3)), turns, rng.uniform(0.5, 2.0))
        self.bones = bones

    def pose(self, rotation=None, location=None, scale=None):
        turns = quaternion_to_matrix(self.rotation if rotation is None else rotation)
        location = self.location if location is None else location
        return forward(self.bones, compose(location, turns, self.scale if scale is None else scale))

    def batch(self, scene, **settings):
        chains = len(scene.chains)
        values = {
            "influence": np.ones((FRAMES, chains)),
            "target_location": np.zeros((FRAMES, chains, 3)),
            "target_rotation": np.tile([1.0, 0, 0, 0], (FRAMES, chains, 1)),
            "pole_location": np.zeros((FRAMES, chains, 3)),
            "pole_angle": np.zeros((FRAMES, chains)),
            "bend_sign": np.ones((FRAMES, chains)),
            "offset_yaw": np.zeros((FRAMES, chains)),
            "softness": np.zeros((FRAMES, chains)),
            "share": np.full((FRAMES, chains), 0.3),
            "share_max": np.full((FRAMES, chains), 0.5),
            "lean": np.ones((FRAMES, chains)),
            "aim_offset": np.zeros((FRAMES, chains, 3)),
            "aim_limit": np.full((FRAMES, chains), np.pi),
            "aim_damping": np.zeros((FRAMES, chains)),
            "move_max": np.full((FRAMES, chains), 10.0),
            "stretch_max": np.full((FRAMES, chains), 0.1),
        }
        values.update({k: np.broadcast_to(v, values[k].shape).astype(float) for k, v in settings.items()})
        channels = (self.location, self.rotation, self.scale)
        location, rotation, scale = (c[:, scene.posed] for c in channels)
        return pipeline.Batch(self.pose(), self.objects, location, rotation, scale, values)

    def solved_pose(self, scene, solution):
        """Forward kinematics of every bone from the solved channels alone."""
        rotation, location, scale = self.rotation.copy(), self.location.copy(), self.scale.copy()
        rotation[:, scene.posed[scene.turned]] = solution.rotation[:, scene.turned]
        for own, channel, changed in (
            (location, solution.location, solution.moved),
            (scale, solution.scale, solution.scaled),
        ):
            at = changed.any(axis=0)
            own[:, scene.posed[at]] = channel[:, at]
        return self.pose(rotation, location, scale)


def reachable(shot, rng, joints=(UPPER, LOWER, HAND)):
    """Random targets in armature space that the two-bone chain can reach."""
    heads = shot.pose()[:, list(joints)][..., :3, 3]
    upper, lower = np.linalg.norm(np.diff(heads, axis=1), axis=-1).T
    distance = rng.uniform(np.abs(upper - lower) + 0.02, (upper + lower) * 0.98)
    return heads[:, 0] + normalize(rng.normal(size=(FRAMES, 3))) * distance[:, None]

# SPDX-License-Identifier: GPL-3.0-or-later
"""How exact the solvers are by themselves: float64, no Blender; beside what they are meant to keep."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from ik_addon.core import carried, ccd, fabrik, two_bone  # noqa: E402
from ik_addon.core.bend_plane import SIN_CONE  # noqa: E402
from ik_addon.core.job import ChainJob, ChainResult  # noqa: E402
from ik_addon.core.reach import reach_range, soft_distance  # noqa: E402

FULL = 0.999


@dataclass(frozen=True)
class Figure:
    """One line of the table: what was measured, the bound that is meant to hold, the largest value."""

    what: str
    aim: float
    measured: float
    unit: str = "L"

    @property
    def met(self) -> bool:
        return self.measured <= self.aim

    @property
    def row(self) -> str:
        verdict = "yes" if self.met else "**no**"
        unit = f" {self.unit}" if self.unit else ""
        return f"| {self.what} | {number(self.aim)}{unit} | {number(self.measured)}{unit} | {verdict} |"


def number(value: float) -> str:
    """Two digits: 0.0123 is 0.012, 3.14e-16 is 3.1e-16, 34.2 is 34."""
    if value == 0.0:
        return "0"
    if 0.001 <= abs(value) < 1e6:
        return f"{value:.2g}" if abs(value) < 100.0 else f"{value:,.0f}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


def unit(v: np.ndarray) -> np.ndarray:
    return v / np.linalg.norm(v, axis=-1, keepdims=True)


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("...i,...i->...", a, b)


def turned(v: np.ndarray, axis: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Vectors turned about unit axes, right-handed (Rodrigues)."""
    cosine, sine = np.cos(angle)[..., None], np.sin(angle)[..., None]
    return cosine * v + sine * np.cross(axis, v) + (1.0 - cosine) * dot(axis, v)[..., None] * axis


def figures(count: int = 100_000) -> Iterator[Figure]:
    """All lines; ``count`` seeded cases for each of the quick ones."""
    yield from two_bone_figures(np.random.default_rng(1), count)
    yield from continuity_figures()
    yield from chain_figures(np.random.default_rng(2), max(20, count // 100))
    yield from soft_figures(np.random.default_rng(3), count)


def limbs(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Limbs of length 1 with bones of all ratios up to 1 : 1000, bent at random; joints and bone lengths."""
    share = 10.0 ** rng.uniform(-3.0, np.log10(0.5), count)
    lengths = np.stack([share, 1.0 - share], axis=1)
    lengths = np.where(rng.random(count)[:, None] < 0.5, lengths, lengths[:, ::-1])
    steps = unit(rng.normal(size=(count, 2, 3))) * lengths[..., None]
    joints = np.zeros((count, 3, 3))
    joints[:, 1:] = np.cumsum(steps, axis=1)
    return joints, lengths


def two_bone_figures(rng: np.random.Generator, count: int) -> Iterator[Figure]:
    joints, lengths = limbs(rng, count)
    inner, _ = reach_range(lengths)
    line = unit(rng.normal(size=(count, 3)))
    pole = unit(rng.normal(size=(count, 3)))
    hinge = two_bone.bend_normal(joints, rng.normal(size=(count, 3)))
    target = line * rng.uniform(inner, FULL)[:, None]
    result = two_bone.solve(ChainJob(joints, target, hinge, pole))
    yield Figure("two bones, target in reach: tip off the target", 1e-9, result.residual.max())
    wanted = np.cross(line, pole)
    clear = np.linalg.norm(wanted, axis=-1) > SIN_CONE
    normal = np.einsum("nij,nj->ni", result.rotations[:, 0], hinge)
    off = np.linalg.norm(np.cross(unit(normal[clear]), unit(wanted[clear])), axis=-1)
    yield Figure("two bones with a pole: angle between the bend plane and the pole", 1e-9, off.max(), "rad")
    grown = np.abs(np.linalg.norm(np.diff(result.joints, axis=1), axis=-1) - lengths)
    yield Figure("two bones: change of a bone's length", 1e-9, grown.max())

    far = rng.uniform(1.0, 3.0, count)
    near = rng.uniform(0.0, 1.0, count) * inner * (rng.random(count) < 0.9)
    for name, distance in (("out of reach", far), ("too near, or on the root", near)):
        result = two_bone.solve(ChainJob(joints, line * distance[:, None], hinge, pole))
        least = np.maximum(distance - 1.0, inner - distance)
        extra = np.abs(result.residual - np.maximum(least, 0.0))
        yield Figure(f"two bones, target {name}: further off than geometry demands", 1e-9, extra.max())


def largest_ratio(job: Callable[[np.ndarray], ChainJob], line: np.ndarray, distance: float) -> float:
    """Largest step of the middle joint over a small one of its target at some directions ``(n, 3)``."""
    start = two_bone.solve(job(distance * line)).joints[:, 1]
    side = unit(np.cross(line, [0.3, 0.5, 0.8]))
    largest = 0.0
    for angle in np.linspace(0.0, np.pi, 13):
        aside = turned(side, line, np.full(len(line), angle))
        step = 1e-7
        moved = two_bone.solve(job(distance * (line * np.cos(step) + aside * np.sin(step)))).joints[:, 1]
        largest = max(largest, float((np.linalg.norm(moved - start, axis=-1) / (step * distance)).max()))
    return largest


def continuity_figures() -> Iterator[Figure]:
    elbow = np.array([[0, 0, 0], [0, 0.5, 0], [0.5, 0.5, 0]])
    hinge = np.array([0.0, 0.0, 1.0])
    opposite, pole = -unit(elbow[2]), np.array([0.0, 0.6, 0.8])

    def auto(target: np.ndarray) -> ChainJob:
        return ChainJob(elbow, target, hinge)

    def to_pole(target: np.ndarray) -> ChainJob:
        return ChainJob(elbow, target, hinge, pole)

    around = np.linspace(0.0, 2.0 * np.pi, 25)[:-1]

    def off_line(axis: np.ndarray, degrees: float) -> np.ndarray:
        """Directions at an angle from an axis, all round it."""
        side = unit(np.cross(axis, [0.2, -0.5, 0.4]))
        first = np.cos(np.radians(degrees)) * axis + np.sin(np.radians(degrees)) * side
        return turned(np.tile(first, (len(around), 1)), axis, around)

    for name, job, axis in (
        ("5° from the pole's line", to_pole, pole),
        ("5° from the opposite of the FK direction, no pole", auto, opposite),
    ):
        for distance in (0.3, 0.43):
            # A hair outside the cone, where the blend with the FK side has no slope any more.
            ratio = largest_ratio(job, off_line(axis, 5.001), distance)
            yield Figure(f"middle joint's step over the target's, {name}, d = {distance} L", 25.0, ratio, "")
    ratio = largest_ratio(auto, off_line(opposite, 7.5), 0.3)
    yield Figure("the same 7.5° from the opposite, d = 0.3 L", 25.0, ratio, "")
    yield Figure(
        "the same on any path in a bake that carries bend sides, d >= 0.3 L", 25.0, carried_ratio(), ""
    )


def carried_ratio() -> float:
    """Largest ratio on arcs past both singular lines, at any angle from 0 up, with carried bend sides."""
    elbow = np.array([[0, 0, 0], [0, 0.5, 0], [0.5, 0.5, 0]])
    hinge, pole = np.array([0.0, 0.0, 1.0]), np.array([0.0, 0.6, 0.8])
    rng = np.random.default_rng(4)
    count, frames = 400, 361
    has_pole = np.arange(count) % 2 == 0
    axis = np.where(has_pole[:, None], pole, -unit(elbow[2]))
    side = unit(np.cross(axis, rng.normal(size=(count, 3))))
    miss = np.radians(rng.uniform(0.0, 20.0, count) * (rng.random(count) < 0.9))
    nearest = turned(axis, side, miss)
    angle = np.radians(np.linspace(-60.0, 60.0, frames))[:, None, None]
    target = np.cos(angle) * nearest + np.sin(angle) * side
    target *= rng.uniform(0.3, FULL, count)[:, None]
    shape = (frames, count)
    job = ChainJob(
        *(np.broadcast_to(elbow, (*shape, 3, 3)), target, np.broadcast_to(hinge, (*shape, 3)), pole),
        pole_mask=np.broadcast_to(has_pole, shape),
    ).validated()
    path = carried.BendPath(np.arange(float(frames)))
    bone = np.broadcast_to(np.eye(3), (*shape, 3, 3))
    result = two_bone.solve(carried.carry(job, path, range(count), bone, np.ones(shape)))
    moved = np.linalg.norm(np.diff(result.joints[:, :, 1], axis=0), axis=-1)
    return float((moved / np.linalg.norm(np.diff(target, axis=0), axis=-1)).max())


def chains(rng: np.random.Generator, count: int, bones: int) -> ChainJob:
    """Chains of length 1 that wind at random, and targets from the inner radius to 0.999."""
    lengths = rng.uniform(0.3, 1.7, (count, bones))
    lengths /= lengths.sum(axis=1, keepdims=True)
    steps = unit(np.array([0.0, 0.0, 1.0]) + np.cumsum(rng.normal(0.0, 0.35, (count, bones, 3)), axis=1))
    joints = np.zeros((count, bones + 1, 3))
    joints[:, 1:] = np.cumsum(steps * lengths[..., None], axis=1)
    inner, _ = reach_range(lengths)
    target = unit(rng.normal(size=(count, 3))) * rng.uniform(inner, FULL)[:, None]
    return ChainJob(joints, target, rng.normal(size=(count, 3)))


def chain_figures(rng: np.random.Generator, count: int) -> Iterator[Figure]:
    for name, solver in (("FABRIK", fabrik.solve), ("CCD", ccd.solve)):
        needed, off, grown = 0, 0.0, 0.0
        for bones in (3, 5, 10, 20):
            job = chains(rng, count, bones)
            needed = max(needed, iterations_needed(solver, job))
            result = solver(job, 100, 1e-6)
            off = max(off, float(result.residual.max()))
            before, after = (np.linalg.norm(np.diff(j, axis=1), axis=-1) for j in (job.joints, result.joints))
            grown = max(grown, float(np.abs(after - before).max()))
        each = f"{name}, 3 to 20 bones, targets up to 0.999 L"
        yield Figure(f"{each}: iterations until all are within 1e-6 L", 100.0, float(needed), "")
        yield Figure(f"{name}: tip off the target", 1e-6, off)
        yield Figure(f"{name}: change of a bone's length", 1e-9, grown)


def iterations_needed(solver: Callable[..., ChainResult], job: ChainJob, most: int = 200) -> int:
    """The least number of iterations with which all tips are within 1e-6 of the length."""
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        if solver(job, middle, 1e-6).residual.max() <= 1e-6:
            high = middle
        else:
            low = middle + 1
    return low


def soft_figures(rng: np.random.Generator, count: int) -> Iterator[Figure]:
    softness, distance = rng.uniform(0.01, 1.0, count), rng.uniform(0.0, 3.0, count)
    exact = np.longdouble
    s, d = softness.astype(exact), distance.astype(exact)
    eased = 1.0 - s * np.exp(-(d - (1.0 - s)) / s)
    formula = np.where(d > 1.0 - s, eased, d)
    off = np.abs(soft_distance(distance, np.ones(count), softness) - formula).max()
    yield Figure("soft reach: off its formula", 1e-12, float(off))
    step = 1e-7
    at = [soft_distance(1.0 - softness + k * step, np.ones(count), softness) for k in (-1.0, 0.0, 1.0)]
    kink = np.abs((at[2] - at[1]) - (at[1] - at[0])) / step
    # The curve bends by step / s beside the onset; what is left is the jump of its slope.
    yield Figure(
        "soft reach: jump of the slope at the onset", 1e-6, float((kink - 0.5 * step / softness).max()), ""
    )


def main() -> None:
    for figure in figures():
        print(figure.row, flush=True)


if __name__ == "__main__":
    main()

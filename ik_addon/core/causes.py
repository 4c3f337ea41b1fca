# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a tip slides in a contact: what moves it furthest, told from what was measured there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from .contacts import slide
from .job import Status
from .report import length_text
from .stage import WORLD
from .transforms import transform_point

# Of the limb's length: a tip that slides no further holds its place.
STILL = 1e-4


class Cause(Enum):
    """The likely cause of a slide; OK for a tip that holds its place."""

    OK = "OK"
    TARGET_SPACE = "TARGET_SPACE"
    TARGET_KEYS = "TARGET_KEYS"
    TARGET_FAR = "TARGET_FAR"
    SOFTNESS = "SOFTNESS"
    TARGET_NEAR = "TARGET_NEAR"
    LIMIT = "LIMIT"
    INFLUENCE = "INFLUENCE"
    MUTED = "MUTED"
    NOT_CONVERGED = "NOT_CONVERGED"
    BROKEN = "BROKEN"


@dataclass(frozen=True)
class Evidence:
    """One chain over the F frames of a contact, in world space.

    Attributes:
        tip, target: ``(F, 3)``.
        space: ``(F, 4, 4)`` of the target; location: ``(F, 3)`` of the target in it; kind: ``(F,)`` of
            the space, as in `stage`.
        residual: ``(F,)`` from tip to target; status: ``(F,)`` values of `Status`.
        extension: ``(F,)`` distance to the target as a share of the reach.
        influence, softness: ``(F,)``, the influence 0 where muted; muted: ``(F,)`` bool.
    """

    tip: np.ndarray
    target: np.ndarray
    space: np.ndarray
    location: np.ndarray
    kind: np.ndarray
    residual: np.ndarray
    status: np.ndarray
    extension: np.ndarray
    influence: np.ndarray
    softness: np.ndarray
    muted: np.ndarray


@dataclass(frozen=True)
class Finding:
    """What explains most of a slide.

    Attributes:
        distance: how far it takes the tip, metres; frames: on how many frames.
        kind: of the space that moves the target, for TARGET_SPACE.
    """

    cause: Cause
    distance: float
    frames: int
    kind: int = WORLD


# Statuses with which a tip is off its target, but for TARGET_FAR.
_MISSES = {
    Status.TARGET_NEAR: Cause.TARGET_NEAR,
    Status.LIMIT: Cause.LIMIT,
    Status.INFLUENCE: Cause.INFLUENCE,
    Status.NOT_CONVERGED: Cause.NOT_CONVERGED,
}


def likely_cause(seen: Evidence, still: float) -> Finding:
    """The cause that takes the tip furthest from standing still on its target.

    Either the target itself moves in the world, with its space or within it, or the tip is off
    its target. Out of reach and softness have one status; the distance to the target tells them
    apart. Each frame of a muted chain speaks for MUTED alone.

    Args:
        still: a slide up to this is none, metres.
    """
    distance = slide(seen.tip)
    broken = int(np.sum(seen.status == Status.BROKEN))
    if broken:
        return Finding(Cause.BROKEN, distance, broken)
    if distance <= still:
        return Finding(Cause.OK, distance, len(seen.tip))
    found = [*_idle(seen), *_misses(seen), *_moves(seen)]
    return max(found, key=lambda one: one.distance)


def _idle(seen: Evidence) -> Iterator[Finding]:
    """Frames on which the chain leaves the tip where it is in FK."""
    idle = seen.influence == 0.0
    for cause, frames in ((Cause.MUTED, idle & seen.muted), (Cause.INFLUENCE, idle & ~seen.muted)):
        if frames.any():
            distance = max(slide(seen.tip[frames]), float(seen.residual[frames].max()))
            yield Finding(cause, distance, int(frames.sum()))


def _misses(seen: Evidence) -> Iterator[Finding]:
    """Frames on which the tip is off its target, by cause."""
    active = seen.influence > 0.0
    far = active & (seen.status == Status.TARGET_FAR)
    eased = far & (seen.softness > 0.0) & (seen.extension <= 1.0)
    parts = {Cause.TARGET_FAR: far & ~eased, Cause.SOFTNESS: eased}
    parts |= {cause: active & (seen.status == status) for status, cause in _MISSES.items()}
    for cause, frames in parts.items():
        if frames.any():
            yield Finding(cause, float(seen.residual[frames].max()), int(frames.sum()))


def _moves(seen: Evidence) -> Iterator[Finding]:
    """The motion of the target in the world, for each kind of space that it is in."""
    active = seen.influence > 0.0
    for kind in np.unique(seen.kind[active]).tolist():
        frames = active & (seen.kind == kind)
        space, location = seen.space[frames], seen.location[frames]
        # As if the target lay still in its space, and as if its space stood still.
        by_space = slide(transform_point(space, location[:1]))
        by_keys = slide(transform_point(space[:1], location))
        is_space = kind != WORLD and by_space >= by_keys
        cause = Cause.TARGET_SPACE if is_space else Cause.TARGET_KEYS
        yield Finding(cause, slide(seen.target[frames]), int(frames.sum()), kind)
    if len(np.unique(seen.kind[active])) > 1:
        yield Finding(Cause.TARGET_KEYS, _jump(seen, active), int(active.sum()))


def _jump(seen: Evidence, active: np.ndarray) -> float:
    """How far the target jumps where it changes its space: the largest of these steps."""
    kind, target = seen.kind[active], seen.target[active]
    at = np.flatnonzero(kind[1:] != kind[:-1])
    return float(np.linalg.norm(target[at + 1] - target[at], axis=1).max())


def explain(finding: Finding, frames: int, space: str, message: str = "") -> str:
    """The cause of a slide in words, as the second half of a sentence on it.

    Args:
        finding: of a tip that slides.
        frames: how many the contact has.
        space: what the target's space is called.
        message: why the chain is broken.
    """
    far = length_text(finding.distance)
    on = f"on {finding.frames} of {frames} frames"
    return {
        Cause.TARGET_SPACE: f"its target moves {far} in the world with the space it is stored in, {space}",
        Cause.TARGET_KEYS: f"its target moves {far} in the world by its own keys or driver",
        Cause.TARGET_FAR: f"its target is out of reach {on}, by up to {far}",
        Cause.SOFTNESS: f"its softness keeps it up to {far} off its target {on}",
        Cause.TARGET_NEAR: f"its target is nearer than the limb can fold {on}, by up to {far}",
        Cause.LIMIT: f"a joint limit keeps it up to {far} off its target {on}",
        Cause.INFLUENCE: f"its influence leaves it up to {far} off its target {on}",
        Cause.MUTED: f"it is muted {on}, and moves as FK does",
        Cause.NOT_CONVERGED: f"its solver, or a chain after it, leaves it up to {far} off its target {on}",
        Cause.BROKEN: f"the chain is broken: {message}" if message else f"the chain is broken {on}",
    }[finding.cause]

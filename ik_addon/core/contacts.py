# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the tip of a limb is meant to rest: contacts, found from the path that it has in FK.

A tip rests while it is low and slow. Low is measured from the lowest level that it has, slow
in lengths of the limb a second, so that neither the size of a character nor the frame rate
plays a part. The world's Z axis points up.

A contact is a longest run of frames that are low and slow enough to stay, with a frame among
them that is low and slow enough to enter: two thresholds each keep a tip that trembles about
one of them from coming and going. It ends where the tip has risen from its own lowest level:
an ankle that rises over the ball of its foot rests no more. Where a tip keeps its place, the step
that brings it there, or away, is not part of the contact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .transforms import length

UP = 2
# A contact of one frame has nothing to compare it with.
FEWEST = 2


@dataclass(frozen=True)
class Rule:
    """When a tip rests. Heights are in lengths of the limb, speeds in lengths a second.

    Attributes:
        floor: part of the frames that may lie below the lowest level: strays of a recording do
            not lower it.
        enter_height, enter_speed: below both, a contact is certain.
        stay_height, stay_speed: below both, it goes on.
        rise: height above the lowest level of the contact itself, above which it does not go on.
        gap: seconds; contacts that are not further apart are one.
        shortest: seconds that a contact lasts at least.
        still: distance from a place, in lengths of the limb, at which a tip still is there.
    """

    floor: float = 0.02
    enter_height: float = 0.04
    enter_speed: float = 0.3
    stay_height: float = 0.05
    stay_speed: float = 0.5
    rise: float = 0.015
    gap: float = 0.05
    shortest: float = 0.1
    still: float = 1e-4


RULE = Rule()


@dataclass(frozen=True)
class Contact:
    """Places of the first and of the last frame of a contact, among the frames looked at."""

    first: int
    last: int

    @property
    def frames(self) -> slice:
        """All its frames."""
        return slice(self.first, self.last + 1)

    @property
    def count(self) -> int:
        """How many frames it has."""
        return self.last - self.first + 1


def find(tip: np.ndarray, limb: float, rate: float, rule: Rule = RULE) -> list[Contact]:
    """The contacts of a tip.

    Args:
        tip: ``(F, 3)`` its path in world space, at equal steps of time.
        limb: length of the limb, same unit.
        rate: frames a second; of every second frame, half of it.

    Returns:
        In the order of time. None for a path that is not finite or a limb without length.
    """
    if len(tip) < FEWEST or not limb > 0.0 or not np.isfinite(tip).all():
        return []
    level = tip[:, UP]
    height = (level - np.quantile(level, rule.floor)) / limb
    speed = length(velocity(tip, rate)) / limb
    stays = (height < rule.stay_height) & (speed < rule.stay_speed)
    enters = (height < rule.enter_height) & (speed < rule.enter_speed)
    for run in _runs(stays):
        lowest = np.quantile(height[run.frames], rule.floor)
        stays[run.frames] = height[run.frames] < lowest + rule.rise
    certain = [run for run in _runs(stays) if enters[run.frames].any()]
    fewest = max(FEWEST, rule.shortest * rate)
    found = (_kept(run, tip, rule.still * limb) for run in _joined(certain, rule.gap * rate))
    return [run for run in found if run.count >= fewest]


def _kept(run: Contact, tip: np.ndarray, still: float) -> Contact:
    """A contact without its first or last frame, where the tip is elsewhere then and still on all others."""
    points = tip[run.frames]
    away = length(points - np.median(points, axis=0)) > still
    if len(points) < FEWEST + 2 or away[1:-1].any():
        return run
    return Contact(run.first + int(away[0]), run.last - int(away[-1]))


def velocity(path: np.ndarray, rate: float) -> np.ndarray:
    """Velocity ``(F, n)`` along a path ``(F, n)``, units a second, by the neighbours on both sides.

    It is the same forward and backward in time, but for the sign. F >= 2.
    """
    return np.gradient(path, axis=0) * rate


def slide(points: np.ndarray) -> float:
    """How far points ``(F, 3)`` slide: the largest distance between any two of them, their unit."""
    from_mean = length(points - points.mean(axis=0))
    far = points[np.argmax(from_mean)]
    largest = length(points - far).max()
    # Two points that are further apart than this lie that far from the mean.
    candidates = points[from_mean + from_mean.max() >= largest]
    for place, point in enumerate(candidates):
        largest = max(largest, length(candidates[place:] - point).max())
    return float(largest)


def _runs(mask: np.ndarray) -> list[Contact]:
    edges = np.diff(np.concatenate([[0], mask.astype(np.int8), [0]]))
    firsts, lasts = np.flatnonzero(edges > 0), np.flatnonzero(edges < 0) - 1
    return [Contact(int(a), int(b)) for a, b in zip(firsts, lasts, strict=True)]


def _joined(runs: list[Contact], gap: float) -> list[Contact]:
    """The same with those in one that at most ``gap`` frames lie between."""
    joined: list[Contact] = []
    for run in runs:
        if joined and run.first - joined[-1].last - 1 <= gap:
            run = Contact(joined.pop().first, run.last)
        joined.append(run)
    return joined

# SPDX-License-Identifier: GPL-3.0-or-later
"""A path for a target that rests in each contact of a tip and keeps the rest of its motion.

In a contact the target is one place. Everywhere else it is where the tip is in FK, plus an
offset that eases from what one contact asked for to nothing, or to what the next one asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .balls import nearest_in_balls
from .bend_plane import smooth_step
from .contacts import Contact
from .reach import soft_distance
from .transforms import (
    axis_angle_to_quaternion,
    length,
    make_compatible,
    quaternion_conjugate,
    quaternion_multiply,
    quaternion_to_axis_angle,
)

# Of the reach: how far from being straight a limb stays, where its middle joint is fastest. A planted
# one keeps room to leave its place without a jerk.
ROOM, MARGIN = 6e-3, 1e-3
# Of the reach: a place this little out of it is in reach.
CLOSE = 1e-9
# Balls that are looked at together at most.
BALLS = 12


@dataclass(frozen=True)
class Ease:
    """How an offset comes and goes beside a contact.

    Attributes:
        value: seconds in which it goes to zero; contacts that are nearer to each other than twice
            this lead over from one offset to the next.
        speed: seconds in which the target takes up the speed of the tip that it left behind.
    """

    value: float = 0.25
    speed: float = 0.15


EASE = Ease()


def place_of(tip: np.ndarray, root: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """The place ``(3,)`` for a contact: the mean of the tip, or the nearest place to it that is in reach.

    Of the balls around the root it must lie in all; those that turn out to matter are few. Where no
    place is in reach on all frames, it is one between them (see `balls`).

    Args:
        tip: ``(F, 3)`` in FK; root: ``(F, 3)`` from where the limb reaches; reach: ``(F,)`` how far.
            One frame and unit.
    """
    radius = reach * (1.0 - ROOM)
    place = mean = tip.mean(axis=0)
    matter: list[int] = []
    for _ in range(BALLS):
        beyond = length(place - root) - radius
        worst = int(np.argmax(beyond))
        if beyond[worst] <= CLOSE * reach[worst] or worst in matter:
            break
        matter.append(worst)
        place = nearest_in_balls(mean, root[matter], radius[matter])
    return place


@dataclass(frozen=True)
class Hold:
    """A contact, and the offsets ``(F, n)`` that would hold its target on each of all F frames."""

    contact: Contact
    offset: np.ndarray

    def slope(self, frame: int) -> np.ndarray:
        """How much the offset changes a frame, by the neighbours on both sides."""
        before, after = max(frame - 1, 0), min(frame + 1, len(self.offset) - 1)
        return (self.offset[after] - self.offset[before]) / max(after - before, 1)


def eased(holds: Sequence[Hold], rate: float, ease: Ease = EASE) -> np.ndarray:
    """Offsets ``(F, n)`` on all frames: those of the contacts, and the way from one to the next.

    Value and slope are continuous. Beside a contact an offset is the sum of two parts: its value
    there, which a cubic takes to zero or to the value that the next contact asks for; and its
    slope m there, as m t (1 - t / T)^2, which dies out in the time T.

    Args:
        holds: at least one, in order of time.
        rate: frames a second.
    """
    out = np.zeros_like(holds[0].offset)
    for hold in holds:
        out[hold.contact.frames] = hold.offset[hold.contact.frames]
    around: list[Hold | None] = [None, *holds, None]
    for before, after in zip(around, around[1:], strict=False):
        first = before.contact.last if before else -1
        last = after.contact.first if after else len(out)
        frames = np.arange(first + 1, last)
        is_between = before is not None and after is not None
        span = float(last - first) if is_between else np.inf
        fade = span if span <= 2.0 * ease.value * rate else ease.value * rate
        if before is not None:
            out[frames] += _leaving(before, first, frames - first, fade, min(ease.speed * rate, span))
        if after is not None:
            out[frames] += _leaving(after, last, frames - last, fade, min(ease.speed * rate, span))
    return out


def _leaving(hold: Hold, end: int, time: np.ndarray, fade: float, rest: float) -> np.ndarray:
    """What is left ``(k, n)`` of an offset at times ``(k,)`` away from the end frame of its contact.

    Args:
        time: in frames, negative before the contact; fade, rest: frames in which the offset and
            its slope die out.
    """
    away = np.abs(time)
    value = smooth_step(fade - away, 0.0, fade)
    slope = time * np.maximum(1.0 - away / rest, 0.0) ** 2
    return value[:, None] * hold.offset[end] + slope[:, None] * hold.slope(end)


@dataclass(frozen=True)
class Path:
    """Where a planted target goes.

    Attributes:
        target: ``(F, 3)``, one place in each contact.
        drawn_in: ``(F,)`` by how much the eased offset led out of the limb's reach beside the
            contacts; the target is that much nearer to the root.
    """

    target: np.ndarray
    drawn_in: np.ndarray


def plant(
    tip: np.ndarray,
    root: np.ndarray,
    reach: np.ndarray,
    contacts: Sequence[Contact],
    rate: float,
    ease: Ease = EASE,
) -> Path:
    """The path of a target that is one place in each contact (see `place_of`).

    Beside them it is never further from the root than the tip is in FK, unless that is in reach.

    Args:
        tip, root: ``(F, 3)``, in FK; reach: ``(F,)`` how far from the root a place is in reach.
            In world space.
        contacts: of the tip, at least one, in order of time.
        rate: frames a second.
    """
    places = [place_of(tip[c.frames], root[c.frames], reach[c.frames]) for c in contacts]
    offsets = eased([Hold(c, p - tip) for c, p in zip(contacts, places, strict=True)], rate, ease)
    target = tip + offsets
    distance = length(target - root)
    # Up to where a place may be, a distance passes; as in FK it always does.
    soft = soft_distance(distance, reach * (1.0 - MARGIN), (ROOM - MARGIN) / (1.0 - MARGIN))
    drawn_in = distance - np.maximum(soft, np.minimum(distance, length(tip - root)))
    target += (root - target) * (drawn_in / np.where(distance > 0.0, distance, 1.0))[:, None]
    for contact, place in zip(contacts, places, strict=True):
        target[contact.frames] = place
        drawn_in[contact.frames] = 0.0
    return Path(target, drawn_in)


def plant_rotation(
    rotation: np.ndarray, contacts: Sequence[Contact], rate: float, ease: Ease = EASE
) -> np.ndarray:
    """Rotations ``(F, 4)`` of a target that is turned one way in each contact: the mean of FK there.

    As `plant`, with the turn from FK as a rotation vector in place of the offset.

    Args:
        rotation: ``(F, 4)`` unit quaternions, in FK, signs of neighbours fit.
    """
    held = [_mean_rotation(rotation[contact.frames]) for contact in contacts]
    back = quaternion_conjugate(rotation)
    holds = [
        Hold(contact, _rotation_vector(quaternion_multiply(one, back)))
        for contact, one in zip(contacts, held, strict=True)
    ]
    vector = eased(holds, rate, ease)
    angle = length(vector)
    axis = vector / np.where(angle > 0.0, angle, 1.0)[:, None]
    path = quaternion_multiply(axis_angle_to_quaternion(axis, angle), rotation)
    for contact, one in zip(contacts, held, strict=True):
        path[contact.frames] = one
    return make_compatible(path)


def _rotation_vector(q: np.ndarray) -> np.ndarray:
    axis, angle = quaternion_to_axis_angle(q)
    return axis * angle[..., None]


def _mean_rotation(q: np.ndarray) -> np.ndarray:
    """The rotation ``(4,)`` that is nearest to some in the mean of squares (Markley et al.,
    "Averaging Quaternions", 2007), with the sign of the first."""
    mean = np.linalg.eigh(q.T @ q)[1][:, -1]
    return mean if float(mean @ q[0]) >= 0.0 else -mean

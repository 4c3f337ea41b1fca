# SPDX-License-Identifier: GPL-3.0-or-later
"""Where tips are meant to rest over a range of frames, how far they slide there, and why."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import bpy
import numpy as np

from ..core import causes, contacts, stage
from ..core.contacts import Contact
from ..core.report import frame_number, length_text
from . import bake_store as store
from .chain_bones import ChainError
from .ranges import ChainPlaces, ChainTrack, solve_range


@dataclass(frozen=True)
class ContactReport:
    """One contact of one chain.

    Attributes:
        frames: its first and last frame.
        slide, slide_fk: largest distance between two places of the tip in it, solved and in FK,
            metres in world space.
        cause: name of a `core.causes.Cause`.
        why: the cause in words, empty where the tip holds its place.
        message: all of it in one sentence.
    """

    frames: tuple[int | float, int | float]
    slide: float
    slide_fk: float
    cause: str
    why: str
    message: str

    def as_json(self) -> dict[str, Any]:
        """Its entry in a report."""
        names = ("slide", "slide_fk", "cause", "message")
        return {"frames": list(self.frames), **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True)
class Checked:
    """What a check of some chains of a rig found.

    Attributes:
        frames: first and last frame that were looked at.
        contacts: by the name of the chain.
    """

    frames: tuple[int, int]
    contacts: dict[str, list[ContactReport]]


def check(
    scene: bpy.types.Scene, ob: bpy.types.Object, frames: tuple[int, int], names: str | None = None
) -> Generator[float, None, tuple[Checked, list[ChainTrack]]]:
    """Check the contacts of chains of `ob`, without changing anything.

    A coroutine: it yields the progress from 0 to 1, and returns what was found and from what.

    Args:
        frames: first and last frame.
        names: a pattern for the names of chains (``*``, ``?``), or None: all.

    Raises:
        ChainError: for a range without frames.
    """
    first, last = frames
    if last < first:
        raise ChainError(f"the last frame, {last}, is before the first, {first}")
    steps = [float(frame) for frame in range(first, last + 1)]
    found = (yield from solve_range(scene, [ob], steps, with_places=True)).chains
    tracks = [track for track in found if fnmatchcase(track.chain, names or "*")]
    rate = frame_rate(scene)
    return Checked(frames, {track.chain: reports(ob, track, rate) for track in tracks}), tracks


def frame_rate(scene: bpy.types.Scene) -> float:
    """Frames a second."""
    return float(scene.render.fps / scene.render.fps_base)


def rests(track: ChainTrack, rate: float) -> list[Contact]:
    """The contacts of a chain's tip in FK. None for an aim, whose tip touches nothing.

    Args:
        track: with places, at equal steps of time.
        rate: frames a second, of those of the track.
    """
    assert track.places is not None
    if track.solver == "AIM":
        return []
    return contacts.find(track.places.tip, float(np.median(track.places.limb)), rate)


def reports(ob: bpy.types.Object, track: ChainTrack, rate: float) -> list[ContactReport]:
    """A report of each contact of a chain of `ob`.

    Args:
        track, rate: as `rests` takes them.
    """
    assert track.places is not None
    still = causes.STILL * float(np.median(track.places.limb))
    return [_report(ob, track, track.places, contact, still) for contact in rests(track, rate)]


def muted_frames(track: ChainTrack) -> int:
    """On how many frames a chain is muted; the track is one with places."""
    assert track.places is not None
    return int(track.places.muted.sum())


def _report(
    ob: bpy.types.Object, track: ChainTrack, places: ChainPlaces, contact: Contact, still: float
) -> ContactReport:
    at = contact.frames
    names = ("target", "space", "location", "kind", "extension", "influence", "softness", "muted")
    rows = {name: getattr(places, name)[at] for name in names}
    seen = causes.Evidence(tip=track.tip[at], residual=track.residual[at], status=track.status[at], **rows)
    finding = causes.likely_cause(seen, still)
    slide = contacts.slide(track.tip[at])
    first, last = (frame_number(track.frames[place]) for place in (contact.first, contact.last))
    what = f"frames {first} to {last}: the tip of '{track.chain}'"
    if finding.cause == causes.Cause.OK:
        why, message = "", f"{what} holds its place, to {length_text(slide)}"
    else:
        space = _space_name(ob, track.chain, finding.kind)
        why = causes.explain(finding, contact.count, space, track.message)
        if finding.cause == causes.Cause.MUTED and ob.ik_chains[track.chain].uid in store.baked_chains(ob):
            why = "it is baked, and moves as its keys do"
        if finding.cause == causes.Cause.TARGET_KEYS and ob.ik_chains[track.chain].smooth_frames:
            why += ", which Smooth Frames smooths"
        message = f"{what} slides {length_text(slide)}: {why}"
    slide_fk = contacts.slide(places.tip[at])
    return ContactReport((first, last), slide, slide_fk, finding.cause.value, why, message)


def _space_name(ob: bpy.types.Object, name: str, kind: int) -> str:
    chain = ob.ik_chains[name]
    if kind == stage.BONE:
        return f"bone '{chain.subtarget}' of '{chain.target.name}'"
    if kind == stage.OBJECT:
        return f"'{chain.target.name}'"
    return f"the character's own ('{ob.name}')"

# SPDX-License-Identifier: GPL-3.0-or-later
"""What was measured over a range of frames, kept for the panel: results of chains and their pictures.

A measurement belongs to the session: it is no part of the file, puts no curve on the rig, and
is gone when another file is opened.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import bpy
import bpy.utils.previews
import numpy as np

from ..core.job import Status
from ..core.plot_pixels import color, residual_pixels
from .ranges import ChainTrack

# Pixels of a picture: those of a sidebar on a display of nearly twice the usual resolution.
SIZE, SWATCH, SWATCH_MARGIN = 400, 32, 5
# Beyond this many metres, or this part of itself, a residual is another: poses are float32.
CHANGED = 1e-4

Key = tuple[int, str]
# By session uid of the object and name of the chain.
_tracks: dict[Key, ChainTrack] = {}
_pictures: dict[Key | Status, Any] = {}
_previews: Any = None


def remember(ob: bpy.types.Object, tracks: Iterable[ChainTrack]) -> None:
    """Keep results of chains of `ob`, instead of what was measured of them before."""
    for track in tracks:
        _tracks[(ob.session_uid, track.chain)] = track
        # Without a window nobody sees it.
        if not bpy.app.background:
            make_picture(ob, track)
    for window in bpy.context.window_manager.windows:
        for area in window.screen.areas:
            if area.type == "VIEW_3D":
                area.tag_redraw()


def track_of(ob: bpy.types.Object, chain: Any) -> ChainTrack | None:
    """What was last measured of a chain, if anything."""
    return _tracks.get((ob.session_uid, chain.name))


def tracks_of(ob: bpy.types.Object) -> list[ChainTrack]:
    """What was last measured of each chain of `ob`, in their order."""
    return [track for track in (track_of(ob, chain) for chain in ob.ik_chains) if track is not None]


def is_outdated(ob: bpy.types.Object, chain: Any, frame: float) -> bool:
    """Whether a chain leaves another residual on this frame than was measured there."""
    track = track_of(ob, chain)
    if track is None or frame not in track.frames:
        return False
    before = float(track.residual[np.searchsorted(track.frames, frame)])
    return abs(chain.residual - before) > CHANGED * max(before, 1.0)


# Pictures. Making them takes milliseconds, so it is not for a panel to do: that looks them up.


def make_picture(ob: bpy.types.Object, track: ChainTrack) -> None:
    """Draw the residuals of a chain."""
    preview = _preview((ob.session_uid, track.chain))
    preview.image_size = (SIZE, SIZE)
    preview.image_pixels_float.foreach_set(residual_pixels(track, SIZE).ravel())
    for status in Status:
        if status not in _pictures:
            _make_swatch(status)


def picture(ob: bpy.types.Object, chain: Any) -> int:
    """The icon number of the picture of a chain; 0 for none."""
    found = _pictures.get((ob.session_uid, chain.name))
    return found.icon_id if found is not None else 0


def swatch(status: Status) -> int:
    """The icon number of the colour of a status; 0 before the first picture."""
    found = _pictures.get(status)
    return found.icon_id if found is not None else 0


def _make_swatch(status: Status) -> None:
    preview = _preview(status)
    pixels = np.zeros((SWATCH, SWATCH, 4), np.float32)
    inside = slice(SWATCH_MARGIN, SWATCH - SWATCH_MARGIN)
    pixels[inside, inside] = color(status)
    preview.icon_size = (SWATCH, SWATCH)
    preview.icon_pixels_float.foreach_set(pixels.ravel())


def _preview(key: Key | Status) -> Any:
    global _previews
    if _previews is None:
        _previews = bpy.utils.previews.new()
    if key not in _pictures:
        _pictures[key] = _previews.new(str(len(_pictures)))
    return _pictures[key]


def forget() -> None:
    """Another file, or the add-on is switched off."""
    global _previews
    _tracks.clear()
    _pictures.clear()
    if _previews is not None:
        bpy.utils.previews.remove(_previews)
        _previews = None

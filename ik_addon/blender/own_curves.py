# SPDX-License-Identifier: GPL-3.0-or-later
"""The curves of an object's own action by what they set, found on every frame of playback.

Only those that say alone what a property is: on other frames, too, its value can then be
computed without evaluating anything. What a driver or an NLA strip sets is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import bpy

from . import animation, compat
from .state import STATE


class _Places(NamedTuple):
    """Where the curves of each data path stand, and the paths that something else sets."""

    of: dict[str, list[int]]
    elsewhere: frozenset[str]


class OwnCurves:
    """The curves of the action that is assigned to an object.

    They are looked up anew for each frame: nothing of Blender's is kept between two.
    """

    def __init__(self, ob: bpy.types.Object) -> None:
        self._ob = ob
        self._in_nla = any(True for _ in animation.nla_strips(ob))
        self._curves: Any = compat.assigned_curves(ob) if _sets_values(ob, self._in_nla) else ()
        self._places = self._remembered() if len(self._curves) else _Places({}, frozenset())

    @property
    def has_none(self) -> bool:
        """There are none that play."""
        return not self._places.of

    def find(self, paths: Sequence[str], count: int) -> list[bpy.types.FCurve | None]:
        """The curve of each of the `count` numbers of a property, None where it has none.

        Args:
            paths: the data paths that lead to the property.
        """
        found: list[bpy.types.FCurve | None] = [None] * count
        if self.is_set_elsewhere(paths):
            return found
        # Of two curves of one number the later one plays.
        for place in sorted(place for path in paths for place in self._places.of.get(path, ())):
            curve = self._curves[place]
            if curve.data_path not in paths:
                # It was given another path since: look at all of them again.
                del STATE.curve_places[self._ob.session_uid]
                self._places = self._remembered()
                return self.find(paths, count)
            if curve.array_index < count and compat.curve_plays(curve, self._in_nla):
                found[curve.array_index] = curve
        return found

    def is_set_elsewhere(self, paths: Sequence[str]) -> bool:
        """Whether a driver, or a strip below the action, sets a property."""
        return not self._places.elsewhere.isdisjoint(paths)

    def _remembered(self) -> _Places:
        """Where the curves stand, until what animates the object changes."""
        now = animation.signature(self._ob)
        before, places = STATE.curve_places.get(self._ob.session_uid, (None, None))
        if places is None or before != now:
            places = self._look()
            STATE.curve_places[self._ob.session_uid] = (now, places)
        return places

    def _look(self) -> _Places:
        of: dict[str, list[int]] = {}
        for place, curve in enumerate(self._curves):
            of.setdefault(curve.data_path, []).append(place)
        strips = animation.nla_strips(self._ob)
        in_strips = {curve.data_path for strip in strips for curve in compat.strip_curves(strip)}
        drivers = self._ob.animation_data.drivers
        driven = {curve.data_path for curve in drivers if not curve.mute and curve.driver.is_valid}
        # What the action sets, it sets on top of the strips.
        return _Places(of, frozenset(in_strips - of.keys() | driven))


def _sets_values(ob: bpy.types.Object, in_nla: bool) -> bool:
    """Whether the curves of the action give properties their values as they are."""
    data = ob.animation_data
    if data is None or data.action is None or data.use_tweak_mode or not animation.action_plays(ob):
        return False
    if not in_nla:
        return True
    whole = data.action_influence == 1.0 and data.action_extrapolation != "NOTHING"
    return whole and data.action_blend_type == "REPLACE"

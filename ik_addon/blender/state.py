# SPDX-License-Identifier: GPL-3.0-or-later
"""What the add-on remembers while Blender runs. Names only, never Blender's own references."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .recall import Recall


@dataclass
class State:
    """Caches of the running session; everything here can be dropped at any time.

    Attributes:
        groups: keys in `bpy.data.objects` of the armature objects that need the handler, those
            that are solved together in one list; None: unknown.
        armature_users: users of all armatures when `groups` was made; a new or copied rig
            changes it.
        structure: bones and constraints that the plans rest on (see `structure`).
        plans: compiled chains by the session uids of their rigs (`live.plan_of`).
        told: by session uid of a rig, the plan whose broken chains are named on it.
        animated_settings: by session uid of an object, what animates it (see
            `animation.signature`) and its animated settings.
        curve_places: by session uid of an object, what animates it and where its curves stand
            (see `own_curves`).
        has_children: by session uid of an object and name of a bone or nothing, whether objects
            hang on it.
        posed_by_more: by session uid of an armature object, the bones that chains, constraints
            or drivers pose.
        busy: the handler, or a tool that steps through frames itself, is at work.
        taking_renames: names are being read from the drivers, not to be written back.
        reported: faults already printed, so that none is printed on every frame.
        checked: by session uid of a rig, what its last check found (see `findings`).
        recall: what solves gave on frames that may come again.
    """

    groups: list[list[Any]] | None = None
    armature_users: tuple[int, ...] = ()
    structure: tuple = ()
    plans: dict[Any, Any] = field(default_factory=dict)
    told: dict[int, Any] = field(default_factory=dict)
    animated_settings: dict[int, tuple[tuple, Any]] = field(default_factory=dict)
    curve_places: dict[int, tuple[tuple, Any]] = field(default_factory=dict)
    has_children: dict[tuple[int, str], bool] = field(default_factory=dict)
    posed_by_more: dict[int, frozenset[str]] = field(default_factory=dict)
    busy: bool = False
    taking_renames: bool = False
    reported: set[str] = field(default_factory=set)
    checked: dict[int, Any] = field(default_factory=dict)
    recall: Recall = field(default_factory=Recall)

    def forget_plans(self) -> None:
        """Settings, bones or relations changed: compile again before the next solve."""
        self.groups = None
        self.structure = ()
        self.plans.clear()
        self.told.clear()
        self.animated_settings.clear()
        self.curve_places.clear()
        self.has_children.clear()
        self.posed_by_more.clear()
        self.reported.clear()
        self.recall.clear()

    def clear(self) -> None:
        """Another file, or the add-on is switched off."""
        self.forget_plans()
        self.armature_users = ()
        self.checked.clear()
        self.busy = False

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Keeps the handler out while its caller evaluates or writes frames."""
        before, self.busy = self.busy, True
        try:
            yield
        finally:
            self.busy = before

    def first_report(self, text: str) -> bool:
        """True the first time this text comes up since the last edit."""
        if text in self.reported:
            return False
        self.reported.add(text)
        return True


STATE = State()

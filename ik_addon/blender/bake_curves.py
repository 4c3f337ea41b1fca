# SPDX-License-Identifier: GPL-3.0-or-later
"""Put baked keys into the curves of a property with a backup of what they replace, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np

from . import bake_store as store
from . import compat, keys

Curves = dict[tuple[str, int], bpy.types.FCurve]


@dataclass(frozen=True)
class Target:
    """The action and slot that a bake writes to; `number` and `handle` name them in backups."""

    action: bpy.types.Action
    slot: Any
    number: int
    handle: int


@dataclass(frozen=True)
class BakedProperty:
    """New keys for a property of a pose bone or chain.

    Attributes:
        owner: what keeps the backup: the pose bone, or the object.
        name: name of the property; path: its data path.
        group: group for new curves, or an empty string.
        chains: numbers of the chains that are baked here.
        values: ``(w,)`` its components where no curve sets them.
        keys: of each component, ``(n, keys.WIDTH)``.
        hold_outside: beside the range, curves get a key that keeps the value they had there:
            "NEW" where the bake makes the curve, "ALL", or "NONE".
    """

    owner: Any
    name: str
    path: str
    group: str
    chains: frozenset[int]
    values: np.ndarray
    keys: Sequence[np.ndarray]
    hold_outside: str


def ensure_target(ob: bpy.types.Object) -> Target:
    """An action and slot of `ob` that nothing else plays, made or copied where needed."""
    data = ob.animation_data or ob.animation_data_create()
    made_action, before = data.action is None, None
    if made_action:
        data.action = bpy.data.actions.new(f"{ob.name}Action")
    elif not data.action.is_editable or compat.plays_elsewhere(ob):
        before, handle = data.action, compat.slot_handle(ob)
        compat.assign_action(ob, before.copy(), handle)
    made_slot = compat.ensure_slot(ob)
    number = store.number(data.action)
    if all(entry.action != number for entry in ob.ik_baked_actions):
        entry = ob.ik_baked_actions.add()
        entry.action, entry.made_action, entry.made_slot = number, made_action, made_slot
        entry.before = before
    return Target(data.action, getattr(data, "action_slot", None), number, compat.slot_handle(ob))


def by_path(curves: Any) -> Curves:
    """F-curves by data path and array index."""
    return {(curve.data_path, curve.array_index): curve for curve in curves}


def channel_of(ob: bpy.types.Object, target: Target, item: BakedProperty) -> store.IKBakedChannel:
    """The backup of a property in the target, made where there is none."""
    chain = next(iter(item.chains)) if item.owner == ob else 0
    channel = store.channel(item.owner, target.number, target.handle, item.name, chain)
    store.set_chains(channel, store.chains(channel) | item.chains)
    return channel


def saved_curve(channel: store.IKBakedChannel, index: int, value: float, existed: bool) -> store.IKBakedCurve:
    """The backup of one component; its first bake decides what was there."""
    for saved in channel.curves:
        if saved.index == index:
            return saved
    saved = channel.curves.add()
    saved.index, saved.value, saved.existed = index, value, existed
    return saved


def replace(
    ob: bpy.types.Object, target: Target, curves: Curves, item: BakedProperty
) -> Iterator[tuple[bpy.types.FCurve, np.ndarray]]:
    """Back up what the new keys of a property replace.

    Yields:
        each of its curves, made where needed, and all keys that it shall have.
    """
    channel = channel_of(ob, target, item)
    earlier = store.ranges(channel)
    first, last = float(item.keys[0][0, keys.FRAME]), float(item.keys[0][-1, keys.FRAME])
    store.add_range(channel, first, last)
    for index, new in enumerate(item.keys):
        curve = curves.get((item.path, index))
        saved = saved_curve(channel, index, float(item.values[index]), curve is not None)
        beside = store.added(saved)
        if curve is None:
            curve, made = compat.new_curve(target.action, target.slot, item.path, index, item.group)
            channel.made_group = channel.made_group or made
            result = new
        else:
            # Blender marks a curve that it could not evaluate, and then leaves it out.
            curve.is_valid = True
            old = keys.read(curve)
            covered = keys.inside(old, np.array([[first, last]], np.float32))
            store.keep(saved, old[covered & ~keys.inside(old, earlier) & ~_listed(old, beside)])
            result = keys.replaced(old, new)
        if item.hold_outside == "ALL" or (item.hold_outside == "NEW" and not saved.existed):
            holds = _holds(curve, saved, store.ranges(channel), result, (first, last))
            result = _with_holds(result, holds, last)
            beside = np.concatenate([beside, holds[:, : keys.VALUE + 1]])
        if len(beside):
            store.set_added(saved, beside[_present(beside, result)])
        yield curve, result


def _listed(rows: np.ndarray, beside: np.ndarray) -> np.ndarray:
    """Which keys are among those that a bake set beside its range, unchanged since."""
    same = rows[:, None, : keys.VALUE + 1] == beside[None]
    return np.any(np.all(same, axis=2), axis=1)


def _present(beside: np.ndarray, rows: np.ndarray) -> np.ndarray:
    same = beside[:, None] == rows[None, :, : keys.VALUE + 1]
    return np.any(np.all(same, axis=2), axis=1)


def _holds(
    curve: bpy.types.FCurve,
    saved: store.IKBakedCurve,
    ranges: np.ndarray,
    result: np.ndarray,
    ends: tuple[float, float],
) -> np.ndarray:
    """Keys a frame before and after the range with the values that the curve has there now."""
    frames = [frame for frame in (ends[0] - 1.0, ends[1] + 1.0) if frame not in result[:, keys.FRAME]]
    frames = [frame for frame in frames if not np.any((ranges[:, 0] <= frame) & (frame <= ranges[:, 1]))]
    values = [curve.evaluate(frame) if saved.existed else saved.value for frame in frames]
    return keys.steps(frames, values)


def _with_holds(result: np.ndarray, holds: np.ndarray, last: float) -> np.ndarray:
    if last + 1.0 in holds[:, keys.FRAME]:
        # Up to that key the pose of the last baked frame stays.
        result = result.copy()
        result[result[:, keys.FRAME] == last, keys.INTERPOLATION] = keys.CONSTANT
    return keys.merged(result, holds)


def restore(
    ob: bpy.types.Object, channel: store.IKBakedChannel, paths: Sequence[str], group: str
) -> dict[int, float]:
    """Bring the curves of a baked property back, but for keys outside the baked ranges.

    Args:
        paths: data paths that lead to the property now, Blender's own first.
        group: group for a curve that was removed after the bake.

    Returns:
        by component the value of the property, where no curve sets it any more. An action
        or slot that is gone took its curves with it.
    """
    action = store.find_action(ob, channel.action)
    slot = compat.find_slot(action, channel.slot, ob) if action is not None else None
    if action is None or (slot is None and compat.has_slots(action)):
        return {saved.index: saved.value for saved in channel.curves if not saved.existed}
    curves = compat.action_curves(action, slot)
    found = by_path(curves)
    path = next((path for path in paths if (path, 0) in found), paths[0])
    ranges = store.ranges(channel)
    writes, still = [], {}
    for saved in channel.curves:
        curve = found.get((path, saved.index))
        now = keys.read(curve) if curve is not None else keys.make([], [])
        outside = ~keys.inside(now, ranges) & ~_listed(now, store.added(saved))
        before = keys.merged(now[outside], store.kept(saved))
        if curve is None and len(before):
            curve, _ = compat.new_curve(action, slot, path, saved.index, group)
        if curve is not None and (len(before) or saved.existed):
            writes.append((curve, before))
        elif curve is not None:
            curves.remove(curve)
        if not saved.existed and not len(before):
            still[saved.index] = saved.value
    keys.write(writes)
    if channel.made_group:
        _drop_empty_group(action, slot, group)
    action.update_tag()
    return still


def _drop_empty_group(action: bpy.types.Action, slot: Any, name: str) -> None:
    groups = compat.curve_groups(action, slot)
    if name in groups and not len(groups[name].channels):
        groups.remove(groups[name])


def return_actions(ob: bpy.types.Object) -> None:
    """Bring back the assignment of action and slot, where no backup is left in the action."""
    used = {channel.action for owner in store.owners(ob) for channel in owner.ik_baked}
    for place in reversed(range(len(ob.ik_baked_actions))):
        entry = ob.ik_baked_actions[place]
        if entry.action in used:
            continue
        action = store.find_action(ob, entry.action)
        if action is not None and ob.animation_data.action == action:
            _return_action(ob, action, entry)
        ob.ik_baked_actions.remove(place)


def _return_action(ob: bpy.types.Object, action: bpy.types.Action, entry: store.IKBakedAction) -> None:
    slot = getattr(ob.animation_data, "action_slot", None)
    handle = compat.slot_handle(ob)
    if entry.before is not None and _same_curves(
        compat.action_curves(action, slot),
        compat.action_curves(entry.before, compat.find_slot(entry.before, handle, ob)),
    ):
        compat.assign_action(ob, entry.before, handle)
        _remove_unused(action)
        return
    if len(compat.action_curves(action, slot)):
        return
    if entry.made_action:
        ob.animation_data.action = None
        _remove_unused(action)
    elif entry.made_slot:
        compat.remove_slot(action, slot)


def _remove_unused(action: bpy.types.Action) -> None:
    if action.users == 0:
        bpy.data.actions.remove(action)


def _same_curves(ours: Any, theirs: Any) -> bool:
    """Whether two collections of curves hold the same keys on the same paths."""
    one, two = by_path(ours), by_path(theirs)
    if one.keys() != two.keys():
        return False
    return all(np.array_equal(keys.read(one[place]), keys.read(two[place])) for place in one)

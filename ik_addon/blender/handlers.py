# SPDX-License-Identifier: GPL-3.0-or-later
"""When the live solve runs: after a frame change, after an edit, after loading a file.

The handlers write pose channels and results of their own chains; they add and remove
nothing. Blender evaluates a second time, without calling them, after they return.
"""

from __future__ import annotations

import traceback

import bpy
from bpy.app.handlers import persistent

from . import anchors, findings, live, plots
from .state import STATE
from .structure import structure


def _solve(depsgraph: bpy.types.Depsgraph, fresh: bool) -> None:
    if STATE.busy:
        return
    # A rebuilt dependency graph shows as updated collections: something was added,
    # removed, parented, constrained or renamed.
    if depsgraph.id_type_updated("COLLECTION"):
        STATE.forget_plans()
    groups = live.rig_groups()
    # An edited constraint or bone shows as an updated armature, and so does a posed bone.
    if groups and depsgraph.id_type_updated("ARMATURE") and structure(groups) != STATE.structure:
        STATE.forget_plans()
        groups = live.rig_groups()
        # After the groups: gathering them forgets it.
        STATE.structure = structure(groups)
    if groups and not fresh:
        groups = _concerned(groups, depsgraph)
    if not groups:
        return
    with STATE.at_work():
        for group in groups:
            _solve_or_report(group, depsgraph, fresh)


def _concerned(groups: list, depsgraph: bpy.types.Depsgraph) -> list:
    """The groups that an edit concerns.

    A rig is among the updated objects also when only a target of it moved: the driver that
    holds on to the target belongs to the rig.
    """
    updated = {update.id.original.session_uid for update in depsgraph.updates}
    return [
        group
        for group in groups
        if any(ob.session_uid in updated or ob.data.session_uid in updated for ob in group)
    ]


def _solve_or_report(group: list, depsgraph: bpy.types.Depsgraph, fresh: bool) -> None:
    try:
        live.solve_group(group, depsgraph, fresh)
    except Exception:  # noqa: BLE001 - a fault must not stop playback: report it once
        text = traceback.format_exc()
        if STATE.first_report(text):
            names = ", ".join(ob.name for ob in group)
            print(f"IK Chains: {names}: the solve failed, the pose stays as it is.\n{text}")


def _follow_findings(depsgraph: bpy.types.Depsgraph, fresh: bool) -> None:
    if STATE.checked and not STATE.busy and depsgraph.mode == "VIEWPORT":
        findings.follow(depsgraph, fresh)


@persistent
def ik_chains_frame_change(_scene: bpy.types.Scene, depsgraph: bpy.types.Depsgraph) -> None:
    """Solve every rig of the view layer at its new frame."""
    _solve(depsgraph, fresh=True)
    _follow_findings(depsgraph, fresh=True)


@persistent
def ik_chains_depsgraph_update(_scene: bpy.types.Scene, depsgraph: bpy.types.Depsgraph) -> None:
    """Solve the rigs that an edit concerns."""
    _solve(depsgraph, fresh=False)
    _follow_findings(depsgraph, fresh=False)


@persistent
def ik_chains_load(_path: str) -> None:
    """Forget the file before, and solve the one that was loaded."""
    STATE.clear()
    plots.forget()
    rigs = [ob for group in live.rig_groups() for ob in group]
    if not rigs:
        return
    for ob in rigs:
        if ob.library is None:
            anchors.repair(ob)
    # Blender calls no handler when it evaluates a file for the first time; the next update solves.
    bpy.context.view_layer.update()
    for ob in rigs:
        ob.update_tag()
    bpy.context.view_layer.update()


@persistent
def ik_chains_undo(_scene: bpy.types.Scene) -> None:
    """Undo and redo swap the data: nothing that was compiled or found before holds."""
    STATE.forget_plans()
    STATE.checked.clear()


HANDLERS = (
    ("frame_change_post", ik_chains_frame_change),
    ("depsgraph_update_post", ik_chains_depsgraph_update),
    ("load_post", ik_chains_load),
    ("undo_pre", ik_chains_undo),
    ("redo_pre", ik_chains_undo),
)


def register() -> None:
    """Add each handler once."""
    unregister()
    for name, handler in HANDLERS:
        getattr(bpy.app.handlers, name).append(handler)


def unregister() -> None:
    """Take the handlers away, also those that an earlier copy of the module left behind."""
    STATE.clear()
    plots.forget()
    for name, handler in HANDLERS:
        handlers = getattr(bpy.app.handlers, name)
        for other in [h for h in handlers if getattr(h, "__name__", "") == handler.__name__]:
            handlers.remove(other)

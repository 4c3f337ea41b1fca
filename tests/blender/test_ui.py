# SPDX-License-Identifier: GPL-3.0-or-later
"""What the panels show, read off a layout that takes down what is drawn on it."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import bpy
import counted
import numpy as np
import pytest
from rig_state import dump, make_empty, make_rig

from ik_addon.blender import plots, ranges
from ik_addon.core.job import Status
from ik_addon.core.plot import axis_top
from ik_addon.ui import contact_panel, panels, plot_panel

pytestmark = pytest.mark.usefixtures("fresh")

FUNCTIONS = bpy.types.UILayout.bl_rna.functions
ICONS = FUNCTIONS["label"].parameters["icon"].enum_items
NESTED = ("row", "column", "box", "split")


@dataclass
class Sheet:
    """Stands in for `UILayout`: accepts what that accepts, and takes it down.

    Attributes:
        calls: (function, positional arguments, named arguments), of nested layouts too.
    """

    calls: list[tuple[str, tuple, dict]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        parameters = FUNCTIONS[name].parameters.keys()

        def draw(*args: Any, **named: Any) -> Any:
            assert set(named) <= {*parameters, "text_ctxt"}, f"{name} has no {set(named) - set(parameters)}"
            assert named.get("icon", "NONE") in ICONS
            if name in ("prop", "prop_search"):
                assert args[1] in args[0].bl_rna.properties, f"{args[0]} has no '{args[1]}'"
            if name == "prop_search":
                assert args[3] in args[2].bl_rna.properties
            self.calls.append((name, args, named))
            if name == "operator":
                module, operator = args[0].split(".")
                assert operator in dir(getattr(bpy.ops, module)), f"no operator {args[0]}"
            return Sheet(self.calls) if name in NESTED else SimpleNamespace()

        return draw

    def props(self, owner: Any = None) -> list[str]:
        """Names of the properties drawn, of one owner or of all."""
        drawn = [args for name, args, _ in self.calls if name in ("prop", "prop_search")]
        return [args[1] for args in drawn if owner is None or args[0] == owner]

    def labels(self) -> list[str]:
        return [named.get("text", "") for name, _, named in self.calls if name == "label"]


def context_of(ob: bpy.types.Object | None) -> Any:
    scene = bpy.context.scene
    return SimpleNamespace(
        object=ob,
        scene=scene,
        # Without a window Blender's own scale of the interface is 0.
        preferences=SimpleNamespace(system=SimpleNamespace(ui_scale=1.0)),
        window_manager=bpy.context.window_manager,
        region=SimpleNamespace(width=280),
        path_resolve=lambda path: {
            "object": ob, "object.ik_chains": ob.ik_chains, "object.ik_chains_index": ob.ik_chains_index
        }[path],
    )  # fmt: skip


def draw(panel: type, ob: bpy.types.Object | None) -> Sheet | None:
    """What a panel draws, None when it is not shown."""
    context = context_of(ob)
    if not panel.poll(context):
        return None
    sheet = Sheet()
    panel.draw(SimpleNamespace(layout=sheet), context)
    return sheet


@pytest.fixture
def rig(fresh: Any) -> bpy.types.Object:
    ob = make_rig()
    bpy.ops.ik_chain.add(object="Rig", end_bone="shin", name="leg")
    return ob


LIMB = ("solver", "root_bone", "end_bone", "use_tail")
DRAWN = (*panels.CLASSES, *plot_panel.CLASSES, *contact_panel.CLASSES)
SECTIONS = [cls for cls in DRAWN if issubclass(cls, bpy.types.Panel)]


@pytest.mark.parametrize("panel", SECTIONS, ids=lambda panel: panel.__name__)
def test_drawing_only_reads(rig: bpy.types.Object, panel: type) -> None:
    before = dump()
    assert draw(panel, rig) is not None
    assert dump() == before


@pytest.mark.parametrize("panel", SECTIONS, ids=lambda panel: panel.__name__)
def test_shown_for_armature_objects_outside_edit_mode(rig: bpy.types.Object, panel: type) -> None:
    assert panel.poll(context_of(rig))
    assert not panel.poll(context_of(None))
    assert not panel.poll(context_of(make_empty("Door", (0.0, 0.0, 0.0))))
    bpy.ops.object.mode_set(mode="POSE")
    assert panel.poll(context_of(rig))
    bpy.ops.object.mode_set(mode="EDIT")
    assert not panel.poll(context_of(rig))


def test_without_chains_only_the_list_is_shown() -> None:
    bare = make_rig("Bare")
    assert [panel for panel in SECTIONS if panel.poll(context_of(bare))] == [panels.IKCHAIN_PT_main]
    operators = [args[0] for name, args, _ in draw(panels.IKCHAIN_PT_main, bare).calls if name == "operator"]
    assert operators == ["ik_chain.add", "ik_chain.remove", "ik_chain.setup"]


@pytest.mark.parametrize(
    ("settings", "solver", "target", "pole"),
    [
        (
            {"solver": "TWO_BONE"},
            [*LIMB, "use_limits", "softness", "limit_mode", "use_planar"],
            ["target_space", "target_location", "smooth_frames"],
            ["pole_mode", "pole_angle"],
        ),
        (
            {"use_planar": True},
            [*LIMB, "use_limits", "softness", "limit_mode", "use_planar", "planar_axis", "bend_sign"],
            ["target_space", "target_location", "smooth_frames"],
            None,
        ),
        (
            {"solver": "FABRIK", "use_tail": False, "use_rotation": True, "pole_mode": "POINT"},
            [*LIMB, "use_limits", "softness", "limit_mode", "use_lean", "lean", "iterations", "tolerance"],
            ["target_space", "target_location", "use_rotation", "target_rotation", "smooth_frames"],
            ["pole_mode", "pole_space", "pole_location", "pole_angle"],
        ),
        (
            {"solver": "THREE_BONE"},
            [*LIMB, "limb_mode", "share", "share_max", "use_limits", "softness", "limit_mode"],
            ["target_space", "target_location", "smooth_frames"],
            ["pole_mode", "pole_angle"],
        ),
        (
            {"solver": "TWO_BONE", "limit_mode": "MOVE_ROOT"},
            [
                *LIMB,
                "use_limits",
                "softness",
                "limit_mode",
                "move_bone",
                "move_max",
                "move_smooth",
                "use_planar",
            ],
            ["target_space", "target_location", "smooth_frames"],
            ["pole_mode", "pole_angle"],
        ),
        (
            {"solver": "TWO_BONE", "limit_mode": "STRETCH"},
            [*LIMB, "use_limits", "softness", "limit_mode", "stretch_max", "use_planar"],
            ["target_space", "target_location", "smooth_frames"],
            ["pole_mode", "pole_angle"],
        ),
        (
            {"solver": "THREE_BONE", "limb_mode": "HOCK_PARALLEL"},
            [*LIMB, "limb_mode", "use_limits", "softness", "limit_mode"],
            ["target_space", "target_location", "smooth_frames"],
            ["pole_mode", "pole_angle"],
        ),
        (
            {"solver": "THREE_BONE", "limb_mode": "HOCK_RATIO", "pole_mode": "POINT"},
            [*LIMB, "limb_mode", "share", "use_limits", "softness", "limit_mode"],
            ["target_space", "target_location", "smooth_frames"],
            ["pole_mode", "pole_space", "pole_location", "pole_angle"],
        ),
        (
            {"solver": "AIM", "aim_mode": "LOOK_AT", "pole_mode": "DIRECTION"},
            [
                "solver",
                "end_bone",
                "aim_mode",
                "aim_axis",
                "up_axis",
                "aim_offset",
                "aim_limit",
                "aim_damping",
                "use_limits",
            ],
            ["target_space", "target_location", "smooth_frames"],
            ["pole_mode", "pole_space", "pole_location"],
        ),
        (
            {"solver": "AIM", "aim_mode": "MATCH_ROTATION", "pole_mode": "POINT"},
            ["solver", "end_bone", "aim_mode", "offset_yaw", "use_limits"],
            ["target_space", "target_rotation", "smooth_frames"],
            None,
        ),
    ],
    ids=[
        "two-bone",
        "planar",
        "fabrik",
        "clavicle",
        "move root",
        "stretch",
        "parallel hock",
        "hock by ratio",
        "look at",
        "match rotation",
    ],
)
def test_only_what_the_solver_uses_is_shown(
    rig: bpy.types.Object,
    settings: dict[str, Any],
    solver: list[str],
    target: list[str],
    pole: list[str] | None,
) -> None:
    chain = rig.ik_chains[0]
    for name, value in settings.items():
        setattr(chain, name, value)
    assert draw(panels.IKCHAIN_PT_solver, rig).props(chain) == solver
    assert draw(panels.IKCHAIN_PT_target, rig).props(chain) == target
    sheet = draw(panels.IKCHAIN_PT_pole, rig)
    assert (sheet and sheet.props(chain)) == pole


def test_a_custom_space_shows_its_object_and_of_an_armature_its_bone(rig: bpy.types.Object) -> None:
    chain = rig.ik_chains[0]
    chain.target_space = chain.pole_space = "CUSTOM"
    chain.pole_mode = "POINT"
    chain.target, chain.pole_target = rig, make_empty("Knee", (0.0, -1.0, 0.5))
    shown = draw(panels.IKCHAIN_PT_target, rig).props(chain)
    assert shown == ["target_space", "target", "subtarget", "target_location", "smooth_frames"]
    shown = draw(panels.IKCHAIN_PT_pole, rig).props(chain)
    assert shown == ["pole_mode", "pole_space", "pole_target", "pole_location", "pole_angle"]


def test_the_list_shows_the_status_of_every_chain(rig: bpy.types.Object) -> None:
    bpy.ops.ik_chain.add(object="Rig", end_bone="control", root_bone="control", solver="FABRIK", name="far")
    rig.ik_chains["far"].target_location = (0.0, 0.0, -9.0)
    bpy.context.view_layer.update()
    expected = ("OK", "CHECKMARK"), ("TARGET_FAR", "ERROR")
    for chain, (status, icon) in zip(rig.ik_chains, expected, strict=True):
        assert chain.status == status
        sheet = Sheet()
        panels.IKCHAIN_UL_chains.draw_item(None, None, sheet, rig, chain, 0, rig, "")
        assert sheet.props(chain) == ["name", "influence", "mute"]
        shown = [named["icon_value"] for name, _, named in sheet.calls if name == "label"]
        assert shown == [ICONS[icon].value]


def test_the_result_shows_status_and_residual_in_units_of_the_scene(rig: bpy.types.Object) -> None:
    rig.ik_chains[0].target_location = (0.1, 0.0, 1.0 - 2.0)
    bpy.context.view_layer.update()
    labels = draw(panels.IKCHAIN_PT_result, rig).labels()
    assert labels[:3] == ["Status", "Out of Reach", "Residual"]
    reach = sum(bone.length for bone in (rig.data.bones["thigh"], rig.data.bones["shin"]))
    assert labels[3] == bpy.utils.units.to_string("METRIC", "LENGTH", 2.0 - reach, precision=6)
    bpy.context.scene.unit_settings.system = "IMPERIAL"
    assert draw(panels.IKCHAIN_PT_result, rig).labels()[3].endswith("'")


def test_a_muted_chain_is_told_from_a_live_one(rig: bpy.types.Object) -> None:
    """Its eye is closed, and its status and influence are greyed, in the list and below it."""

    found: list[str] = []

    @dataclass
    class Layout(Sheet):
        active: bool = True

        def __getattr__(self, name: str) -> Any:
            draw = super().__getattr__(name)

            def drawn(*args: Any, **named: Any) -> Any:
                if not self.active:
                    found.append(args[1] if name == "prop" else name)
                nested = draw(*args, **named)
                return Layout(self.calls) if name in NESTED else nested

            return drawn

    def greyed() -> list[str]:
        found.clear()
        chain = rig.ik_chains[0]
        panels.IKCHAIN_UL_chains.draw_item(None, None, Layout(), rig, chain, 0, rig, "")
        panels.IKCHAIN_PT_main.draw(SimpleNamespace(layout=Layout()), context_of(rig))
        return found

    assert greyed() == []
    rig.ik_chains[0].mute = True
    assert greyed() == ["label", "influence", "influence"]
    sheet = Sheet()
    panels.IKCHAIN_UL_chains.draw_item(None, None, sheet, rig, rig.ik_chains[0], 0, rig, "")
    assert [named["icon"] for _, args, named in sheet.calls if args[1:] == ("mute",)] == ["HIDE_ON"]


def measured(rig: bpy.types.Object, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The leg falls short from frame 7 on; a picture with the icon number 77."""
    chain = rig.ik_chains[0]
    for frame, height in ((6, chain.target_location.z), (10, -0.5)):
        chain.target_location.z = height
        chain.keyframe_insert("target_location", frame=frame)
    bpy.context.scene.frame_set(1)
    bpy.ops.ik_chain.plot_residual(object="Rig", frame_start=1, frame_end=10)
    monkeypatch.setattr(plots, "picture", lambda *_: 77)
    return plots.track_of(rig, chain)


def test_the_plot_stands_between_its_axes_and_names_its_causes(
    rig: bpy.types.Object, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert draw(plot_panel.IKCHAIN_PT_plot, rig).labels() == [], "nothing is measured yet"
    track = measured(rig, monkeypatch)
    sheet = draw(plot_panel.IKCHAIN_PT_plot, rig)
    far = int((track.status == Status.TARGET_FAR).sum())
    assert 0 < far < 10
    largest, mean = (
        panels.length_text(bpy.context.scene, float(x)) for x in (track.residual[9], track.residual.mean())
    )
    top = panels.length_text(bpy.context.scene, axis_top(track))
    causes = ["Out of Reach", str(far), "On Target", str(10 - far)]
    assert sheet.labels() == [top, "1", "10", *causes, "Largest", largest, "Mean", mean]
    assert [named["icon_value"] for name, _, named in sheet.calls if name == "template_icon"] == [77]
    operators = [args[0] for name, args, _ in sheet.calls if name == "operator"]
    assert operators == ["ik_chain.plot_residual", "ik_chain.save_plot", "wm.context_set_int"]


def test_a_chain_that_is_always_on_target_needs_no_picture(
    rig: bpy.types.Object, monkeypatch: pytest.MonkeyPatch
) -> None:
    bpy.ops.ik_chain.plot_residual(object="Rig", frame_start=1, frame_end=10)
    monkeypatch.setattr(plots, "picture", lambda *_: 77)
    sheet = draw(plot_panel.IKCHAIN_PT_plot, rig)
    assert [name for name, _, _ in sheet.calls if name == "template_icon"] == []
    assert sheet.labels() == ["On Target", "10"]


def test_a_plot_of_a_chain_that_changed_says_so(
    rig: bpy.types.Object, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(rig, monkeypatch)
    bpy.context.scene.frame_set(10)
    hint = "Changed since: plot again"
    assert hint not in draw(plot_panel.IKCHAIN_PT_plot, rig).labels()
    rig.ik_chains[0].target_location.z = -0.7
    bpy.context.view_layer.update()
    assert hint in draw(plot_panel.IKCHAIN_PT_plot, rig).labels()


def test_a_broken_chain_says_why_in_lines_that_fit(rig: bpy.types.Object) -> None:
    rig.ik_chains[0].end_bone = "a bone that is long gone"
    bpy.context.view_layer.update()
    labels = draw(panels.IKCHAIN_PT_result, rig).labels()
    assert labels[:2] == ["Status", "Broken"]
    message = labels[2:]
    assert len(message) > 1 and max(map(len, message)) <= 34
    assert " ".join(message) == rig.ik_chains[0].message
    assert "'a bone that is long gone' does not exist" in " ".join(message)


def test_contacts_show_what_the_last_check_found(rig: bpy.types.Object) -> None:
    """Buttons before it; after it a row for each contact of the active chain, which leads to its frame."""
    panel = contact_panel.IKCHAIN_PT_contacts
    operators = [args[0] for name, args, _ in draw(panel, rig).calls if name == "operator"]
    assert operators == ["ik_chain.check", "ik_chain.plant"] and draw(panel, rig).labels() == []
    bpy.ops.ik_chain.plant(object="Rig", frame_start=1, frame_end=20)
    sheet = draw(panel, rig)
    rows = [named for name, args, named in sheet.calls if name == "operator" and args[0].startswith("wm.")]
    assert [row["text"] for row in rows] == ["1 \u2013 20"]
    assert sheet.labels() == [bpy.utils.units.to_string("METRIC", "LENGTH", 0.0, precision=6)]
    rig.ik_chains[0].target_space = "ARMATURE"
    rig.location.x = 1.0
    rig.keyframe_insert("location", frame=20)
    rig.location.x = 0.9
    rig.keyframe_insert("location", frame=1)
    bpy.context.view_layer.update()
    assert draw(panel, rig).labels() == []
    bpy.ops.ik_chain.check(object="Rig", frame_start=1, frame_end=20)
    _, *why = draw(panel, rig).labels()
    assert len(why) > 2 and max(map(len, why)) <= 34
    assert " ".join(why).endswith("the space it is stored in, the character's own ('Rig')")


def test_a_tip_that_rests_nowhere_is_told(rig: bpy.types.Object) -> None:
    bpy.ops.ik_chain.check(object="Rig", frame_start=5, frame_end=5)
    assert (
        " ".join(draw(contact_panel.IKCHAIN_PT_contacts, rig).labels()) == "It rests nowhere in frames 5 to 5"
    )


def test_the_plant_button_takes_the_range_of_the_check(rig: bpy.types.Object) -> None:
    given = []

    class Layout(Sheet):
        def operator(self, name: str, **_: Any) -> Any:
            given.append((name, SimpleNamespace()))
            return given[-1][1]

    context = context_of(rig)
    settings = SimpleNamespace(scope="ALL", frame_range="CUSTOM", frame_start=3, frame_end=9, bl_rna=None)
    context.window_manager = SimpleNamespace(operator_properties_last=lambda name: settings)
    layout = Layout()
    layout.prop = lambda *args, **named: None
    layout.row = layout.column = lambda **named: layout
    contact_panel.IKCHAIN_PT_contacts.draw(SimpleNamespace(layout=layout), context)
    (_, plant) = given[1]
    assert vars(plant) == {"scope": "ALL", "frame_range": "CUSTOM", "frame_start": 3, "frame_end": 9}


def test_the_list_has_a_menu_of_presets(rig: bpy.types.Object) -> None:
    sheet = draw(panels.IKCHAIN_PT_main, rig)
    assert ("menu", ("IKCHAIN_MT_presets",)) in [(name, args) for name, args, _ in sheet.calls]
    buttons = []

    class Layout(Sheet):
        def operator(self, name: str, **named: Any) -> Any:
            buttons.append((name, named["text"], SimpleNamespace()))
            return buttons[-1][2]

    menu = Layout()
    panels.IKCHAIN_MT_presets.draw(SimpleNamespace(layout=menu), context_of(rig))
    assert [(name, text, button.preset) for name, text, button in buttons] == [
        ("ik_chain.setup", "All Limbs", "AUTO"),
        ("ik_chain.setup", "Arms", "ARMS"),
        ("ik_chain.setup", "Legs", "LEGS"),
        ("ik_chain.setup", "Spine", "SPINE"),
        ("ik_chain.setup", "Tails", "TAILS"),
        ("ik_chain.add", "Selected Spine", "SPINE"),
    ]


def test_move_buttons_are_off_at_the_ends_of_the_list(rig: bpy.types.Object) -> None:
    enabled = []

    class Column(Sheet):
        def row(self) -> Any:
            row = Sheet(self.calls)
            enabled.append(row)
            return row

    bpy.ops.ik_chain.add(object="Rig", end_bone="foot")
    panels._draw_list_buttons(Column(), rig)
    assert [row.enabled for row in enabled] == [True, True, False]


def test_keyed_and_driven_settings_show_the_value_of_the_frame(rig: bpy.types.Object) -> None:
    """The data that is drawn is the original: Blender brings the animated values back to it."""
    scene, chain = bpy.context.scene, rig.ik_chains[0]
    for frame, influence, mute in ((1, 0.0, False), (11, 1.0, True)):
        chain.influence, chain.mute = influence, mute
        chain.keyframe_insert("influence", frame=frame)
        chain.keyframe_insert("mute", frame=frame)
    curve = rig.driver_add("ik_chains[0].softness")
    curve.driver.type = "SUM"
    variable = curve.driver.variables.new()
    variable.type = "SINGLE_PROP"
    variable.targets[0].id_type, variable.targets[0].id = "SCENE", scene
    variable.targets[0].data_path = "render.fps_base"
    scene.render.fps_base = 0.5
    scene.frame_set(6)
    assert (chain.influence, chain.mute, chain.softness) == pytest.approx((0.5, False, 0.5))
    scene.frame_set(11)
    assert (chain.influence, chain.mute) == (1.0, True)


@pytest.mark.parametrize(("bones", "frames"), [(400, 100), (40, 10_000)])
def test_drawing_does_not_grow_with_bones_and_frames(bones: int, frames: int) -> None:
    assert drawing_steps(bones, frames) == drawing_steps(40, 100)


def drawing_steps(bones: int, frames: int) -> int:
    """What it takes to draw the panels of a rig with 20 chains and a plot."""
    armature = bpy.data.armatures.new("Big")
    ob = bpy.data.objects.new("Big", armature)
    bpy.context.scene.collection.objects.link(ob)
    bpy.context.view_layer.objects.active = ob
    bpy.ops.object.mode_set(mode="EDIT")
    for i in range(bones):
        bone = armature.edit_bones.new(f"bone{i}")
        bone.head, bone.tail = (0.0, 0.0, i), (0.0, 0.1 * (i % 2), i + 1.0)
        bone.parent = armature.edit_bones.get(f"bone{i - 1}")
    bpy.ops.object.mode_set(mode="OBJECT")
    for i in range(20):
        bpy.ops.ik_chain.add(object="Big", end_bone=f"bone{2 * i + 1}")

    times = np.arange(float(frames))
    status = (np.arange(frames) % len(Status)).astype(np.int8)
    # The slowest plot to show: with every status.
    track = ranges.ChainTrack(
        "Big", ob.ik_chains[0].name, "TWO_BONE", times, times, status, np.zeros((frames, 3)), times, ""
    )
    plots.remember(ob, [track])
    ob.ik_chains_index = 0

    layout = Blank()
    panel = SimpleNamespace(layout=layout)
    context = context_of(ob)

    def draw_all() -> None:
        for section in SECTIONS:
            if section.poll(context):
                section.draw(panel, context)
        for chain in ob.ik_chains:
            panels.IKCHAIN_UL_chains.draw_item(None, context, layout, ob, chain, 0, ob, "")

    draw_all()
    found = counted.steps(draw_all)
    bpy.data.objects.remove(ob)
    bpy.data.armatures.remove(armature)
    return found


class Blank:
    """Takes everything and does nothing."""

    def __getattr__(self, _name: str) -> Any:
        return lambda *_args, **_named: self

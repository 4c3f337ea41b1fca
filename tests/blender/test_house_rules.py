# SPDX-License-Identifier: GPL-3.0-or-later
"""What Blender shows of the add-on follows Blender's own conventions: read from the registered classes."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bpy
import pytest

SENTENCE_ENDS = re.compile(r"[.!?]\s*$|[.!?]\s+[A-Z]|\n")

PREFIXES = {
    bpy.types.Operator: "IKCHAIN_OT_",
    bpy.types.Panel: "IKCHAIN_PT_",
    bpy.types.UIList: "IKCHAIN_UL_",
    bpy.types.Menu: "IKCHAIN_MT_",
    bpy.types.GizmoGroup: "IKCHAIN_GGT_",
}


def registered(base: type) -> list[type]:
    """The add-on's registered classes below a base class of Blender."""
    found, waiting = [], [base]
    while waiting:
        children = waiting.pop().__subclasses__()
        waiting += children
        found += [
            c for c in children if c.__module__.startswith("ik_addon") and getattr(c, "is_registered", False)
        ]
    return found


def shown_properties() -> Iterator[tuple[str, Any]]:
    """Every property that the add-on defines, as (where, property)."""
    for operator in registered(bpy.types.Operator):
        for item in operator_rna(operator).properties:
            if item.is_runtime:
                yield operator.bl_idname, item
    for base in (bpy.types.PropertyGroup, bpy.types.AddonPreferences):
        for group in registered(base):
            yield from ((group.__name__, item) for item in group.bl_rna.properties if item.is_runtime)
    for name in dir(bpy.types):
        rna = getattr(getattr(bpy.types, name), "bl_rna", None)
        own = rna.base.properties.keys() if rna and rna.base else ()
        for item in rna.properties if rna else ():
            if item.is_runtime and item.identifier.startswith("ik_") and item.identifier not in own:
                yield name, item


def operator_rna(operator: type) -> Any:
    module, name = operator.bl_idname.split(".")
    return getattr(getattr(bpy.ops, module), name).get_rna_type()


def test_rules_have_something_to_hold_for() -> None:
    assert registered(bpy.types.Operator) and registered(bpy.types.Panel) and registered(bpy.types.UIList)
    assert {"Object", "IKChain"} <= {where for where, _ in shown_properties()}


@pytest.mark.parametrize("base", PREFIXES, ids=lambda base: base.__name__)
def test_class_names(base: type) -> None:
    names = [cls.__name__ for cls in registered(base)]
    assert [name for name in names if not name.startswith(PREFIXES[base])] == []


def test_operators_are_called_ik_chain_and_named_like_their_class() -> None:
    for operator in registered(bpy.types.Operator):
        assert operator.bl_idname == "ik_chain." + operator.__name__.removeprefix("IKCHAIN_OT_")


def test_panels_share_one_tab() -> None:
    tabs = {panel.bl_category for panel in registered(bpy.types.Panel) if not hasattr(panel, "bl_parent_id")}
    assert len(tabs) == 1


def test_tooltips_are_one_sentence_without_full_stop() -> None:
    tooltips = {
        operator.bl_idname: operator_rna(operator).description for operator in registered(bpy.types.Operator)
    }
    for where, item in shown_properties():
        tooltips[f"{where}.{item.identifier}"] = item.description
    assert [where for where, text in tooltips.items() if not text] == [], "without a tooltip"
    assert {where: text for where, text in tooltips.items() if SENTENCE_ENDS.search(text)} == {}


def test_enum_items_say_what_they_do() -> None:
    items = {
        f"{where}.{item.identifier}.{choice.identifier}": choice.description
        for where, item in shown_properties()
        if item.type == "ENUM"
        for choice in item.enum_items
    }
    assert [where for where, text in items.items() if not text or SENTENCE_ENDS.search(text)] == []


def test_visible_properties_have_a_label() -> None:
    assert [
        f"{where}.{i.identifier}" for where, i in shown_properties() if not i.is_hidden and not i.name
    ] == []


def test_settings_can_be_overridden_on_a_linked_rig() -> None:
    """All but the read-only results, whose storage follows the chain."""
    settings = [
        (where, i) for where, i in shown_properties() if where in ("Object", "IKChain") and not i.is_readonly
    ]
    locked = [f"{where}.{i.identifier}" for where, i in settings if not i.is_overridable]
    assert locked == []


def test_every_operator_is_in_the_documentation() -> None:
    """And nothing else is called one there."""
    documented = (Path(__file__).parents[2] / "docs" / "settings.md").read_text("utf-8")
    named = set(re.findall(r"`(ik_chain\.\w+)`", documented.partition("## Operators")[2].partition("## ")[0]))
    assert named == {f"ik_chain.{name}" for name in dir(bpy.ops.ik_chain)}


def test_every_argument_of_an_operator_is_in_the_documentation() -> None:
    """With all its values, on a line that names the operator."""
    documented = (Path(__file__).parents[2] / "docs" / "settings.md").read_text("utf-8")
    table = documented.partition("Their arguments")[2].partition("## ")[0]
    lines = [set(re.findall(r"`(\w+)`", line)) for line in table.splitlines() if line.startswith("| `")]
    for operator in registered(bpy.types.Operator):
        for item in operator_rna(operator).properties:
            if not item.is_runtime or item.is_hidden:
                continue
            own = [line for line in lines if {item.identifier, operator.bl_idname.split(".")[1]} <= line]
            assert len(own) == 1, (operator.bl_idname, item.identifier)
            if item.type == "ENUM" and item.identifier != "solver":
                assert {value.identifier for value in item.enum_items} <= own[0], (
                    operator.bl_idname,
                    item.identifier,
                )

# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of a chain as plain values, checked against Blender's own definition of each.

What a setting is called, its type, items, range and length are read from the `IKChain`
class, so that a setting that is added there is known here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

import bpy
import numpy as np

LARGEST = float(np.finfo(np.float32).max)


class SettingError(ValueError):
    """What is wrong with a value, in words that follow the name of its setting."""


def definitions() -> dict[str, bpy.types.Property]:
    """The settings of a chain by name: all its properties that can be written and are shown."""
    group = bpy.types.Object.bl_rna.properties["ik_chains"].fixed_type
    return {p.identifier: p for p in group.properties if not (p.is_readonly or p.is_hidden)}


def default(prop: bpy.types.Property) -> Any:
    """The default of a setting as a plain value; None for an object."""
    if prop.type == "POINTER":
        return None
    if prop.type == "FLOAT":
        return [_shortest(x) for x in prop.default_array] if prop.is_array else _shortest(prop.default)
    return prop.default


def plain(chain: bpy.types.PropertyGroup, prop: bpy.types.Property) -> Any:
    """The value of a setting for JSON: an object by its name, a float by its shortest decimals."""
    value = getattr(chain, prop.identifier)
    if prop.type == "POINTER":
        return None if value is None else value.name
    if prop.type == "FLOAT":
        return [_shortest(x) for x in value] if prop.is_array else _shortest(value)
    return value


def checked(prop: bpy.types.Property, value: Any) -> Any:
    """A plain value as the setting takes it; an object stays a name.

    Raises:
        SettingError: for a wrong type, an item that does not exist, a wrong length, a
            number that is not finite or out of range.
    """
    if getattr(prop, "is_array", False):
        size = prop.array_length
        if not isinstance(value, list) or len(value) != size:
            raise SettingError(f"expected a list of {size} numbers, got {shown(value)}")
        return tuple(_CHECKS[prop.type](prop, item) for item in value)
    return _CHECKS[prop.type](prop, value)


def unknown(kind: str, name: str, known: list[str]) -> str:
    """Words for a name that does not exist, with the one that may have been meant."""
    near = get_close_matches(name, known, 1)
    return f"unknown {kind} '{name}'" + (f"; did you mean '{near[0]}'?" if near else "")


def _boolean(_prop: bpy.types.Property, value: Any) -> bool:
    if not isinstance(value, bool):
        raise SettingError(f"expected true or false, got {shown(value)}")
    return value


def _integer(prop: bpy.types.Property, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise SettingError(f"expected a whole number, got {shown(value)}")
    if not prop.hard_min <= value <= prop.hard_max:
        raise SettingError(f"expected a whole number from {prop.hard_min} to {prop.hard_max}, got {value}")
    return value


def finite(value: Any) -> float:
    """A finite number that Blender can store.

    Raises:
        SettingError: for anything else, `True` and `False` included.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SettingError(f"expected a number, got {shown(value)}")
    if not math.isfinite(value) or abs(value) > LARGEST:
        raise SettingError(f"expected a finite number, got {shown(value)}")
    return float(value)


def _number(prop: bpy.types.Property, value: Any) -> float:
    # Compared as Blender stores it: the ends of a range are themselves rounded so.
    if not prop.hard_min <= float(np.float32(finite(value))) <= prop.hard_max:
        low, high = _shortest(prop.hard_min), _shortest(prop.hard_max)
        raise SettingError(f"expected a number from {low:g} to {high:g}, got {value}")
    return float(value)


def _text(_prop: bpy.types.Property, value: Any) -> str:
    if not isinstance(value, str):
        raise SettingError(f"expected a text, got {shown(value)}")
    return value


def _item(prop: bpy.types.Property, value: Any) -> str:
    items = prop.enum_items.keys()
    if not isinstance(value, str) or value not in items:
        raise SettingError(f"expected one of {', '.join(items)}, got {shown(value)}")
    return value


def _object_name(_prop: bpy.types.Property, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise SettingError(f"expected the name of an object, got {shown(value)}")
    return value


_CHECKS: dict[str, Callable[[bpy.types.Property, Any], Any]] = {
    "BOOLEAN": _boolean,
    "INT": _integer,
    "FLOAT": _number,
    "STRING": _text,
    "ENUM": _item,
    "POINTER": _object_name,
}


def _shortest(value: float) -> float:
    """The shortest decimal number that Blender stores as this same single-precision value."""
    return float(str(np.float32(value)))


def shown(value: Any) -> str:
    """A value for a message, cut when it is long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."

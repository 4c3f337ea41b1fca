# SPDX-License-Identifier: GPL-3.0-or-later
"""A rig's chains as JSON, both ways.

    {"version": 1, "armatures": {"Armature": [{"name": "leg.L", "root_bone": "thigh.L", ...}]}}

A chain's keys are its settings (see `settings`); objects stand by their names, and what is
left out has its default. A target or pole without a place is put where the tip is, so that
adding the chain moves nothing. One key is no setting: `target_frame` puts the target where
the tip is at that frame, for a foot that is planted there.

Everything is checked before anything is changed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bpy

from . import chains, memory, placing, settings
from .chain_bones import ChainError, uses_pole
from .state import STATE

VERSION = 1
TARGET_FRAME = "target_frame"
# Without these a chain is placed where its tip is: they are written out also at their defaults.
PLACES = ("target_location", "target_rotation", "pole_location")


class ConfigError(ValueError):
    """What is wrong with a rig configuration: file, armature, chain, key and cause in one sentence."""


@dataclass(frozen=True)
class ChainConfig:
    """One chain of a configuration.

    Attributes:
        source: the file, for messages.
        armature, name: of the armature object and of the chain.
        values: checked settings; objects by name.
        target_frame: the frame whose tip is the target, or None.
    """

    source: str
    armature: str
    name: str
    values: dict[str, Any]
    target_frame: float | None

    @property
    def where(self) -> str:
        """File, armature and chain, to begin a message with."""
        return f"{self.source}: armature '{self.armature}': chain '{self.name}'"


def read(path: Path) -> list[ChainConfig]:
    """The chains of a configuration file.

    Raises:
        ConfigError: naming file, armature, chain and key, for all that is wrong in itself.
    """
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not a text in UTF-8") from error
    return parse(text, str(path))


def parse(text: str, source: str) -> list[ChainConfig]:
    """The chains of a configuration; `source` names it in messages. Raises as `read` does."""

    def no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        for key in keys:
            if keys.count(key) > 1:
                raise ConfigError(f"{source}: key '{key}' stands twice in one object")
        return dict(pairs)

    try:
        data = json.loads(text, object_pairs_hook=no_twins)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ConfigError(f"{source}: is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{source}: expected an object with 'version' and 'armatures'")
    for key in data:
        if key not in ("version", "armatures"):
            raise ConfigError(f"{source}: {settings.unknown('key', key, ['version', 'armatures'])}")
    version = data.get("version")
    if version != VERSION or isinstance(version, bool):
        raise ConfigError(f"{source}: key 'version': expected {VERSION}, got {version!r}")
    armatures = data.get("armatures")
    if not isinstance(armatures, dict):
        raise ConfigError(f"{source}: key 'armatures': expected an object, from armature to list of chains")
    return [chain for name, items in armatures.items() for chain in _armature(source, name, items)]


def _armature(source: str, armature: str, items: Any) -> list[ChainConfig]:
    where = f"{source}: armature '{armature}'"
    if not isinstance(items, list):
        raise ConfigError(f"{where}: expected a list of chains")
    configs: list[ChainConfig] = []
    for number, item in enumerate(items, start=1):
        config = _chain(source, armature, number, item)
        if config.name in (other.name for other in configs):
            raise ConfigError(f"{config.where}: key 'name': another chain of the armature has this name")
        configs.append(config)
    return configs


def _chain(source: str, armature: str, number: int, item: Any) -> ChainConfig:
    where = f"{source}: armature '{armature}': chain {number}"
    if not isinstance(item, dict):
        raise ConfigError(f"{where}: expected an object, got {settings.shown(item)}")
    name = item.get("name", item.get("end_bone"))
    if isinstance(name, str) and name:
        where = f"{source}: armature '{armature}': chain '{name}'"
    known = settings.definitions()
    values: dict[str, Any] = {}
    target_frame = None
    for key, value in item.items():
        try:
            if key == TARGET_FRAME:
                target_frame = settings.finite(value)
            elif key not in known:
                raise ConfigError(f"{where}: {settings.unknown('key', key, [*known, TARGET_FRAME])}")
            else:
                values[key] = settings.checked(known[key], value)
        except settings.SettingError as error:
            raise ConfigError(f"{where}: key '{key}': {error}") from error
    for key in ("root_bone", "end_bone"):
        if not values.get(key):
            raise ConfigError(f"{where}: key '{key}' is missing")
    values.setdefault("name", values["end_bone"])
    if not values["name"]:
        raise ConfigError(f"{where}: key 'name': is empty")
    if target_frame is not None and "target_location" in values:
        raise ConfigError(
            f"{where}: key '{TARGET_FRAME}': 'target_location' says already where the target is"
        )
    return ChainConfig(source, armature, values["name"], values, target_frame)


def apply(configs: Iterable[ChainConfig]) -> list[tuple[bpy.types.Object, bpy.types.PropertyGroup]]:
    """Give the armatures of the open file these chains, in the current scene at its frame.

    A chain of the same name takes all settings of the configuration, those left out go back
    to their defaults; its place in the list and its curves stay.

    Returns:
        armature object and chain of each configuration.

    Raises:
        ConfigError: before anything is changed, for names that do not exist in the file and
            chains that cannot be solved.
    """
    resolved = [(config, *_resolved(config)) for config in configs]
    _place_at_frames([(config, ob, values) for config, ob, values in resolved])
    done = []
    for config, ob, values in resolved:
        try:
            done.append((ob, _put(ob, values)))
        except (ChainError, TypeError) as error:
            raise ConfigError(f"{config.source}: {error}") from error
    return done


def _resolved(config: ChainConfig) -> tuple[bpy.types.Object, dict[str, Any]]:
    """The armature object and the settings with objects in place of their names."""
    ob = _local_first(config.armature)
    rigs = [other.name for other in bpy.data.objects if other.type == "ARMATURE"]
    if ob is None or ob.type != "ARMATURE":
        raise ConfigError(f"{config.where}: {settings.unknown('armature', config.armature, rigs)}")
    if ob.library is not None:
        raise ConfigError(f"{config.where}: the armature is linked from another file; override it first")
    known = settings.definitions()
    values = dict(config.values)
    for key in values:
        if known[key].type == "POINTER":
            values[key] = _local_first(config.values[key])
            if values[key] is None:
                names = [other.name for other in bpy.data.objects]
                text = settings.unknown("object", config.values[key], names)
                raise ConfigError(f"{config.where}: key '{key}': {text}")
    for key, bone in values.items():
        if bone and known[key].type == "STRING" and key.endswith(("_bone", "subtarget")):
            _check_bone(config.where, key, bone, ob if key.endswith("_bone") else values.get(_owner(key)))
    text = chains.problem(ob, _draft(values))
    if text:
        raise ConfigError(f"{config.source}: {text}")
    return ob, values


def _owner(key: str) -> str:
    """The setting with the armature whose bone `key` names: `pole_target` for `pole_subtarget`."""
    return key.removesuffix("subtarget") + "target"


def _check_bone(where: str, key: str, bone: str, ob: bpy.types.Object | None) -> None:
    if ob is None:
        raise ConfigError(f"{where}: key '{key}': needs an armature in '{_owner(key)}'")
    if ob.type != "ARMATURE":
        raise ConfigError(f"{where}: key '{key}': '{ob.name}' is not an armature and has no bones")
    if bone not in ob.data.bones:
        raise ConfigError(f"{where}: key '{key}': {settings.unknown('bone', bone, ob.data.bones.keys())}")


def _local_first(name: str) -> bpy.types.Object | None:
    """An object by name; objects of linked files may share it."""
    return bpy.data.objects.get((name, None)) or bpy.data.objects.get(name)


def _draft(values: dict[str, Any]) -> SimpleNamespace:
    """A chain that is not there yet."""
    defaults = {key: settings.default(prop) for key, prop in settings.definitions().items()}
    return SimpleNamespace(**{**defaults, **values})


def _place_at_frames(items: list[tuple[ChainConfig, bpy.types.Object, dict[str, Any]]]) -> None:
    """Fill in the target's place of those chains that name a frame for it."""
    scene = bpy.context.scene
    now = scene.frame_current_final
    by_frame: dict[float, list[tuple[bpy.types.Object, dict[str, Any]]]] = {}
    for config, ob, values in items:
        if config.target_frame is not None:
            by_frame.setdefault(config.target_frame, []).append((ob, values))
    for frame, placed in by_frame.items():
        _set_frame(scene, frame)
        for ob, values in placed:
            draft = _draft(values)
            placing.place(ob, draft, keep=set(values))
            values.update({key: getattr(draft, key) for key in PLACES})
    if by_frame:
        _set_frame(scene, now)


def _set_frame(scene: bpy.types.Scene, frame: float) -> None:
    scene.frame_set(math.floor(frame), subframe=frame - math.floor(frame))


def _put(ob: bpy.types.Object, values: dict[str, Any]) -> bpy.types.PropertyGroup:
    chain = ob.ik_chains.get(values["name"])
    if chain is None:
        others = {key: value for key, value in values.items() if key not in ("root_bone", "end_bone")}
        return chains.add(ob, values["root_bone"], values["end_bone"], **others)
    for key in settings.definitions():
        if key in values:
            setattr(chain, key, values[key])
        else:
            chain.property_unset(key)
    placing.place(ob, chain, keep=set(values))
    memory.release_unused(ob)
    STATE.forget_plans()
    return chain


def dump(rigs: Iterable[bpy.types.Object]) -> dict[str, Any]:
    """The chains of armature objects as a configuration; settings at their default are left out."""
    return {
        "version": VERSION,
        "armatures": {ob.name: [_settings(chain) for chain in ob.ik_chains] for ob in rigs},
    }


def _settings(chain: bpy.types.PropertyGroup) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, prop in settings.definitions().items():
        value = settings.plain(chain, prop)
        written = key == "name" or (key in PLACES and (key != "pole_location" or uses_pole(chain)))
        if written or value != settings.default(prop):
            values[key] = value
    return values

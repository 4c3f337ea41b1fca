# SPDX-License-Identifier: GPL-3.0-or-later
"""The add-on inside the bpy module."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SHARED_DATA = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(scope="session", autouse=True)
def addon() -> Iterator[ModuleType]:
    """The add-on, registered once. Unregistered at the end: the wheels of 4.2 and 4.5 crash or hang when
    the process ends with a Python function among their handlers."""
    import bpy

    import ik_addon

    ik_addon.register()
    yield ik_addon
    ik_addon.unregister()
    if bpy.app.version < (4, 3):
        let_go_of_bpy()


def let_go_of_bpy() -> None:
    """The wheel of 4.2 crashes at exit when the module bpy is never freed. It keeps the callbacks of
    properties for ever, these keep the add-on's modules, and those keep bpy."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "ik_addon":
            vars(module).pop("bpy", None)


@pytest.fixture
def fresh(addon: ModuleType) -> Any:
    """The scene of a new, empty file with factory settings."""
    import bpy

    bpy.ops.wm.read_factory_settings(use_empty=True)
    return bpy.context.scene


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of test characters and motions that lies beside the checkout, not in it."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the test characters are not there: no folder ../shared/data beside the checkout")
    return SHARED_DATA

# SPDX-License-Identifier: GPL-3.0-or-later
"""The add-on inside the bpy module."""

import atexit
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SHARED_DATA = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(scope="session", autouse=True)
def addon() -> Iterator[ModuleType]:
    """The add-on, registered once."""
    import ik_addon

    ik_addon.register()
    yield ik_addon
    ik_addon.unregister()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """The wheels before 5.0 crash or hang while Python takes itself down, if anything that Blender still
    keeps (a handler, the callback of a property) leads to the module bpy. All work is done by then."""
    import bpy

    if bpy.app.version < (5, 0):
        atexit.register(end_process, session)


def end_process(session: pytest.Session) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(session.exitstatus)


@pytest.fixture(autouse=True)
def forgetting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each frame is solved anew, however often a test goes to it, but where a test is about remembering."""
    from ik_addon.blender.state import STATE

    if request.node.get_closest_marker("remembering") is None:
        monkeypatch.setattr(STATE.recall, "most_bytes", 0)


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


@pytest.fixture
def walker(fresh: Any) -> Any:
    """A walker with a planted foot on each of its four legs."""
    from bake_rig import make_walker, plant

    ob = make_walker()
    plant(ob)
    return ob


@pytest.fixture
def stander(fresh: Any) -> Any:
    """The same with one leg, and nothing keyed below the hips."""
    from bake_rig import make_walker, plant

    ob = make_walker(limbs=("b",))
    plant(ob, ("b",))
    return ob

# SPDX-License-Identifier: GPL-3.0-or-later
"""Install the extension's zip into a fresh Blender, pose a limb, disable and enable it again.

    BLENDER_USER_RESOURCES=FRESH_FOLDER python installed_smoke.py ZIP

A process of its own, so that nothing but the zip can provide the add-on. Runs under the bpy module and,
after `blender -b -P`, in Blender.
"""

import os
import sys
import traceback

import bpy  # isort: skip
import addon_utils
from mathutils import Vector

MODULE = "bl_ext.user_default.ik_chains"
TARGET = Vector((0.3, -0.2, 0.5))


def our_handlers() -> list[str]:
    lists = [
        value for name in dir(bpy.app.handlers) if isinstance(value := getattr(bpy.app.handlers, name), list)
    ]
    return [
        function.__name__
        for handlers in lists
        for function in handlers
        if function.__module__.startswith(MODULE)
    ]


def solve_a_limb() -> None:
    """A two-bone limb reaches a target in the world on the frame that is set."""
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True)
    armature = bpy.data.armatures.new("Rig")
    rig = bpy.data.objects.new("Rig", armature)
    bpy.context.collection.objects.link(rig)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    upper, lower = (armature.edit_bones.new(name) for name in ("upper", "lower"))
    upper.head, upper.tail = (0, 0, 0), (0, 0.05, 0.45)
    lower.head, lower.tail = upper.tail, (0, 0, 0.9)
    lower.parent, lower.use_connect = upper, True
    bpy.ops.object.mode_set(mode="OBJECT")

    chain = rig.ik_chains.add()
    chain.name, chain.solver = "limb", "TWO_BONE"
    chain.root_bone, chain.end_bone = "upper", "lower"
    chain.target_space, chain.target_location = "WORLD", TARGET
    bpy.context.scene.frame_set(2)
    tip = rig.evaluated_get(bpy.context.evaluated_depsgraph_get()).pose.bones["lower"].tail
    miss = (rig.matrix_world @ tip - TARGET).length
    assert miss < 1e-5, f"the tip misses its target by {miss} m"
    assert chain.status == "OK", chain.status


def assert_gone() -> None:
    assert not hasattr(bpy.types.Object, "ik_chains"), "the property outlives the add-on"
    assert our_handlers() == [], "handlers outlive the add-on"


def main(zip_path: str) -> None:
    addon_utils.enable("bl_pkg")
    bpy.ops.extensions.package_install_files(filepath=zip_path, repo="user_default", enable_on_install=True)
    assert addon_utils.check(MODULE)[1], "installed, but not enabled"
    assert "ik_addon" not in sys.modules, "the add-on must live inside the extension's own package"
    handlers = our_handlers()
    assert handlers, "no handler"
    solve_a_limb()

    addon_utils.disable(MODULE, default_set=True)
    assert_gone()
    addon_utils.enable(MODULE, default_set=True)
    assert our_handlers() == handlers, "handlers differ after disabling and enabling"
    solve_a_limb()

    addon_utils.disable(MODULE, default_set=True)
    assert_gone()
    print("installed, solved, disabled, enabled, solved, disabled", flush=True)


if __name__ == "__main__":
    status = 0
    try:
        main(sys.argv[-1])
    except Exception:  # noqa: BLE001 - whatever it was is told, and is the exit status
        traceback.print_exc()
        status = 1
    if bpy.app.version < (5, 0):  # these wheels crash or hang while Python takes itself down
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)

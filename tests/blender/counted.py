# SPDX-License-Identifier: GPL-3.0-or-later
"""How much Python work a call is: the same on every machine, unlike its time."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(work: Callable[[], Any]) -> int:
    """The instructions that Python runs in `work`; what NumPy and Blender do in one call is one step."""
    count = 0

    def look(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        work()
    finally:
        sys.settrace(before)
    return count

"""Work counted in place of time: a test of how cost grows may not depend on what else the machine does."""

from __future__ import annotations

import sys
from collections.abc import Callable


def steps(function: Callable, *arguments) -> int:
    """How many lines and calls of Python the function takes; what compiled code does inside of a call counts as one."""
    counted = 0

    def traced(frame, event, argument):
        nonlocal counted
        counted += 1
        return traced

    def profiled(frame, event, argument):
        nonlocal counted
        counted += event == "c_call"

    before, profiler = sys.gettrace(), sys.getprofile()
    sys.settrace(traced)
    sys.setprofile(profiled)
    try:
        function(*arguments)
    finally:
        sys.settrace(before)
        sys.setprofile(profiler)
    return counted

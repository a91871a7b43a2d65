"""What a function costs, counted and not timed: the instructions that it runs, and the memory that it takes."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any


def count_instructions(function: Callable[[], object]) -> int:
    """How many instructions of Python the function runs. What C does within one of them does not count."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return count


def count_peak(function: Callable[[], object]) -> int:
    """How many bytes the function holds at most, beyond what is there before."""
    gc.collect()
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

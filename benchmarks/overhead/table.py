"""All groups, in the order of the printed table."""

from __future__ import annotations

from benchmarks.overhead.concurrent_calls import AT_ONCE, MEMORY
from benchmarks.overhead.failing import AMONG_MANY, FAILING
from benchmarks.overhead.importing import IMPORTING, LOADING, STARTING
from benchmarks.overhead.inline_parts import INLINE
from benchmarks.overhead.kinds_of_tools import KINDS
from benchmarks.overhead.nobody_recording import ABLATION, IDLE, SPINE
from benchmarks.overhead.rows import Group
from benchmarks.overhead.somebody_recording import EXPORTED, TRACED

GROUPS: tuple[Group, ...] = (
    SPINE,
    IDLE,
    KINDS,
    TRACED,
    EXPORTED,
    FAILING,
    AMONG_MANY,
    AT_ONCE,
    IMPORTING,
    LOADING,
    STARTING,
    MEMORY,
)
ABLATIONS = (ABLATION, INLINE)
BY_NAME = {group.name: group for group in (*GROUPS, *ABLATIONS)}

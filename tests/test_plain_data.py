"""Plain data: what two values share that are equal for a stage, and how many bytes a kept value is taken for."""

from __future__ import annotations

import gc
import tracemalloc
from collections import deque
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcall_pipeline.stage_state.plain_data import TOO_LARGE, estimate_bytes


@attrs.define
class Held:
    """A user's own object."""

    value: Any = None


class Sizeless(str):
    """A value that does not tell its size."""

    __slots__ = ()

    def __sizeof__(self) -> int:
        raise ValueError("no size")


MEGABYTE = 2**20
LARGE: dict[str, Any] = {
    "text": lambda: "a" * MEGABYTE,
    "bytes": lambda: b"a" * MEGABYTE,
    "a bytearray": lambda: bytearray(MEGABYTE),
    "a list": lambda: ["a" * 2**10 + str(number) for number in range(2**10)],
    "names of a dict": lambda: {str(number) * 2**8: number for number in range(2**10)},
    "a tuple in a set": lambda: {("b" * MEGABYTE,)},
    "a deque": lambda: deque(["c" * MEGABYTE]),
    "deep inside": lambda: [{"a": [{"b": ("d" * MEGABYTE,)}]}],
    "an object": lambda: Held("e" * MEGABYTE),
    "objects in objects": lambda: Held([Held({"a": Held("f" * MEGABYTE)})]),
}


@pytest.mark.parametrize("make", LARGE.values(), ids=LARGE)
def test_it_is_about_what_python_takes(make: Any) -> None:
    """Within a fifth of what the allocator gave out, wherever in the value it is."""
    gc.collect()
    tracemalloc.start()
    try:
        value = make()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken * 0.8 < estimate_bytes(value) < taken * 1.2


def test_what_is_held_twice_counts_once() -> None:
    """Also where a value holds itself."""
    part: list[Any] = ["a" * MEGABYTE]
    assert estimate_bytes([part] * 100) < 1.1 * MEGABYTE
    part.append(part)
    assert estimate_bytes(part) < 1.1 * MEGABYTE


def test_what_belongs_to_the_program_is_not_counted() -> None:
    """A class or a function leads to all modules, and no copy of the value holds them."""
    assert estimate_bytes([Held, estimate_bytes, gc, Held(Held)]) < 1000


def test_a_value_of_very_many_parts_is_too_large() -> None:
    """The walk ends at 100,000 parts; such a value would also take long to copy."""
    assert estimate_bytes([0] * 99_000) < TOO_LARGE
    assert estimate_bytes([0] * 100_001) == TOO_LARGE
    assert estimate_bytes([[0] * 60_000, [0] * 60_000]) == TOO_LARGE
    assert estimate_bytes(dict.fromkeys(range(60_000))) == TOO_LARGE


def test_a_value_that_tells_no_size_counts_a_little() -> None:
    """The `__sizeof__` of a foreign value may raise anything."""
    assert 0 < estimate_bytes(Sizeless("a")) < 100


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
)


@given(JSON, JSON)
def test_a_whole_is_more_than_its_part(value: object, other: object) -> None:
    """What is added makes it no smaller, so the sum of what is kept never loses a value."""
    whole = [value, other]
    assert estimate_bytes(whole) > max(estimate_bytes(value), estimate_bytes(other))
    assert estimate_bytes(whole) <= estimate_bytes([]) + 16 + 8 + estimate_bytes(value) + estimate_bytes(other)

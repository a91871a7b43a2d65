"""Large results: Shape keeps them, and read_result reads on, for the same principal and conversation alone."""

from __future__ import annotations

import json
import re
import tracemalloc
from typing import Annotated, Any

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolcall_pipeline import Failure, Secret, SetupError, ToolRegistry, builtin, render
from toolcall_pipeline.engine.compose import Pipeline
from toolcall_pipeline.middlewares import Shape, standard
from toolcall_pipeline.stage_state import kept_results
from toolcall_pipeline.stage_state.kept_results import KeptResults
from toolcall_pipeline.stores import Change, Memory, StoreError
from toolcall_pipeline.testing import FakeClock

HANDLE = re.compile(r"res_[0-9a-f]{24}")
NOTHING = "Error: No result is kept under this handle. It has expired, or belongs to another conversation."
WHO = ("ann", "c1")


class Away(Memory):
    """A store that fails at a write, of so many."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.left = after

    async def write(self, *changes: Change) -> int | None:
        """Write, or fail."""
        self.left -= 1
        if self.left < 0:
            raise StoreError("away")
        return await super().write(*changes)


def _pipeline(value: Any, shape: Shape, **options: Any) -> Pipeline:
    """A pipeline of a tool that returns a value, and of the tools that are shipped."""
    tools = ToolRegistry()

    @tools.tool(effect="mutating" if options else "read")
    async def give(token: Annotated[str, Secret] = "") -> Any:
        return value

    pipeline = standard(tools, **options).before("ledger" if options else "retry", shape)
    assert "read_result" in builtin.install(tools, pipeline)
    return pipeline


async def _tell(pipeline: Pipeline, name: str, who: tuple[str, str] = WHO, **arguments: Any) -> str:
    run = pipeline.with_(principal=who[0], conversation=who[1])
    return str(render(await run.call(name, arguments, id="1" if name == "give" else "")))


def _find(text: str) -> str:
    found = HANDLE.search(text)
    assert found is not None, text
    return found[0]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("abc" * 1000, "abc" * 1000),
        ("\ud800é" * 1000, "?é" * 1000),
        (list(range(1000)), json.dumps(list(range(1000)))),
        ({"a/b": ["x" * 500] * 3}, json.dumps({"a/b": ["x" * 500] * 3})),
    ],
    ids=["text", "surrogates", "list", "object"],
)
async def test_the_whole_result_can_be_read(value: object, text: str) -> None:
    """What is read piece by piece is the text that the model would have read, character by character."""
    pipeline = _pipeline(value, Shape(400, keep=Memory()))
    handle = _find(await _tell(pipeline, "give"))
    read, total = "", len(text)
    while len(read) < total:
        head, _, part = (await _tell(pipeline, "read_result", handle=handle, start=len(read))).partition("\n")
        assert head == f"Characters {len(read):,} to {len(read) + len(part):,} of {total:,}:"
        read += part
    assert read == text


@pytest.mark.anyio
async def test_a_path_reads_a_value() -> None:
    """A JSON Pointer leads to a value, also through keys with slashes; one that leads nowhere says where it ends."""
    value = {"a/b": {"~": ["first", {"deep": None}]}, "": 1, "more": "x" * 1000}
    pipeline = _pipeline(value, Shape(400, keep=Memory()))
    handle = _find(await _tell(pipeline, "give"))

    async def read(path: str) -> str:
        return await _tell(pipeline, "read_result", handle=handle, path=path)

    assert await read("/a~1b/~0/0") == "Characters 0 to 5 of 5:\nfirst"
    assert await read("/") == "Characters 0 to 1 of 1:\n1"
    assert await read("/a~1b/~0/1") == 'Characters 0 to 14 of 14:\n{"deep": null}'
    assert "There is nothing at /a~1b/~0/2. There is an array of 2." in await read("/a~1b/~0/2")
    assert "There is nothing at /a. There, the keys are: a/b, , more." in await read("/a/b")
    assert "A path begins with /" in await read("a")
    text = _pipeline("x" * 1000, Shape(400, keep=Memory()))
    no_json = await _tell(text, "read_result", handle=_find(await _tell(text, "give")), path="/a")
    assert "is not JSON" in no_json


@pytest.mark.anyio
async def test_a_handle_is_of_one_principal_and_conversation() -> None:
    """For anybody else, and for a made-up handle, nothing is kept; the text is the same."""
    pipeline = _pipeline("x" * 1000, Shape(400, keep=Memory()))
    handle = _find(await _tell(pipeline, "give"))
    for who in (("bob", "c1"), ("ann", "c2"), ("", ""), ("ann\x00c1", ""), ("c1", "ann")):
        assert await _tell(pipeline, "read_result", who, handle=handle) == NOTHING
    for made_up in ("res_0", f"{handle}/0", "", "../x", "x" * 10_000):
        assert (await _tell(pipeline, "read_result", handle=made_up)).startswith(NOTHING)
    assert (await _tell(pipeline, "read_result", handle=handle)).startswith("Characters")


@pytest.mark.anyio
async def test_a_result_expires_also_where_a_ledger_repeats_its_handle() -> None:
    """After its time nothing is kept; a replay of an answer that names the handle says so when it is read."""
    with FakeClock() as clock:
        store = Memory()
        pipeline = _pipeline("x" * 1000, Shape(400, keep=store, keep_seconds=60), store=store)
        pipeline = pipeline.without("shape").after("ledger", next(e.obj for e in pipeline.entries if e.name == "shape"))
        first = await _tell(pipeline, "give")
        assert (await _tell(pipeline, "read_result", handle=_find(first))).startswith("Characters")
        clock.advance(61)
        assert await _tell(pipeline, "give") == first
        assert await _tell(pipeline, "read_result", handle=_find(first)) == NOTHING


@pytest.mark.anyio
async def test_declared_secrets_are_neither_kept_nor_shown() -> None:
    """A result that repeats a declared secret has it masked in its head, in each part, and for a search."""
    store = Memory()
    pipeline = _pipeline({"key": "hunter2-hunter2", "log": "hunter2-hunter2 " * 100}, Shape(400, keep=store))
    head = await _tell(pipeline, "give", token="hunter2-hunter2")
    handle = _find(head)
    rest = [await _tell(pipeline, "read_result", handle=handle, start=start) for start in range(0, 1000, 300)]
    found = await _tell(pipeline, "read_result", handle=handle, search="hunter2")
    assert "hunter2" not in "".join([head, *rest])
    assert "The text is not there" in found
    assert not any(b"hunter2" in entry.value for _, entry in [each async for each in store.scan()])


@pytest.mark.anyio
@pytest.mark.parametrize("after", range(3))
async def test_a_store_that_is_away_costs_the_handle_alone(after: int) -> None:
    """A result that cannot be kept, or not all of it, is told as without `keep`."""
    value = "x" * 3_000_000
    told = await _tell(_pipeline(value, Shape(400, keep=Away(after))), "give")
    assert HANDLE.search(told) is None
    assert "left out" in told
    assert len(told) <= 400


@pytest.mark.anyio
async def test_the_oldest_results_make_room() -> None:
    """No conversation has more than its bytes; a larger result is not kept, and removes none."""
    store = Memory()
    kept = KeptResults(store, 60, 2000)
    for name in ("a", "b", "c"):
        assert await kept.keep(WHO, name, name * 900)
    assert await kept.keep(("ann", "c2"), "d", "d" * 1900)
    assert not await kept.keep(WHO, "e", "é" * 1001)
    assert [await kept.count(WHO, name) for name in "abcde"] == [None, 900, 900, None, None]
    assert sum(len(entry.value) for key, entry in [each async for each in store.scan()] if key.endswith("/0")) == 3700


@pytest.mark.anyio
async def test_a_conversation_has_a_hundred_results() -> None:
    """However small they are, the oldest one makes room for one more, and its pieces are gone from the store."""
    store = Memory()
    kept = KeptResults(store, 60, 1_000_000)
    for n in range(103):
        assert await kept.keep(WHO, f"h{n}", "x")
    found = [n for n in range(103) if await kept.count(WHO, f"h{n}") is not None]
    assert found == list(range(3, 103))
    assert len([key async for key, _ in store.scan()]) == 201


@pytest.mark.anyio
async def test_many_at_once_are_kept_and_read() -> None:
    """Results that are kept and read at the same time get a handle each, and each reads its own."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def give(n: int) -> str:
        return f"{n}," * 1000

    pipeline = standard(tools).before("retry", Shape(400, keep=Memory()))
    builtin.install(tools, pipeline)
    read: dict[int, str] = {}

    async def run(n: int) -> None:
        handle = _find(await _tell(pipeline, "give", n=n))
        read[n] = await _tell(pipeline, "read_result", handle=handle, start=0, length=5)

    async with anyio.create_task_group() as group:
        for n in range(10, 30):
            group.start_soon(run, n)
    assert {n: text.splitlines()[1] for n, text in read.items()} == {n: f"{n},{n}"[:5] for n in range(10, 30)}


@pytest.mark.anyio
async def test_a_batch_keeps_the_result_of_each_call() -> None:
    """A call of a batch is cut and kept by itself, and its handle holds for the conversation of the batch."""
    pipeline = _pipeline("x" * 1000, Shape(2000, tools={"give": 400}, keep=Memory()))
    told = await _tell(pipeline, "batch", calls=[{"tool": "give", "args": {}}])
    assert (await _tell(pipeline, "read_result", handle=_find(told))).startswith("Characters 0 to 1,000 of 1,000:")


@example("ab" * 12, "ba", 3, 5)
@example("a" * 21, "aa", 1, 4)
@example("b" * 17 + "a", "a", 0, 3)
@given(st.text("ab", max_size=60), st.text("ab", min_size=1, max_size=4), st.integers(0, 60), st.integers(1, 9))
def test_a_search_finds_what_str_finds(text: str, words: str, start: int, piece: int) -> None:
    """The places of a search over pieces of any size are those of `str.find`, in order, each with what is near."""
    expected: list[int] = []
    at = text.find(words, start)
    while at >= 0:
        expected.append(at)
        at = text.find(words, at + len(words))

    async def search() -> list[int]:
        kept = KeptResults(Memory(), 60, 1000)
        found: list[int] = []
        more: int | None = start
        await kept.keep(WHO, "h", text)
        while more is not None:
            answer = await kept.search(WHO, "h", words, more, most=3, around=2)
            assert answer is not None
            places, more = answer
            for at, around in places:
                assert words in around
                assert around in text[max(0, at - 2) : at + len(words) + 2]
            found += [place.at for place in places]
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_results, "_PIECE", piece)
        assert anyio.run(search) == expected


@pytest.mark.anyio
async def test_a_hundred_megabytes_take_no_multiple_of_their_memory() -> None:
    """Keeping holds the text once, as the store has it, and a read or a search holds two pieces."""
    text = "0123456789" * 10_000_000
    pipeline = _pipeline(text, Shape(400, keep=Memory()))
    tracemalloc.start()
    try:
        handle = _find(await _tell(pipeline, "give"))
        _, peak = tracemalloc.get_traced_memory()
        assert peak < 1.2 * len(text)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        assert "Characters 99,999,995 to 100,000,000" in await _tell(
            pipeline, "read_result", handle=handle, start=99_999_995
        )
        assert "not there" in await _tell(pipeline, "read_result", handle=handle, search="0123456789" * 9 + "1")
        _, peak = tracemalloc.get_traced_memory()
        assert peak - held < 5_000_000
    finally:
        tracemalloc.stop()


def test_a_stage_that_keeps_nothing_has_nothing_to_read() -> None:
    """`ReadResult` of a Shape without `keep` is a SetupError, and `install` leaves the tool out."""
    with pytest.raises(SetupError, match="keep"):
        builtin.ReadResult(Shape(400))
    tools = ToolRegistry()
    assert "read_result" not in builtin.install(tools, standard(tools).before("retry", Shape(400)))


@pytest.mark.anyio
async def test_both_ways_at_once_are_refused() -> None:
    """A path and a search, a part that is too long, and a place behind the end are mistakes in the arguments."""
    pipeline = _pipeline("x" * 1000, Shape(400, keep=Memory()))
    handle = _find(await _tell(pipeline, "give"))
    run = pipeline.with_(principal="ann", conversation="c1")
    for wrong in ({"path": "/a", "search": "b"}, {"start": 1000}, {"start": -1}, {"length": 10_000}):
        outcome = await run.call("read_result", {"handle": handle, **wrong})
        assert isinstance(outcome, Failure)
        assert outcome.failure().kind == "validation", wrong

"""Lines over pipes: the same lines however the bytes are cut, in bounded memory, and whole in spite of cancellation."""

from __future__ import annotations

import json
import os

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import PATIENT
from toolcall_pipeline.mcp.child import Child
from toolcall_pipeline.mcp.jsonrpc import find_id, find_unread_id
from toolcall_pipeline.mcp.lines import BrokenLineError, LineReader, LineWriter, LongLine, tell_long
from toolcall_pipeline.mcp.server import ServerGoneError

LIMIT = 20
IDS = st.one_of(st.integers(-(10**20), 10**20), st.text(max_size=20))


@given(
    st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"")), max_size=8),
    st.lists(st.integers(1, 30), max_size=20),
    st.booleans(),
)
def test_lines_do_not_depend_on_how_they_are_cut(lines: list[bytes], cuts: list[int], ended: bool) -> None:
    """Each line within the limit comes as it was, and each longer one with its ends and its size."""
    data = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    whole = [line + b"\n" for line in data.split(b"\n")]
    whole[-1] = whole[-1][:-1]  # the last one has no line end
    expected = [line for line in whole if line]

    async def read() -> list[bytes | LongLine]:
        read_end, write_end = os.pipe()
        reader, found = LineReader(read_end, LIMIT), list[bytes | LongLine]()

        async def write() -> None:
            rest = data
            for cut in (*cuts, len(data)):
                os.write(write_end, rest[:cut])
                rest = rest[cut:]
                await anyio.lowlevel.checkpoint()
                await anyio.lowlevel.checkpoint()
            os.close(write_end)

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(write)
                while (line := await reader.read()) is not None:
                    found.append(line)
        finally:
            os.close(read_end)
        return found

    found = anyio.run(read)
    assert len(expected) == len(found)
    for line, got in zip(expected, found, strict=True):
        if len(line.rstrip(b"\n")) <= LIMIT:
            assert line == got
        else:
            assert isinstance(got, LongLine)
            assert (len(line), line, line) == (got.size, got.head, got.tail)  # the ends that are kept are longer


async def test_a_line_whose_writer_is_cancelled_is_finished_first() -> None:
    """A reader never sees half a line and then another one."""
    read_end, write_end = os.pipe()
    writer, reader = LineWriter(write_end), LineReader(read_end, 10_000_000)
    first, second = b"a" * 1_000_000 + b"\n", b"b\n"
    async with anyio.create_task_group() as group:
        group.start_soon(writer.write, first)
        await anyio.wait_all_tasks_blocked()  # the pipe is full
        group.cancel_scope.cancel()
    async with anyio.create_task_group() as group:
        group.start_soon(writer.write, second)
        assert [first, second] == [await reader.read(), await reader.read()]
    os.close(read_end)
    with pytest.raises(BrokenLineError) as caught:
        await writer.write(b"c\n")
    assert not caught.value.begun
    os.close(write_end)


@given(IDS, st.sampled_from(["request", "answer"]), st.permutations(["jsonrpc", "method", "id"]), st.booleans())
def test_an_id_at_either_end_is_found_and_no_other(request_id: object, kind: str, order: list[str], last: bool) -> None:
    """The id of a long message is found where SDKs put it, and an ``id`` in its params is never taken for it."""
    members = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call"}
    short = {name: members[name] for name in order if kind == "request" or name != "method"}
    large = {"params" if kind == "request" else "result": {"id": 666, "x": "y" * 9_000, "z": {"id": 667}}}
    line = json.dumps({**large, **short} if last else {**short, **large}).encode() + b"\n"
    found, is_answer = find_id(line[:4_096], line[-4_096:])
    assert found in (request_id, None)
    assert is_answer is (kind == "answer")


@given(IDS, st.sampled_from(["params", "result"]), st.text(max_size=4), st.booleans(), st.integers(0, 120))
def test_a_broken_line_is_never_taken_for_that_of_another_id(
    request_id: object, kind: str, text: str, last: bool, cut: int
) -> None:
    """Wherever a line is cut off, and whatever ids it holds besides, what is found is its own id or nothing."""
    inside = {"id": 666, "t": text, "list": [{"id": 667}, {"jsonrpc": "2.0", "id": 668}]}
    short = {"jsonrpc": "2.0", "id": request_id, **({"method": "m"} if kind == "params" else {})}
    line = json.dumps({kind: inside, **short} if last else {**short, kind: inside}).encode()
    found, is_answer = find_unread_id(line[: len(line) - cut])
    assert found in (request_id, None)
    assert found is None or is_answer is (kind == "result")


@pytest.mark.parametrize("odd", [b'\\"', b"\\\\", b'"', b"[", b" ", b'"a":'])
def test_a_broken_line_takes_no_time(odd: bytes) -> None:
    """One of 2 MB: what takes n² steps would take minutes."""
    line = b'{"method":"m","params":"' + odd * (2_000_000 // len(odd))
    assert find_unread_id(line + b',"id":1}') in ((None, False), (1, False))


def test_what_is_said_of_a_long_line(caplog: pytest.LogCaptureFixture) -> None:
    """Its sender gets the two sizes, and the log says besides that it was thrown away."""
    text = "the message of 12,345 bytes is longer than 10,000"
    assert tell_long(LongLine(b"", b"", 12_345), 10_000) == text
    assert [record.getMessage() for record in caplog.records] == [f"{text}, and was thrown away"]


@pytest.mark.parametrize(("end", "code"), [("exit 3", 3), ("kill -9 $$", 137), ("read more", 0)])
async def test_a_server_is_a_child_with_lines(end: str, code: int) -> None:
    """It reads and writes lines, and ends with its input at the latest, with the exit code of a shell."""
    child = Child.start(
        ["sh", "-c", f'read line; echo "$line, too long for the limit"; echo "$line"; {end}; exit 0'], 9
    )
    codes = [child.exit_code]
    await child.send(b"it\n")
    with anyio.fail_after(PATIENT):
        long, line = await child.read(), await child.read()
        assert (type(long), line) == (LongLine, b"it\n")
        if code:
            assert await child.read() is None
            await child.watch()
        await child.close(PATIENT)
    assert [*codes, child.exit_code] == [None, code]
    with pytest.raises(ServerGoneError) as gone:
        await child.send(b"more\n")
    assert gone.value.landed == "no"

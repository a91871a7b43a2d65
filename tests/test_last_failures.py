"""In a conversation a failure says what changed since the last one of its tool, until that tool succeeds."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcall_pipeline import Call, Failure, Pipeline, Secret, ToolFailed, ToolRegistry, Wording, gather, render
from toolcall_pipeline.adapters import anthropic, openai
from toolcall_pipeline.engine.compose import last_failures
from toolcall_pipeline.engine.errors import InvalidParams, Problem
from toolcall_pipeline.hosts import export_tools
from toolcall_pipeline.middlewares import standard

SAME, FIXED, STILL, NOW = "same arguments as before", "fixed", "still wrong", "now wrong"


def make_tools() -> ToolRegistry:
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def send(to: str, date: int) -> str:
        return "sent"

    @tools.tool(effect="read")
    async def find(query: str) -> str:
        if query == "gone":
            raise FileNotFoundError
        raise ToolFailed(f"no result for {len(query)}")

    @tools.tool(effect="read")
    async def log_in(password: Annotated[str, Secret()], user: int) -> None: ...

    return tools


@pytest.fixture
def pipeline() -> Pipeline:
    return standard(make_tools())


def talk(pipeline: Pipeline, conversation: str = "c", principal: str = "") -> Callable[..., Awaitable[str]]:
    async def say(name: str, arguments: Any = None, **fields: Any) -> str:
        call = Call(name, arguments, conversation=conversation, principal=principal, **fields)
        return str(render(await pipeline(call)))

    return say


async def test_a_text_says_what_is_mended_and_what_is_still_wrong(pipeline: Pipeline) -> None:
    """Until the tool succeeds; the third equal failure says that it is the same call."""
    say = talk(pipeline)
    assert await say("send", {}) == str(render(await pipeline.call("send", {})))
    assert (await say("send", {"to": "a"})).endswith("`to` is fixed, `date` is still wrong.")
    assert (await say("send", {"to": [1], "date": 1})).endswith("`date` is fixed, `to` is now wrong.")
    assert SAME in await say("send", {"to": [1], "date": 1})
    assert "This is the same call again: it was refused 3 times." in await say("send", {"to": [1], "date": 1})
    assert await say("send", {"to": "a", "date": 1}) == "sent"
    assert await say("send", {"to": "b"}) == str(render(await pipeline.call("send", {"to": "b"})))


@pytest.mark.parametrize(
    ("name", "sent", "said"),
    [
        ("snd", {}, "This is the same name as before."),
        ("send", "{bad", "It is the same mistake in the same place as before."),
        ("find", {"query": "gone"}, "This is the same error as before."),
        ("find", {"query": "abc"}, "This is the same error as before."),
    ],
)
async def test_each_kind_that_a_model_can_mend_says_it(pipeline: Pipeline, name: str, sent: Any, said: str) -> None:
    """In a message of an adapter as well, and with a report."""
    call = Call(name, sent, "1", conversation="c")
    first = str(openai.message(call, await pipeline(call)))
    report = await pipeline.report(call)
    assert said not in first
    assert report.outcome is not None
    assert said in render(report.outcome)
    if name == "find":
        assert said in str(anthropic.messages([(call, await pipeline(call))]))


async def test_two_tools_that_fail_in_turn(pipeline: Pipeline) -> None:
    """Each is compared with its own last failure."""
    say = talk(pipeline)
    for name, fixed in (("send", "`to`"), ("log_in", "`user`")) * 2:
        await say(name, {})
        await say("log_in" if name == "send" else "send", {})
        assert f"{fixed} is fixed" in await say(name, {"to": "a"} if name == "send" else {"user": 1})
        assert await say("send", {"to": "a", "date": 1}) == "sent"


@pytest.mark.parametrize("recorded", [False, True])
async def test_what_says_nothing_of_the_arguments_stands_between(recorded: bool) -> None:
    """A tool that is paused meanwhile is compared with its failure before that, recorded or not."""
    tools = make_tools()
    pipeline = standard(tools)

    async def say(arguments: Any) -> str:
        call = Call("send", arguments, conversation="c")
        outcome = (await pipeline.report(call)).outcome if recorded else await pipeline(call)
        assert outcome is not None
        return str(render(outcome))

    await say({})
    tools.pause("send")
    assert FIXED not in await say({"to": "a"})
    tools.resume("send")
    assert STILL in await say({"to": "a"})


@pytest.mark.parametrize("other", [{"principal": "q"}, {"conversation": "d"}, {"conversation": ""}])
async def test_others_are_no_part_of_it(pipeline: Pipeline, other: dict[str, str]) -> None:
    """Neither their failures nor their successes."""
    say, others = talk(pipeline, "c", "p"), talk(pipeline, **{"conversation": "c", "principal": "p", **other})
    await say("send", {})
    assert FIXED not in await others("send", {"to": "a"})
    await others("send", {"to": "a", "date": 1})
    assert "`to` is fixed" in await say("send", {"to": "a"})


async def test_who_cannot_be_a_key_is_answered(pipeline: Pipeline) -> None:
    """A principal that has no hash is compared with nobody, and ends no call in an exception after its body ran."""
    odd: Any = {"id": 1}
    await talk(pipeline)("send", {})  # so that there is something to compare with
    say = talk(pipeline, principal=odd)
    assert [await say("send", {"to": "a"}) for _ in "ab"] == [await talk(pipeline, "d")("send", {"to": "a"})] * 2
    assert await say("send", {"to": "a", "date": 1}) == "sent"
    assert (await pipeline.report(Call("send", {}, conversation="c", principal=odd))).outcome is not None


@pytest.mark.parametrize("reply", ["", "r"])
async def test_calls_that_came_together_are_not_compared(pipeline: Pipeline, reply: str) -> None:
    """They are with those of the reply before; of several, only the same arguments are told, and no success forgets."""
    both = [Call("send", {"to": "a"}, "1", reply=reply), Call("send", {"date": 1}, "2", reply=reply)]
    good = Call("send", {"to": "a", "date": 1}, "3", reply=reply)
    first = [str(render(each)) for each in await gather(pipeline, [*both, good], limit=1, conversation="c")]
    assert not any(word in text for text in first for word in (SAME, FIXED, STILL, NOW))
    again = [Call("send", {"date": 1}, "4", reply=reply and "s"), Call("send", {"date": "x"}, "5", reply=reply and "s")]
    texts = [str(render(each)) for each in await gather(pipeline, again, limit=1, conversation="c")]
    assert [SAME in text for text in texts] == [True, False]
    assert not any(word in text for text in texts for word in (FIXED, STILL, NOW))


async def test_no_secret_is_kept(pipeline: Pipeline) -> None:
    """Neither in the next text, nor in what is remembered."""
    say = talk(pipeline)
    await say("log_in", {"password": "hunter22", "hunter22": 1})
    text = await say("log_in", {"password": "hunter22", "user": "hunter22"})
    assert "hunter22" not in text
    assert "hunter22" not in repr(pipeline._runner.last_failures[0].talks)  # pyright: ignore[reportPrivateUsage]


@given(st.lists(st.tuples(st.sampled_from("pq"), st.sampled_from(("send", "log_in")), st.booleans()), max_size=12))
def test_interleaved_principals_read_what_they_would_alone(calls: list[tuple[str, str, bool]]) -> None:
    """In each order of calls."""

    async def run(wanted: str) -> list[tuple[str, str]]:
        pipeline, texts = standard(make_tools()), list[tuple[str, str]]()
        for number, (principal, name, is_right) in enumerate(calls):
            if principal in wanted:
                sent = {"to": "a", "date": 1, "password": "b", "user": 1} if is_right else {f"x{number % 2}": 1}
                keys = ("to", "date") if name == "send" else ("password", "user")
                sent = {key: value for key, value in sent.items() if key in keys or not is_right}
                texts.append((principal, await talk(pipeline, "c", principal)(name, sent)))
        return texts

    together = anyio.run(run, "pq")
    assert {each: [text for who, text in together if who == each] for each in "pq"} == {
        each: [text for _, text in anyio.run(run, each)] for each in "pq"
    }


@pytest.mark.long
async def test_10_000_conversations_fail_in_turn() -> None:
    """Each reads what changed in it."""
    pipeline = standard(make_tools())
    for sent, said in (({}, ""), ({"to": "a"}, "`to` is fixed, `date` is still wrong.")):
        for number in range(10_000):
            assert said in render(await pipeline.call("send", sent, conversation=str(number)))
    last = pipeline._runner.last_failures[0]  # pyright: ignore[reportPrivateUsage]
    assert len(last.talks) == 10_000
    assert last.size == sum(talk.size for talk in last.talks.values()) < last_failures._BYTES  # pyright: ignore[reportPrivateUsage]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tools, calls and bytes: the oldest conversation is forgotten first."""
    monkeypatch.setattr(last_failures, "_BYTES", 100_000)
    last = last_failures.LastFailures()
    for number in range(6_000):
        problems = tuple(Problem(f"{i} {'x' * 90}", "type", "a number") for i in range(number % 20))
        name, conversation = f"{'n' * 90}{number % 40}", str(number // 150)
        last.tell(Call(name, {"a": number}, conversation=conversation), None, Failure(InvalidParams(problems)))
        assert last.size == sum(talk.size for talk in last.talks.values()) <= 100_000
    assert "39" in [conversation for _, conversation in last.talks]
    assert max(len(talk.last) for talk in last.talks.values()) == 16
    assert max(len(talk.counts) for talk in last.talks.values()) == 64


def test_what_is_remembered_is_as_large_as_is_estimated() -> None:
    """Or smaller."""

    async def fail(pipeline: Pipeline, most: int) -> None:
        for number in range(most):
            for tool in range(8):
                await pipeline.call(f"unknown{tool}", {"a": number}, conversation=f"c{number}")
                await pipeline.call("send", {f"path {number} {i}": 1 for i in range(tool)}, conversation=f"c{number}")

    async def run() -> tuple[int, int]:
        pipeline = standard(make_tools())
        await fail(pipeline, 1)
        tracemalloc.start()
        await fail(pipeline, 50)
        held = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, last_failures.__file__)])
        tracemalloc.stop()
        size = pipeline._runner.last_failures[0].size  # pyright: ignore[reportPrivateUsage]
        return sum(each.size for each in held.statistics("filename")), size

    held, estimated = anyio.run(run)
    assert 0.3 < held / estimated < 1


async def test_a_success_without_a_failure_keeps_nothing(pipeline: Pipeline) -> None:
    """Nor is anything loaded for it."""
    await talk(pipeline)("send", {"to": "a", "date": 1})
    assert not pipeline._runner.last_failures  # pyright: ignore[reportPrivateUsage]


async def test_each_asker_has_a_wording_of_its_own(pipeline: Pipeline) -> None:
    """`with_` words the same pipeline anew: what it remembers is one, and a value is worded too."""
    terse = pipeline.with_(principal="p", conversation="c", wording=Wording(verbosity="terse"))
    as_json = terse.with_(wording=Wording("structured"))
    plain = pipeline.with_(principal="p", conversation="c")
    first, second = render(await plain.call("send", {})), render(await terse.call("send", {"to": "a"}))
    assert len(second) < len(first)
    assert second.endswith("`to` is fixed, `date` is still wrong.")
    call = Call("send", {"date": "x"})
    assert '"ok": false' in openai.message(call, await as_json(call))["content"]
    assert pipeline.with_(wording=Wording("structured")).unbound is as_json.unbound
    async with pipeline:
        assert (await terse.call("send", {"to": "a", "date": 1})).unwrap() == "sent"


TURNS: list[tuple[dict[str, Any], str]] = [
    ({}, "Error: Missing required parameters"),
    ({"to": "a"}, "`to` is fixed, `date` is still wrong."),
    ({"to": "a"}, SAME),
    ({"to": "a"}, "This is the same call again: it was refused 3 times."),
    ({"to": "a", "date": 1}, "sent"),
    ({"to": "b"}, "Error: Missing required parameter"),
]


async def test_the_turns_of_a_loop_by_hand(pipeline: Pipeline) -> None:
    """As in the guide: an adapter reads the reply, `gather` runs its calls, and a message tells the model."""
    bound, told = pipeline.with_(conversation="thread-1"), ""
    for turn, (sent, said) in enumerate(TURNS):
        asked = {"id": f"c{turn}", "type": "function", "function": {"name": "send", "arguments": json.dumps(sent)}}
        message = {"role": "assistant", "content": None, "tool_calls": [asked]}
        choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
        reply = {"id": f"r{turn}", "object": "chat.completion", "choices": [choice]}
        calls = openai.calls(reply, bound)
        (told,) = [openai.message(*each)["content"] for each in zip(calls, await gather(bound, calls), strict=True)]
        assert said in told
        assert ("\n" in told) == (turn < 4 or turn == 5)
    assert FIXED not in told


async def test_the_turns_of_exported_tools(pipeline: Pipeline) -> None:
    """The callables of a framework without an adapter."""
    bound = pipeline.with_(conversation="thread-1")
    each = {tool.name: tool for tool in export_tools(pipeline.registries[0], bound)}
    for sent, said in TURNS:
        assert said in await each["send"].acall(**sent)

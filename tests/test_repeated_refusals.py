"""A refused call that a model sends again as it was is told to be the same one, and then to stop."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from toolcall_pipeline import Call, Pipeline, ToolRegistry, render
from toolcall_pipeline.adapters import openai
from toolcall_pipeline.middlewares import standard

AGAIN, STOP = "This is the same call again", "tell the user"


@pytest.fixture
def pipeline() -> Pipeline:
    tools = ToolRegistry()

    @tools.tool
    async def run(query: str) -> None: ...

    @tools.tool
    async def fail(how: str) -> None:
        raise {"gone": FileNotFoundError, "denied": PermissionError, "bug": ValueError, "away": ConnectionError}[how]

    @tools.tool
    async def paused(query: str) -> None: ...

    tools.pause("paused")
    return standard(tools)


REFUSED: list[tuple[str, Any]] = [("rnu", {}), ("run", {}), ("run", {"query": [1]}), ("run", "{bad"), ("run", "[]")]


@pytest.mark.parametrize(("name", "sent"), REFUSED)
async def test_each_refusal_says_how_often(pipeline: Pipeline, name: str, sent: Any) -> None:
    """From the third on it is the same call, and from the tenth on the model is to stop; each has its own answer."""
    first = render(await pipeline.call(name, sent, conversation="c"))
    for times in range(2, 13):
        outcome = await pipeline.call(name, sent, conversation="c")
        text = render(outcome)
        assert text.startswith(first)
        assert (AGAIN in text, STOP in text, f" {times} times" in text) == (times >= 3, times >= 10, times >= 3)
        assert outcome == await standard(pipeline.registries[0]).call(name, sent)  # it is no part of the error


@pytest.mark.parametrize("profile", ["default", "llmproc", "rfc015", "structured", "agentopia", "invalid_tool"])
@pytest.mark.parametrize("verbosity", ["terse", "normal", "full"])
async def test_each_profile_says_it(pipeline: Pipeline, profile: str, verbosity: str) -> None:
    """So does a message for a provider, and a call with a report."""
    for name, sent in REFUSED:
        for _ in range(9):
            await pipeline.report(Call(name, sent, conversation=profile + verbosity))
        call = Call(name, sent, "1", conversation=profile + verbosity)
        outcome = await pipeline(call)
        assert STOP in render(outcome, profile=profile, verbosity=verbosity)
        assert STOP in str(openai.message(call, outcome))


@pytest.mark.parametrize(
    ("name", "sent"),
    [("paused", {"query": "a"}), *[("fail", {"how": how}) for how in ("denied", "gone", "bug", "away")]],
)
async def test_what_may_end_by_itself_is_not_counted(pipeline: Pipeline, name: str, sent: Any) -> None:
    """What is paused, denied or failed in its body: another attempt may find another world."""
    texts = [render(await pipeline.call(name, sent, conversation="c")) for _ in range(12)]
    assert not any(AGAIN in text for text in texts)


async def test_only_the_same_call_of_the_same_conversation_counts(pipeline: Pipeline) -> None:
    """Others stand between them; without a conversation nothing is known to be of one agent."""
    for number in range(20):
        texts = [
            render(await pipeline.call("run", {"query": number}, conversation="a")),
            render(await pipeline.call("run", {}, conversation=str(number))),
            render(await pipeline.call("run", {}, conversation="a", principal=str(number))),
            render(await pipeline.call("run", {})),
        ]
        assert not any(AGAIN in text for text in texts)
        assert (AGAIN in render(await pipeline.call("rnu", {}, conversation="a"))) == (number >= 2)


async def test_an_error_that_stages_share_says_nothing_of_others(pipeline: Pipeline) -> None:
    """The text of a call that was cut off is one object for all calls."""
    *_, mine = [await pipeline.call("run", "{", conversation="mine", finish_reason="length") for _ in range(5)]
    other = await pipeline.call("run", "{", conversation="other", finish_reason="length")
    assert (AGAIN in render(mine), AGAIN in render(other)) == (True, False)
    assert AGAIN not in render(pickle.loads(pickle.dumps(mine)))


def _hold_often(text: str) -> dict[str, Any]:
    """A small value in memory whose JSON text has more than 10**20 characters."""
    value: dict[str, Any] = {"a": text}
    for _ in range(10):
        value = {"a": [value] * 100, "b": text}
    return value


LARGE: list[tuple[str, Any, Any]] = [
    ("held often", _hold_often("a"), _hold_often("b")),
    ("many names", {f"n{i}": 1 for i in range(9_000)}, {f"m{i}": 1 for i in range(9_000)}),
    ("long", {"query": "a" * 2_000_000}, {"query": "a" * 1_999_999 + "b"}),
    ("text", '{"query": "' + "a" * 2_000_000 + '"}', '{"query": "b' + "a" * 2_000_000 + '"}'),
    ("deep", {"query": eval("[" * 80 + "1" + "]" * 80)}, {"query": eval("[" * 81 + "1" + "]" * 81)}),
]


@pytest.mark.parametrize(("name", "sent", "other"), LARGE, ids=[row[0] for row in LARGE])
async def test_calls_above_the_limits_are_told_apart(pipeline: Pipeline, name: str, sent: Any, other: Any) -> None:
    """By their first values: the whole text of arguments that hold one part many times would block the loop."""
    texts = [render(await pipeline.call("run", each, conversation=name)) for each in (sent, other, sent, sent, other)]
    assert [AGAIN in text for text in texts] == [False, False, False, True, False]

"""benchmarks.agentdojo.pairs: both attempts on one environment, with hand-written suites."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Annotated, Any, cast

import attrs
import pytest

from benchmarks.agentdojo.comparison import OutcomeKind
from benchmarks.agentdojo.pairs import Pair, lines, regressions, replay_pairs
from benchmarks.agentdojo.suites import Dojo


@attrs.define
class Environment:
    """The part of AgentDojo's that a replay uses."""

    box: list[str]

    def model_copy(self, *, deep: bool) -> Environment:
        return Environment(list(self.box))


class Wants:
    def extract_dep_from_env(self, environment: Environment) -> list[str]:
        return environment.box


def send(box: Annotated[list[str], "box"], to: list[str], copies: int = 1) -> str:
    """Send it."""
    if "nobody" in to or any(each in box for each in to):
        raise ValueError("Not again.")
    box.extend(to)
    return "sent"


class Runtime:
    """Like AgentDojo's runtime, which repairs nothing."""

    def __init__(self, _tools: Any) -> None:
        pass

    def run_function(self, environment: Environment, _name: str, arguments: dict[str, Any]) -> tuple[Any, str | None]:
        to: Any = arguments.get("to")
        if not isinstance(to, Sequence) or isinstance(to, str):
            return "", "ValidationError: 1 validation error for Input schema for `send`"
        try:
            return send(environment.box, [*map(str, cast("Sequence[object]", to))]), None
        except ValueError as exc:
            return "", f"ValueError: {exc}"


def dojo(**boxes: list[str]) -> Dojo:
    tool = SimpleNamespace(name="send", run=send, dependencies={"box": Wants()})
    suites: dict[str, Any] = {name: SimpleNamespace(tools=[tool]) for name in boxes}
    return Dojo(suites, {name: Environment(box) for name, box in boxes.items()}, Runtime)


def pair(failed: Any, repaired: Any, suite: str = "agentdojo") -> dict[str, Any]:
    return {"id": "p", "suite": suite, "tool": "send", "failed_arguments": failed, "repaired_arguments": repaired}


BAD: OutcomeKind = "invalid_params"
GOOD: OutcomeKind = "ok"


@pytest.mark.parametrize(
    ("failed", "repaired", "expected"),
    [
        pytest.param({"to": 5}, {"to": ["a"]}, (BAD, False, GOOD, (BAD, GOOD)), id="refused, then right"),
        pytest.param({"to": "a"}, {"to": ["b"]}, (GOOD, True, GOOD, (BAD, GOOD)), id="repaired outright"),
        pytest.param(
            {"to": ["a"]}, {"to": ["a"]}, (GOOD, False, "runtime_error", (GOOD, "runtime_error")), id="one environment"
        ),
        pytest.param(
            {"to": ["nobody"]}, {}, ("runtime_error", False, BAD, ("runtime_error", BAD)), id="failed, then refused"
        ),
    ],
)
async def test_both_attempts_run_one_after_the_other(
    failed: Any, repaired: Any, expected: tuple[OutcomeKind, bool, OutcomeKind, tuple[OutcomeKind, OutcomeKind]]
) -> None:
    """The second attempt finds what the first one left behind; the plain replay has an environment of its own."""
    assert await replay_pairs(dojo(post=[]), [pair(failed, repaired)], []) == [Pair("p", "post", "send", *expected)]


async def test_a_pair_is_replayed_in_the_suite_where_it_was_recorded() -> None:
    """Of several suites with that tool: one with a record of either call, else one where the second attempt runs."""
    two, sent = dojo(full=["a"], empty=[]), pair({"to": 5}, {"to": ["a"]})
    record = {"tool_name_as_called": "send", "arguments": {"to": ["a"]}, "toolset": "full"}
    (known,) = await replay_pairs(two, [sent], [record])
    (guessed,) = await replay_pairs(two, [sent, pair({}, {}, suite="another")], [])
    assert (known.suite, known.second) == ("full", "runtime_error")
    assert (guessed.suite, guessed.second) == ("empty", "ok")


def made(
    first: OutcomeKind, second: OutcomeKind, plain: OutcomeKind, *, repaired: bool = False, call: str = "p"
) -> Pair:
    return Pair(call, "post", "send", first, repaired, second, (BAD, plain))


def test_the_printed_lines_count_the_pairs() -> None:
    """They count pairs that were repaired outright, ran as they are, or ran the second time; failures by id."""
    pairs = [
        made("ok", "ok", "ok", repaired=True),
        made("ok", "ok", "ok"),
        made("invalid_params", "ok", "ok"),
        made("invalid_params", "runtime_error", "ok", call="odd"),
    ]
    printed = list(lines(pairs))
    assert [line.split()[0] for line in printed[1:4]] == ["1", "1", "1"]
    assert printed[3].endswith("of the other 2 run the second time; plain 2")
    assert printed[4] == "    odd  post send: invalid_params, then runtime_error; plain ok"


def test_fewer_second_attempts_are_a_regression() -> None:
    """Fewer second attempts that run are a regression, and so is each that only the plain replay runs."""
    right = [made("invalid_params", "ok", "ok")] * 99
    assert regressions([]) == []
    assert regressions([*right, made("invalid_params", "runtime_error", "runtime_error")]) == []
    assert regressions([*right, made("invalid_params", "runtime_error", "ok", call="odd")]) == [
        "ours alone fails the second time: odd"
    ]
    (worse,) = regressions([made("invalid_params", "runtime_error", "runtime_error")])
    assert worse.startswith("0.0% of the second attempts run")

"""benchmarks.agentdojo_pairs: both attempts on one environment, with suites written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Annotated, Any, cast

import attrs
import pytest

from benchmarks.agentdojo_pairs import Pair, attempts, shortfalls, told
from benchmarks.comparison import Came
from benchmarks.dojo import Dojo


@attrs.define
class Environment:
    """As AgentDojo's, as far as this looks at it."""

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
    """As AgentDojo's runtime, which mends nothing."""

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


BAD: Came = "invalid_params"
GOOD: Came = "ok"


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
    failed: Any, repaired: Any, expected: tuple[Came, bool, Came, tuple[Came, Came]]
) -> None:
    """The second one finds what the first one left behind, and the plain replay does the same on its own."""
    assert await attempts(dojo(post=[]), [pair(failed, repaired)], []) == [Pair("p", "post", "send", *expected)]


async def test_a_pair_is_of_the_suite_where_it_was_recorded() -> None:
    """Of several suites with that tool the one with a record of either call, else where the second attempt runs."""
    two, sent = dojo(full=["a"], empty=[]), pair({"to": 5}, {"to": ["a"]})
    record = {"tool_name_as_called": "send", "arguments": {"to": ["a"]}, "toolset": "full"}
    (known,) = await attempts(two, [sent], [record])
    (guessed,) = await attempts(two, [sent, pair({}, {}, suite="another")], [])
    assert (known.suite, known.second) == ("full", "runtime_error")
    assert (guessed.suite, guessed.second) == ("empty", "ok")


def made(first: Came, second: Came, plain: Came, *, repaired: bool = False, call: str = "p") -> Pair:
    return Pair(call, "post", "send", first, repaired, second, (BAD, plain))


def test_what_came_of_them_is_told() -> None:
    """How many were repaired outright, how many ran as they are, and of the rest how many ran then; others by id."""
    pairs = [
        made("ok", "ok", "ok", repaired=True),
        made("ok", "ok", "ok"),
        made("invalid_params", "ok", "ok"),
        made("invalid_params", "runtime_error", "ok", call="odd"),
    ]
    lines = list(told(pairs))
    assert [line.split()[0] for line in lines[1:4]] == ["1", "1", "1"]
    assert lines[3].endswith("of the other 2 run the second time; plain 2")
    assert lines[4] == "    odd  post send: invalid_params, then runtime_error; plain ok"


def test_less_than_was_reached_is_told() -> None:
    """Fewer second attempts that run fall short, and each that the plain replay runs; of none nothing does."""
    right = [made("invalid_params", "ok", "ok")] * 99
    assert shortfalls([]) == []
    assert shortfalls([*right, made("invalid_params", "runtime_error", "runtime_error")]) == []
    assert shortfalls([*right, made("invalid_params", "runtime_error", "ok", call="odd")]) == [
        "ours alone fails the second time: odd"
    ]
    (fallen,) = shortfalls([made("invalid_params", "runtime_error", "runtime_error")])
    assert fallen.startswith("0.0% of the second attempts run")

"""Validate: arguments in any form become params, or all that is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest
from returns.result import Failure

from middlewares import Validate
from pipeline import Call, InvalidParams, MalformedCall, Problem, ToolContext, ValidCall, render, tool
from support import a_tool


@tool(effect="read")
async def read(path: str, limit: int = 10) -> str:
    """Read a file."""
    return path * limit


@tool(context=True)
async def with_context(context: ToolContext, path: str) -> str:
    return path


def checked(arguments: object, made: Any = read, **fields: Any) -> Any:
    return Validate()(Call(made.name, arguments, **fields).resolved(made))


@pytest.mark.parametrize(
    ("arguments", "params"),
    [
        pytest.param({"path": "a", "limit": 2}, {"path": "a", "limit": 2}, id="mapping"),
        pytest.param('{"path": "a", "limit": 2}', {"path": "a", "limit": 2}, id="text"),
        pytest.param({"path": ""}, {"path": ""}, id="what is not sent is left to the function"),
    ],
)
def test_good_arguments_become_params(arguments: object, params: dict[str, Any]) -> None:
    """The call goes on with its params, and with all that it was before."""
    call = Call("read", arguments, "c1", "ann", "deps", "stop", 3.0).resolved(read)
    found = Validate()(call)
    assert isinstance(found, ValidCall)
    assert found.params == params
    kept = ("name", "arguments", "id", "principal", "deps", "finish_reason", "timeout", "tool", "repairs")
    assert [getattr(found, name) for name in kept] == [getattr(call, name) for name in kept]
    assert (found.attempt, found.idempotency_key) == (1, "")


@pytest.mark.parametrize("arguments", [None, "", "  ", {}], ids=repr)
def test_nothing_is_no_arguments(arguments: object) -> None:
    """A tool that wants nothing gets nothing; one that wants something misses it."""
    assert checked(arguments, a_tool()).params == {}
    assert checked(arguments).failure() == InvalidParams((Problem("path", "required", "a string"),))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ('{"path": "a"', MalformedCall("EOF while parsing an object", (1, 12), truncated=True)),
        ('{"path": "a",}', MalformedCall("trailing comma", (1, 14))),
        ("[]", MalformedCall("they are an array")),
        (7, MalformedCall("they are an integer")),
    ],
)
def test_what_is_no_object_is_malformed(arguments: object, error: MalformedCall) -> None:
    """Text that does not parse, and anything but an object, fails as that and as nothing else."""
    assert checked(arguments) == Failure(error)


def test_all_that_is_wrong_is_told_at_once() -> None:
    """One failure holds every problem."""
    assert checked({"limit": "2", "mode": 1}) == Failure(
        InvalidParams(
            (
                Problem("path", "required", "a string"),
                Problem("limit", "type", "an integer", "a string"),
                Problem("mode", "additionalProperties", "path, limit", "1"),
            )
        )
    )


@pytest.mark.parametrize("arguments", [{"path": "a"}, '{"path": "a"}', '{"path": "a', None, 7], ids=repr)
def test_a_call_that_was_cut_off_is_refused(arguments: object) -> None:
    """The provider says that it stopped at its length limit: what is left may parse, and is not what was meant."""
    found = checked(arguments, finish_reason="length")
    assert isinstance(found.failure(), MalformedCall)
    assert found.failure().truncated
    assert render(found.failure()).startswith("Error: The arguments were cut off.")


@pytest.mark.parametrize("reason", [None, "stop", "tool_calls", "", "max_tokens"])
def test_any_other_end_is_no_matter(reason: str | None) -> None:
    """Only a reason that says so cuts a call off: one that nobody knows is no matter."""
    assert checked({"path": "a"}, finish_reason=reason).params == {"path": "a"}


def test_a_key_is_made_for_a_tool_that_takes_a_context() -> None:
    """Each call of such a tool has an idempotency key of its own; the context is no argument."""
    one, other = checked({"path": "a"}, with_context), checked({"path": "a"}, with_context)
    assert one.params == {"path": "a"}
    assert one.idempotency_key != other.idempotency_key
    assert checked({"path": "a", "context": 1}, with_context).failure().problems[0].path == "context"


def test_params_are_the_tools_own() -> None:
    """What a tool does to its params changes nothing of what the model sent."""
    sent = {"path": "a"}
    checked(sent).params.clear()
    assert sent == {"path": "a"}


@pytest.mark.parametrize("reason", ["content_filter", "refusal"])
@pytest.mark.parametrize("arguments", ["", '{"path": "a"}', {"path": "a"}], ids=repr)
def test_what_a_provider_withheld_does_not_run(reason: str, arguments: object) -> None:
    """A reply that the provider stopped is not whole: its calls do not run, as no call without arguments does."""
    found = checked(arguments, finish_reason=reason)
    assert found == Failure(MalformedCall("the provider withheld the rest of this reply"))

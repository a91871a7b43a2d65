"""Validate: arguments in any form become params, or one failure with all problems."""

from __future__ import annotations

from typing import Any

import pytest
from returns.result import Failure

from support import a_tool
from toolcall_pipeline import Call, InvalidParams, MalformedCall, Problem, ToolContext, ValidCall, render, tool
from toolcall_pipeline.middlewares import Validate


@tool(effect="read")
async def read(path: str, limit: int = 10) -> str:
    """Read a file."""
    return path * limit


@tool(context=True)
async def with_context(context: ToolContext, path: str) -> str:
    return path


def validate(arguments: object, made: Any = read, **fields: Any) -> Any:
    return Validate()(Call(made.name, arguments, **fields).resolved(made))


@pytest.mark.parametrize(
    ("arguments", "params"),
    [
        pytest.param({"path": "a", "limit": 2}, {"path": "a", "limit": 2}, id="mapping"),
        pytest.param('{"path": "a", "limit": 2}', {"path": "a", "limit": 2}, id="text"),
        pytest.param({"path": ""}, {"path": ""}, id="defaults are left to the function"),
    ],
)
def test_good_arguments_become_params(arguments: object, params: dict[str, Any]) -> None:
    """The call goes on with its params, and keeps every field that it had."""
    call = Call("read", arguments, "c1", "ann", "deps", "stop", 3.0).resolved(read)
    found = Validate()(call)
    assert isinstance(found, ValidCall)
    assert found.params == params
    kept = ("name", "arguments", "id", "principal", "deps", "finish_reason", "timeout", "tool", "repairs")
    assert [getattr(found, name) for name in kept] == [getattr(call, name) for name in kept]
    assert (found.attempt, found.idempotency_key) == (1, "")


@pytest.mark.parametrize("arguments", [None, "", "  ", {}], ids=repr)
def test_nothing_is_no_arguments(arguments: object) -> None:
    """None, empty text and an empty mapping are no arguments: fine for a tool without required parameters."""
    assert validate(arguments, a_tool()).params == {}
    assert validate(arguments).failure() == InvalidParams((Problem("path", "required", "a string"),))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ('{"path": "a"', MalformedCall("EOF while parsing an object", (1, 12), truncated=True)),
        ('{"path": "a",,}', MalformedCall("key must be a string", (1, 14))),
        ("[1]", MalformedCall("they are an array")),
        (7, MalformedCall("they are an integer")),
    ],
)
def test_anything_but_an_object_is_malformed(arguments: object, error: MalformedCall) -> None:
    """Text that does not parse, and any value but an object, is a MalformedCall."""
    assert validate(arguments) == Failure(error)


def test_one_failure_holds_every_problem() -> None:
    """All problems of the arguments are found at once."""
    assert validate({"limit": "two", "mode": 1}) == Failure(
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
    """After the provider's length limit a call is refused even if it parses: it may not be what was meant."""
    found = validate(arguments, finish_reason="length")
    assert isinstance(found.failure(), MalformedCall)
    assert found.failure().truncated
    assert render(found.failure()).startswith("Error: The arguments were cut off.")


@pytest.mark.parametrize("reason", [None, "stop", "tool_calls", "", "max_tokens"])
def test_any_other_finish_reason_is_ignored(reason: str | None) -> None:
    """Only a finish reason that is known to cut calls off has a call refused."""
    assert validate({"path": "a"}, finish_reason=reason).params == {"path": "a"}


def test_a_key_is_made_for_a_tool_that_takes_a_context() -> None:
    """Each call of such a tool has its own idempotency key; the context is no argument."""
    one, other = validate({"path": "a"}, with_context), validate({"path": "a"}, with_context)
    assert one.params == {"path": "a"}
    assert one.idempotency_key != other.idempotency_key
    assert validate({"path": "a", "context": 1}, with_context).failure().problems[0].path == "context"


def test_params_are_the_tools_own() -> None:
    """A tool that changes its params does not change what the model sent."""
    sent = {"path": "a"}
    validate(sent).params.clear()
    assert sent == {"path": "a"}


@pytest.mark.parametrize("reason", ["content_filter", "refusal"])
@pytest.mark.parametrize("arguments", ["", '{"path": "a"}', {"path": "a"}], ids=repr)
def test_a_withheld_call_does_not_run(reason: str, arguments: object) -> None:
    """A reply that the provider withheld is incomplete: its calls are refused, whatever their arguments."""
    found = validate(arguments, finish_reason=reason)
    assert found == Failure(MalformedCall("the provider withheld the rest of this reply"))

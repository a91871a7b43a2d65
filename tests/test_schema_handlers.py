"""Handlers of tools made from a JSON Schema: by keyword, with one mapping, or refused, as their signature says."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from returns.result import Success

from toolcall_pipeline import SetupError, ToolContext, ToolRegistry
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.tools import Tool

SENT = {"path": "a/b", "depth": 2}
PROPERTIES = {"path": {"type": "string"}, "depth": {"type": "integer"}}
SCHEMA = {"type": "object", "properties": PROPERTIES, "required": ["path"]}
OTHER = {"type": "object", "properties": {"id": {"type": "string"}}}


class Handlers:
    """Handlers that are methods, and one that is an object."""

    def take(self, arguments: dict[str, Any]) -> object:
        """Return the arguments."""
        return arguments

    async def __call__(self, arguments: dict[str, Any]) -> object:
        """Return the arguments."""
        return arguments


def take_one(arguments: dict[str, Any]) -> object:
    """Return the arguments; another process imports it."""
    return arguments


def _take_path(path: str) -> object:
    return path


async def _take_async(arguments: dict[str, Any]) -> object:
    return arguments


def _take_second(_client: object, arguments: dict[str, Any], *, log: object = None) -> object:
    return arguments


def _lambda(source: str) -> Callable[..., Any]:
    """A function without annotations, which strict type checkers refuse as source."""
    made: Callable[..., Any] = eval(f"lambda {source}")
    return made


ONE: dict[str, Callable[..., Any]] = {
    "a function": take_one,
    "async": _take_async,
    "positional-only": _lambda("arguments, /: arguments"),
    "with a default": _lambda("arguments=None: arguments"),
    "a method": Handlers().take,
    "an object": Handlers(),
    "a partial by position": partial(_take_second, object()),
    "a partial by keyword": partial(_take_second, object(), log=1),
}
BY_KEYWORD: dict[str, Callable[..., Any]] = {
    "as the schema": _lambda("path, depth: {'path': path, 'depth': depth}"),
    "any keyword": _lambda("**arguments: arguments"),
    "one by name, the rest": _lambda("path, **rest: {'path': path, **rest}"),
    "bound by a default": _lambda("path, depth, client=None: {'path': path, 'depth': depth}"),
    "no signature": dict,
}
REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "mapping beside keywords": (_lambda("arguments, **_rest: arguments"), "needs arguments"),
    "two mappings": (_lambda("one, _two: one"), "needs one"),
    "a mapping beside a property": (_lambda("arguments, _depth=1, path='': (arguments, path)"), "needs arguments"),
    "a property by position alone": (_lambda("path, /: path"), "needs path"),
    "one of another type": (_take_path, "needs path"),
    "keyword-only": (_lambda("*, arguments: arguments"), "needs arguments"),
}


async def _call(tool: Tool[..., Any], sent: dict[str, Any]) -> object:
    tools = ToolRegistry()
    tools.register(tool)
    async with standard(tools) as pipeline:
        return await pipeline.call(tool.name, sent)


@pytest.mark.anyio
@pytest.mark.parametrize("handler", [pytest.param(each, id=name) for name, each in (ONE | BY_KEYWORD).items()])
async def test_a_handler_gets_the_arguments_in_the_way_that_its_signature_takes(handler: Callable[..., Any]) -> None:
    """A handler that takes one mapping is called with one, any other with keyword arguments."""
    assert await _call(Tool.from_schema(name="t", parameters=SCHEMA, handler=handler), SENT) == Success(SENT)


@pytest.mark.parametrize(("handler", "text"), [pytest.param(*each, id=name) for name, each in REFUSED.items()])
def test_a_handler_that_no_call_fits_is_refused(handler: Callable[..., Any], text: str) -> None:
    """A handler that each call would crash is a SetupError that says how it must look."""
    with pytest.raises(SetupError, match=text):
        Tool.from_schema(name="t", parameters=OTHER if handler is _take_path else SCHEMA, handler=handler)


@pytest.mark.anyio
async def test_a_mapping_comes_after_the_context() -> None:
    """With context=True the first parameter is the ToolContext, and the second one the mapping."""

    async def handle(context: ToolContext[Any], arguments: dict[str, Any]) -> object:
        return context.tool, arguments

    tool = Tool.from_schema(name="t", parameters=SCHEMA, handler=handle, context=True)
    assert await _call(tool, SENT) == Success(("t", SENT))


@pytest.mark.anyio
async def test_any_object_comes_as_one_mapping() -> None:
    """Of a schema that declares nothing, a parameter takes the object, unless it is annotated or bound otherwise."""
    assert await _call(Tool.from_schema(name="t", parameters=None, handler=take_one), SENT) == Success(SENT)
    by_name = Tool.from_schema(name="t", parameters=None, handler=_take_path)
    assert await _call(by_name, {"path": "a"}) == Success("a")
    nothing: dict[str, Any] = {"type": "object", "properties": {}}
    bound = Tool.from_schema(name="t", parameters=nothing, handler=_lambda("item=7: item"))
    assert await _call(bound, {}) == Success(7)


@pytest.mark.anyio
async def test_a_property_of_a_branch_is_a_property() -> None:
    """A parameter that a branch of the schema declares is given by keyword, also if the branch is conditional."""
    whole = {"properties": PROPERTIES}
    for form in ({"$ref": "#/$defs/a"}, {"anyOf": [whole]}, {"then": whole, "if": True}, {"required": ["path"]}):
        schema = {"type": "object", "$defs": {"a": whole}, **form}
        tool = Tool.from_schema(name="t", parameters=schema, handler=_lambda("path: path"))
        assert await _call(tool, {"path": "a"}) == Success("a"), form


@pytest.mark.anyio
async def test_a_mapping_handler_runs_in_another_process() -> None:
    """The mapping is made where the body runs."""
    tool = Tool.from_schema(name="t", parameters=SCHEMA, handler=take_one, run_in="process", effect="read")
    assert await _call(tool, SENT) == Success(SENT)

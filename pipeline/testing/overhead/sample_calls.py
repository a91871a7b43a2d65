"""The calls that are measured, their tools, and what these return."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from ...call import Call, is_failure
from ...compose.pipeline import Pipeline
from ...errors import SetupError
from ...messages import render
from ...report import kind_of
from ...tools import Tool
from .stand_ins import Bodies, replace_bodies


def list_tools(pipeline: Pipeline, calls: Iterable[Call]) -> list[Tool[..., Any]]:
    """All tools that the pipeline may run: those of its registries, and those that the calls name.

    Raises:
        SetupError: No tool has the name of a call.
    """
    found = {id(tool): tool for registry in pipeline.registries for tool in registry}
    for call in calls:
        tool = find_tool(pipeline, call)
        found[id(tool)] = tool
    return list(found.values())


def find_tool(pipeline: Pipeline, call: Call) -> Tool[..., Any]:
    """The tool that a call names. Raises SetupError if there is none."""
    resolved: Any = pipeline.resolve(call)
    tool = getattr(resolved, "tool", None) or pipeline.find(call.name)
    if tool is None:
        why = render(resolved.failure()) if resolved is not None else "no stage of this pipeline finds tools"
        raise SetupError(f"the call of {call.name!r} names no tool: {' '.join(why.split())}")
    return tool


async def choose_call(pipeline: Pipeline) -> Call:
    """An example for one of its tools, those that read first. No body runs.

    Raises:
        SetupError: None of its tools has one that succeeds.
    """
    open_tools = [registry.tools[name] for registry in pipeline.registries for name in registry.callable_names()]
    with replace_bodies(list_tools(pipeline, ()), Bodies()):
        for tool in sorted(open_tools, key=lambda each: each.effect != "read"):
            tool.compile()
            call = Call(tool.name, json.loads(tool.parameters.example() or "{}"))
            if not is_failure(await pipeline(call)):
                return call
    raise SetupError("none of the tools of this pipeline has an example call that succeeds: give a call")


async def read_values(pipeline: Pipeline, calls: Sequence[Call]) -> dict[str, object]:
    """What the tools that only read return, each by its name; each call runs once.

    Raises:
        SetupError: A call fails.
    """
    values: dict[str, object] = {}
    for call in calls:
        tool = find_tool(pipeline, call)
        if tool.effect == "read":
            values[tool.name] = await run_well(pipeline, call)
    return values


async def run_well(pipeline: Pipeline, call: Call) -> object:
    """Run a call, and return its value. Raises SetupError if it fails."""
    outcome = await pipeline(call)
    if is_failure(outcome):
        text = " ".join(render(outcome).split())
        raise SetupError(f"the call of {str(call.name)!r} fails, {kind_of(outcome)}: {text}")
    return outcome.unwrap()

"""A registry as tools of DSPy. Run by `make test-more-hosts` with the real package."""

from __future__ import annotations

from typing import Any

import dspy
from dspy.utils import DummyLM

from further_hosts import CALLS, check_told, make_registry
from toolcall_pipeline.hosts import export_tools
from toolcall_pipeline.middlewares import standard


def wrap(tool: Any) -> dspy.Tool:
    return dspy.Tool(tool, tool.name, tool.description, dict(tool.parameters["properties"]), arg_types={})


def test_an_agent_calls_the_tools() -> None:
    """DSPy refuses a wrong type itself, before a tool: such a call is not repaired."""
    registry = make_registry()
    tools = [wrap(each) for each in export_tools(registry, standard(registry))]
    turns = [
        {"next_thought": "", "next_tool_name": name, "next_tool_args": sent} for name, sent in (*CALLS, ("finish", {}))
    ]
    with dspy.context(lm=DummyLM([*turns, {"reasoning": "", "answer": "done"}])):
        result = dspy.ReAct("question -> answer", tools=tools)(question="go")
    assert result.answer == "done"
    told = [each for name, each in result.trajectory.items() if name.startswith("observation")][:-1]
    assert "'3' is not of type 'integer'" in told[1]
    check_told([("6" if place == 1 else each, place > 1) for place, each in enumerate(told)])

"""A registry as tools of CrewAI. Run by `make test-more-hosts` with the real package."""

from __future__ import annotations

import json
from typing import Any

from crewai import Agent, BaseLLM
from crewai.tools import BaseTool

from further_hosts import CALLS, check_told, make_registry
from toolcall_pipeline.hosts import export_tools
from toolcall_pipeline.middlewares import standard


class Exported(BaseTool):
    tool: Any

    def _run(self, security_context: Any = None, **sent: Any) -> str:  # agents before 1.7 put it in
        return self.tool(**sent)


class Saying(BaseLLM):
    """Makes the calls, one a turn, and is done then."""

    read: Any = None

    def call(self, messages: Any, *args: Any, **options: Any) -> str:
        self.read = messages
        if (made := sum(each["role"] == "assistant" for each in messages)) == len(CALLS):
            return "Thought: I now know the final answer\nFinal Answer: done"
        name, sent = CALLS[made]
        return f"Thought: go\nAction: {name}\nAction Input: {json.dumps(sent)}"

    def supports_function_calling(self) -> bool:
        return False


def test_an_agent_calls_the_tools() -> None:
    """It reads the answers; CrewAI's record of a call has no place for a failure."""
    registry = make_registry()
    tools = [
        Exported(name=each.name, description=each.description, args_schema=each.model, tool=each)
        for each in export_tools(registry, standard(registry))
    ]
    model = Saying(model="fake")
    agent = Agent(role="agent", goal="go", backstory="", tools=tools, llm=model, max_iter=9)
    assert agent.kickoff("go").raw == "done"
    said = [each["content"] for each in model.read if each["role"] == "assistant"][: len(CALLS)]
    check_told([(text.partition("\nObservation: ")[2], place > 1) for place, text in enumerate(said)])


def test_a_tool_as_an_agent_calls_it() -> None:
    """A right call, a repaired one, a failure in the author's words, and a crash without its secret."""
    registry = make_registry()
    double, fail = [
        Exported(name=each.name, description=each.description, args_schema=each.model, tool=each)
        for each in export_tools(registry, standard(registry))
    ]
    structured = double.to_structured_tool()
    assert structured.args_schema.model_json_schema()["properties"]["n"]["type"] == "integer"
    assert [structured.invoke({"n": 2}), structured.invoke({"n": "3"}), double.run(n=4)] == ["4", "6", "8"]
    assert "Missing required parameter: n" in structured.invoke({})
    assert "Ask for fewer." in fail.to_structured_tool().invoke({"n": 1})
    assert "hunter2" not in fail.to_structured_tool().invoke({"n": 0})

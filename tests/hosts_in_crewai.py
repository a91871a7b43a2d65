"""A registry as tools of CrewAI. Run by `make test-more-hosts` with the real package."""

from __future__ import annotations

from typing import Any

from crewai.tools import BaseTool

from further_hosts import make_registry
from toolcall_pipeline.hosts import export_tools
from toolcall_pipeline.middlewares import standard


class Exported(BaseTool):
    tool: Any

    def _run(self, **sent: Any) -> str:
        return self.tool(**sent)


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

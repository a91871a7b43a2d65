"""A registry as tools of smolagents. Run by `make test-more-hosts` with the real package."""

from __future__ import annotations

from typing import Any

from smolagents import CodeAgent, Model, Tool, ToolCallingAgent
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole

from further_hosts import make_registry
from toolcall_pipeline.hosts import export_tools
from toolcall_pipeline.middlewares import standard


class Exported(Tool):
    skip_forward_signature_validation = True

    def __init__(self, tool: Any) -> None:
        self.name, self.description, self.inputs, self.output_type = tool.name, tool.description, tool.inputs, "string"
        self.forward = tool
        super().__init__()


class Saying(Model):
    """Says these texts, or makes these calls, and keeps what it was told."""

    def __init__(self, *turns: Any) -> None:
        super().__init__(model_id="fake")
        self.turns, self.told = [*turns], ""

    def generate(self, messages: Any, **more: Any) -> ChatMessage:
        self.told = str(messages[-1])
        turn = self.turns.pop(0)
        if isinstance(turn, str):
            return ChatMessage(role=MessageRole.ASSISTANT, content=turn)
        name, arguments = turn
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        call = ChatMessageToolCall(id="1", type="function", function=function)
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])


def tools() -> list[Tool]:
    registry = make_registry()
    return [Exported(each) for each in export_tools(registry, standard(registry), raises=True)]


def test_an_agent_that_calls_tools() -> None:
    """A right call, a failure in the author's words, and a crash without its secret."""
    model = Saying(("double", {"n": 2}), ("fail", {"n": 1}), ("fail", {"n": 0}), ("final_answer", {"answer": "done"}))
    agent = ToolCallingAgent(tools=tools(), model=model)
    assert agent.run("go", max_steps=4) == "done"
    first, second, third, _ = [step for step in agent.memory.steps if hasattr(step, "observations")]
    assert "4" in str(first.observations)
    assert "Ask for fewer." in str(second.error)
    assert third.error is not None
    assert "hunter2" not in str(third.error)


def test_an_agent_that_writes_code() -> None:
    """It calls by position, and a failure stops its code."""
    model = Saying(
        "<code>\nprint(double(2), double(n=3))\n</code>",
        "<code>\nfail(1)\n</code>",
        '<code>\nfinal_answer("done")\n</code>',
    )
    agent = CodeAgent(tools=tools(), model=model)
    assert agent.run("go", max_steps=3) == "done"
    first, second, _ = [step for step in agent.memory.steps if hasattr(step, "observations")]
    assert "4 6" in str(first.observations)
    assert "Ask for fewer." in str(second.error)

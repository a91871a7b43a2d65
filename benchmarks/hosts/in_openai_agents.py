"""The OpenAI Agents SDK."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from agents import Agent, RunConfig, Runner, function_tool
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.usage import Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from benchmarks.hosts.mistakes import Mistake, Tools
from toolcall_pipeline.hosts.openai_agents import pipelined, run_config

VERSION = f"openai-agents {version('openai-agents')}"
UNSEEN: frozenset[str] = frozenset()


class FakeModel(Model):
    """Makes one call, then keeps the result that it got."""

    def __init__(self, mistake: Mistake, times: int) -> None:
        self.mistake = mistake
        self.times = times
        self.told = ""

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **more: Any) -> ModelResponse:  # noqa: A002, ARG002
        """Answer one request."""
        items: list[Any] = [] if isinstance(input, str) else input
        outputs = [each for each in items if each.get("type") == "function_call_output"]
        if not outputs:
            sent: Any = {"type": "function_call", "name": self.mistake.name, "arguments": self.mistake.arguments}
            calls: Any = [ResponseFunctionToolCall(**sent, call_id=str(number)) for number in range(self.times)]
            return ModelResponse(output=calls, usage=Usage(), response_id=None)
        self.told = str(outputs[0]["output"])
        text = ResponseOutputText(text="done", type="output_text", annotations=[])
        message = ResponseOutputMessage(id="1", role="assistant", status="completed", type="message", content=[text])
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **more: Any) -> Any:
        """It does not."""
        raise NotImplementedError


async def ask(mistake: Mistake, tools: Tools, *, behind: bool, times: int = 1, **options: Any) -> str:
    """Let the model make one call, or the same one several times in one message."""
    model = FakeModel(mistake, times)
    functions = (tools.add, tools.count, tools.crash, tools.flaky)
    agent: Agent[Any] = Agent(name="agent", model=model, tools=[function_tool(each) for each in functions])
    if behind:
        agent = pipelined(agent, effects={"flaky": "read"}, **options)
    config = run_config(agent, tracing_disabled=True) if behind else RunConfig(tracing_disabled=True)
    await Runner.run(agent, "go", run_config=config)
    return model.told

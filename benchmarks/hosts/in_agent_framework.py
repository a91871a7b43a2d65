"""Microsoft's Agent Framework."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from agent_framework import Agent, BaseChatClient, ChatResponse, Content, FunctionInvocationLayer, FunctionTool, Message

from benchmarks.hosts.mistakes import Mistake, Tools
from toolcall_pipeline.hosts.agent_framework import ToolcallMiddleware

VERSION = f"agent-framework-core {version('agent-framework-core')}"
UNSEEN = frozenset({"unknown name", "near name"})


class FakeModel(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """Makes one call, then keeps the result that it got."""

    def __init__(self, mistake: Mistake, times: int) -> None:
        super().__init__()
        self.times = times
        self.mistake = mistake
        self.told = ""

    async def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **more: Any) -> ChatResponse:  # noqa: ARG002
        last = messages[-1].contents[0]
        if last.type == "function_result":
            self.told = str(last.result)
            said = [Content.from_text("done")]
        else:
            ids = map(str, range(self.times))
            said = [Content.from_function_call(id_, self.mistake.name, arguments=self.mistake.arguments) for id_ in ids]
        return ChatResponse(messages=[Message("assistant", said)])


async def ask(mistake: Mistake, tools: Tools, *, behind: bool, times: int = 1, **options: Any) -> str:
    """Let the model make one call, or the same one several times in one message."""
    model = FakeModel(mistake, times)
    functions = (tools.add, tools.count, tools.crash, tools.flaky)
    own = [FunctionTool(name=each.__name__, description=each.__doc__ or "", func=each) for each in functions]
    agent = Agent(
        model, tools=own, middleware=[ToolcallMiddleware(effects={"flaky": "read"}, **options)] if behind else []
    )
    await agent.run("go")
    return model.told

"""Google's Agent Development Kit."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from importlib.metadata import version
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from benchmarks.hosts.mistakes import Mistake, Tools
from toolcall_pipeline.hosts.adk import ToolcallPlugin

VERSION = f"google-adk {version('google-adk')}"
UNSEEN: frozenset[str] = frozenset()


class FakeModel(BaseLlm):
    """Makes one call, then keeps the result that it got."""

    name: str
    arguments: dict[str, Any]
    times: int
    told: list[str] = []  # noqa: RUF012  # a pydantic model copies it

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[Any, None]:  # noqa: ARG002, FBT001, FBT002
        """Answer one request."""
        last = llm_request.contents[-1].parts[0]
        if last.function_response is None:
            parts = [types.Part.from_function_call(name=self.name, args=self.arguments) for _ in range(self.times)]
        else:
            answer = last.function_response.response
            self.told.append(str(answer.get("error", answer.get("result", answer))))
            parts = [types.Part.from_text(text="done")]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


async def ask(mistake: Mistake, tools: Tools, *, behind: bool, times: int = 1, **options: Any) -> str:
    """Let the model make one call, or the same one several times in one message."""
    model = FakeModel(model="fake", name=mistake.name, arguments=json.loads(mistake.arguments), times=times)
    functions: Any = [tools.add, tools.count, tools.crash, tools.flaky]
    agent = LlmAgent(name="agent", model=model, tools=functions)
    plugins: Any = [ToolcallPlugin(effects={"flaky": "read"}, **options)] if behind else []
    runner = InMemoryRunner(agent=agent, plugins=plugins)
    session = await runner.session_service.create_session(app_name=runner.app_name, user_id="user")
    message = types.Content(role="user", parts=[types.Part.from_text(text="go")])
    async for _ in runner.run_async(user_id="user", session_id=session.id, new_message=message):
        pass
    return model.told[0]

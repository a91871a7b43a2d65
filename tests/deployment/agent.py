"""An agent of LangChain whose thread is in a file.

It makes a call that stands in its thread again, from the state before: so LangGraph goes on after a process was killed,
and so a person goes back to an earlier state.

Usage: agent.py ORDER ID
"""

from __future__ import annotations

import sys
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver

import shop
from toolcall_pipeline.hosts.langchain import ToolcallMiddleware

ORDER, ID = sys.argv[1:]


class Model(GenericFakeChatModel):
    """Pays the order, and is done when it reads an answer."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: Any, *args: Any, **options: Any) -> ChatResult:
        done = isinstance(messages[-1], ToolMessage)
        calls = [] if done else [{"name": "pay", "args": {"order": ORDER}, "id": ID}]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("done" if done else "", tool_calls=calls))])


with SqliteSaver.from_conn_string(str(shop.FOLDER / "threads.db")) as saver:
    agent = create_agent(
        Model(messages=iter(())),
        [tool(shop.pay.fn)],
        middleware=[ToolcallMiddleware(timeout=600, store=shop.open_store())],
        checkpointer=saver,
    )
    config: Any = {"configurable": {"thread_id": "orders"}}
    asked: Any = {"messages": [("user", f"Pay {ORDER}.")]}
    for before in agent.get_state_history(config):  # where it stopped, or where a person goes back to
        latest = [*before.values.get("messages", ())][-1:]  # there is none before the first turn
        if before.next and any(call["id"] == ID for each in latest for call in getattr(each, "tool_calls", ())):
            asked, config = None, before.config
            break
    state = agent.invoke(asked, config)
    sys.stdout.write([each.text for each in state["messages"] if isinstance(each, ToolMessage)][-1])

"""What a model is told and answers in LangChain: its tools, and the calls that it means beyond doubt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..call import Call
from ..compose import Pipeline
from .checked_arguments import foresee
from .extras import requires
from .host import HostTool

with requires("langchain"):
    from langchain.agents.middleware.types import ExtendedModelResponse, ModelResponse
    from langchain_core.messages import AIMessage
    from langchain_core.tools import BaseTool
    from langchain_core.utils.function_calling import convert_to_openai_tool


def put_calls_right(reply: Any, pipeline: Pipeline) -> Any:
    """The reply, with the names and arguments that the pipeline will run: an approval by a person judges these.

    Args:
        reply: What the model answered, in one of the forms that LangChain takes.
        pipeline: For the tools that the model was offered. What it refuses stays as the model wrote it.
    """
    match reply:
        case ExtendedModelResponse():
            return replace(reply, model_response=put_calls_right(reply.model_response, pipeline))
        case ModelResponse(structured_response=None):
            return replace(reply, result=[put_calls_right(each, pipeline) for each in reply.result])
        case AIMessage(tool_calls=[_, *_]):
            return reply.model_copy(update={"tool_calls": [_put_right(each, pipeline) for each in reply.tool_calls]})
        case _:
            return reply


def describe(tool: BaseTool) -> HostTool:
    """What LangChain tells the model of a tool, and its effect."""
    function = convert_to_openai_tool(tool)["function"]
    return HostTool(function.get("description", ""), function.get("parameters"), (tool.metadata or {}).get("effect"))


def _put_right(asked: Any, pipeline: Pipeline) -> Any:
    valid = foresee(pipeline, Call(asked["name"], asked["args"], asked["id"] or ""))
    if valid is None or (valid.tool.name == asked["name"] and not valid.repairs):
        return asked
    return {**asked, "name": valid.tool.name, "args": dict(valid.params)}

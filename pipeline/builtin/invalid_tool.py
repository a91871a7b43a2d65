"""Invalid: the pipeline's answer to an unknown tool name, as a tool that a runtime may send such calls to."""

from __future__ import annotations

from typing import Any

from returns.result import Failure

from ..engine.call import Call, ResolvedCall
from ..engine.compose.pipeline import Pipeline
from ..engine.errors import ExecutionFailed, UnknownTool
from ..tools.context import ToolContext
from ..tools.definition import Tool
from .pipeline_reference import PipelineReference


class Invalid:
    """A hidden tool for runtimes that need one for unknown names. Document 004, section 2.3.

    A pipeline answers unknown names itself and does not need it. No model is offered this tool, and no error suggests
    it. It suggests the tools of the pipeline that called it, so a view hears of its own tools alone. Like `Batch` it
    holds weakly the pipeline that it is attached to.

    Args:
        pipeline: The pipeline to attach. Default None: `attach` follows later.
        name: The name of the tool.
    """

    def __init__(self, pipeline: Pipeline | None = None, *, name: str = "invalid") -> None:
        self.name = name
        self._pipeline = PipelineReference(pipeline)

    def attach(self, pipeline: Pipeline) -> None:
        """As `Batch.attach`."""
        self._pipeline.set(pipeline)

    def tool(self) -> Tool[..., Any]:
        """The tool to register."""
        return Tool.from_schema(
            name=self.name,
            parameters={
                "type": "object",
                "properties": {
                    "requested_tool": {"type": "string", "description": "The tool that was asked for"},
                    "args": {"description": "The arguments that came with it"},
                },
                "required": ["requested_tool"],
            },
            handler=self.run,
            description="Answers a call of a tool that does not exist, with the names of similar ones.",
            effect="read",
            run_in="loop",  # where its caller is
            hidden=True,
            context=True,
            composite=True,  # its arguments are those of another tool
        )

    async def run(self, context: ToolContext, /, requested_tool: str, **_arguments: object) -> object:
        """The handler of the tool. The other arguments are never repeated.

        Args:
            context: It knows the pipeline that called the tool.
            requested_tool: The name that a model called.

        Returns:
            Always a failure: the UnknownTool that the pipeline itself would answer, or a refusal if there is such a
            tool.
        """
        caller = self._pipeline.get_caller(context, "invalid")
        if isinstance(caller, Failure):
            return caller
        answer = caller.resolve(Call(requested_tool)) or Failure(UnknownTool(requested_tool))
        if isinstance(answer, ResolvedCall):
            return Failure(
                ExecutionFailed("There is a tool of that name. Call it by its name, and not through this one.")
            )
        return answer

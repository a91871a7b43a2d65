"""Invalid: what the pipeline says of a tool that there is not, as a tool that something else may send such calls to."""

from __future__ import annotations

from typing import Any
from weakref import ref

from returns.result import Failure

from ..call import Call, ResolvedCall
from ..compose.pipeline import Pipeline
from ..errors import ExecutionFailed, UnknownTool
from ..tools.definition import Tool
from .batch_tool import reached


class Invalid:
    """Resolve answers unknown names itself: this is for runtimes that want a tool for them. Document 004, section 2.3.

    Hidden, so no model is offered it, nor told its name by an error. Its pipeline is held as `Batch` holds its own.
    """

    def __init__(self, pipeline: Pipeline | None = None, *, name: str = "invalid") -> None:
        self.name = name
        self._pipeline: ref[Pipeline] | None = None
        if pipeline is not None:
            self.attach(pipeline)

    def attach(self, pipeline: Pipeline) -> None:
        """From now on this is the pipeline whose tools are suggested."""
        self._pipeline = ref(pipeline)

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
            run_in="loop",  # here, where the pipeline is
            hidden=True,
        )

    async def run(self, /, requested_tool: str, **_arguments: object) -> object:
        """Always a failure: UnknownTool, as the pipeline itself words it. The arguments are never repeated."""
        pipeline = reached(self._pipeline, "invalid")
        if isinstance(pipeline, Failure):
            return pipeline
        found = pipeline.resolve(Call(requested_tool)) or Failure(UnknownTool(requested_tool))
        if isinstance(found, ResolvedCall):
            return Failure(
                ExecutionFailed("There is a tool of that name. Call it by its name, and not through this one.")
            )
        return found

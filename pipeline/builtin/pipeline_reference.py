"""PipelineReference: the pipeline for which a tool of ours was installed, and which pipeline its calls go through."""

from __future__ import annotations

from weakref import ref

from returns.result import Failure

from ..engine.caller import Caller
from ..engine.compose.pipeline import Pipeline
from ..engine.errors import NeedsSetup
from ..privacy import Public
from ..tools.context import ToolContext


class PipelineReference:
    """A weak reference: a strong one would make a cycle, and keep the pipeline alive as long as its registry."""

    def __init__(self, pipeline: Pipeline | None) -> None:
        self._pipeline = None if pipeline is None else ref(pipeline)

    def set(self, pipeline: Pipeline) -> None:
        """Refer to this pipeline from now on."""
        self._pipeline = ref(pipeline)

    def get_caller(self, context: ToolContext, service: Public) -> Caller | Failure[NeedsSetup]:
        """The pipeline that called the tool.

        It need not be the one that the tool refers to: a view has a pipeline of its own, and shares the tool. A tool
        that called through another pipeline than its caller would let a model out of its view.

        Args:
            context: The context of the tool's call.
            service: The tool, for the failure.

        Returns:
            The caller. A failure, if the tool refers to no pipeline or to one that is gone, or if none called it.
        """
        if self._pipeline is None or (caller := context.caller) is None:
            return Failure(NeedsSetup(service, "Registry not initialized"))
        if self._pipeline() is None:
            return Failure(NeedsSetup(service, "Registry no longer available"))
        return caller

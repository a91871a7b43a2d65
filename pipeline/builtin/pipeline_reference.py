"""PipelineReference: how a tool of ours holds the pipeline that holds the registry that holds the tool."""

from __future__ import annotations

from weakref import ref

from returns.result import Failure

from ..compose.pipeline import Pipeline
from ..errors import NeedsSetup
from ..privacy import Public


class PipelineReference:
    """A weak reference: a strong one would make a cycle, and keep the pipeline alive as long as its registry."""

    def __init__(self) -> None:
        self._pipeline: ref[Pipeline] | None = None

    def set(self, pipeline: Pipeline) -> None:
        """Refer to this pipeline from now on."""
        self._pipeline = ref(pipeline)

    def get(self, service: Public) -> Pipeline | Failure[NeedsSetup]:
        """The pipeline; a failure, with the texts of document 004 section 4.1, if there is none or it is gone.

        Args:
            service: The tool that needs it, for the failure.
        """
        if self._pipeline is None:
            return Failure(NeedsSetup(service, "Registry not initialized"))
        return self._pipeline() or Failure(NeedsSetup(service, "Registry no longer available"))

"""ServedEnd: a result in which a tool asks the client for input, ``InputRequiredResult``, is no success of the call."""

from __future__ import annotations

from typing import Any, Final

from returns.result import Failure, Success

from ..call import Outcome
from ..call_state import StateKey
from ..compose import Pipeline
from ..errors import NeedsUserInput
from ..privacy import approved
from ..tools import Tool
from .jsonrpc import Message
from .result_blocks import is_native

# For the end of a served pipeline: the list that gets the result of the tool.
ASKED: Final[StateKey[list[Message]]] = StateKey("toolcall-toolcall_pipeline.mcp-asked")
_UNSAID: Final = "The tool needs an answer of the user."


class ServedEnd:
    """The end of another pipeline, with this one difference.

    Args:
        pipeline: The other pipeline.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        end = pipeline.entries[-1]
        self._run = end.run
        self.placement = end.placement
        self.resources: Any = getattr(end.obj, "resources", ())
        self.check_tool: Any = getattr(end.obj, "check_tool", _take_any)

    async def __call__(self, call: Any) -> Outcome:
        """Run the body. One that asks has ended, as ``needs_input``; the request with the answer begins it again."""
        outcome: Outcome = await self._run(call)
        if type(outcome) is not Success or not is_native(value := outcome.unwrap(), "InputRequiredResult"):
            return outcome
        result: Any = value
        call.get_state(ASKED, []).append(result.model_dump(mode="json", by_alias=True, exclude_none=True))
        return Failure(NeedsUserInput(approved(_read_question(result))))


def _take_any(_tool: Tool[..., Any]) -> None:
    """Take any tool, as an end does that has no ``check_tool``."""


def serve_end(pipeline: Pipeline) -> Pipeline:
    """The pipeline with a `ServedEnd`. Its stages are the same objects, so it is open when the other one is."""
    return pipeline.replace(pipeline.stages[-1], ServedEnd(pipeline))


def _read_question(result: Any) -> str:
    """The first question to a person in a result that asks."""
    asked: Any = result.input_requests or {}
    texts = (getattr(each.params, "message", None) for each in asked.values())
    return next((text for text in texts if isinstance(text, str)), _UNSAID)

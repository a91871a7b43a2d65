"""export_tools: the tools of a registry as plain callables, for a framework that has no adapter here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs
from pydantic import BaseModel, ConfigDict
from returns.result import Failure

from ..adapters.common import says_error
from ..engine.call import Call, Outcome, is_failure
from ..engine.compose import Pipeline
from ..engine.errors import MalformedCall, ToolError
from ..messages import File, Image, render
from ..messages.rendering import ToolCallError
from ..privacy import PublicText
from ..tools import ToolView
from .framework import list_media, list_offered

_TYPES = ("string", "boolean", "integer", "number", "array", "object", "null")


class FailedCallError(ToolCallError):
    """A failed call, as the exception by which some frameworks take a failure. Its text is the text for the model.

    Args:
        error: The error of the failure; also an attribute.
        text: The text for the model, in the wording of the pipeline.
    """

    def __init__(self, error: ToolError, text: str) -> None:
        super().__init__(error)
        self._text = text

    def __str__(self) -> str:
        return self._text


@attrs.frozen
class Answer:
    """The answer to one call.

    Attributes:
        text: The text for the model.
        is_error: Whether the call failed, or returned a value that says so.
        outcome: The outcome.
    """

    text: str
    is_error: bool
    outcome: Outcome[Any] = attrs.field(repr=False)

    @property
    def parts(self) -> list[str | Image | File]:
        """The texts, images and PDF files of the answer, in order."""
        return list_media(self.outcome) or [self.text]

    def as_mcp(self) -> dict[str, Any]:
        """Return ``{"content", "is_error"}`` with the blocks of MCP: texts and images; another part is a text."""
        blocks = [
            {"type": "image", "data": part.base64, "mimeType": part.media_type}
            if isinstance(part, Image)
            else {"type": "text", "text": part if isinstance(part, str) else f"({part.media_type})"}
            for part in self.parts
        ]
        return {"content": blocks, "is_error": self.is_error}


@attrs.frozen
class ExportedTool:
    """A tool as a callable: ``tool(…)`` and ``await tool.acall(…)`` take its parameters and return text for the model.

    Parameters are given by position or by name. A call that the pipeline refuses, and one that fails, return a text as
    well, or raise `FailedCallError`, as ``raises`` says.

    Attributes:
        name: The name, in a form that providers accept.
        description: The description that a model reads; "" for none.
        parameters: The JSON Schema of the arguments.
        raises: Whether a failure is raised.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    raises: bool
    _own: str
    _pipeline: Pipeline

    @property
    def __name__(self) -> str:
        """The name, for a framework that takes a function."""
        return self.name

    @property
    def inputs(self) -> dict[str, dict[str, Any]]:
        """``{"type", "description", "nullable"}`` of each parameter; ``type`` is of JSON Schema, or "any"."""
        required = self.parameters.get("required", ())
        return {
            name: {
                "type": each["type"] if each.get("type") in _TYPES else "any",
                "description": each.get("description", name),
                "nullable": name not in required,
            }
            for name, each in self.parameters.get("properties", {}).items()
        }

    @property
    def model(self) -> type[BaseModel]:
        """A class of pydantic whose schema is ``parameters``, for a framework that wants one. It takes any object."""
        parameters = dict(self.parameters)

        class Arguments(BaseModel):
            model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")

            @classmethod
            def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:  # noqa: ARG003
                return parameters

        Arguments.__name__ = self.name
        return Arguments

    async def run(self, arguments: object, *, id: str = "", **caller: Any) -> Answer:  # noqa: A002
        """Run a call.

        Args:
            arguments: As the model wrote them: a mapping, JSON text, or None.
            id: The provider's id of the call. Default: none.
            caller: ``principal=``, ``conversation=``, ``deps=`` of the `Call`.
        """
        call = Call(self._own, arguments, id, **caller)
        return self._answer(call, await self._pipeline(call))

    def run_sync(self, arguments: Mapping[str, object] | str | None, *, id: str = "", **caller: Any) -> Answer:  # noqa: A002
        """As `run`, for a caller without an event loop, or beside its loop."""
        call = Call(self._own, arguments, id, **caller)
        return self._answer(call, self._pipeline.call_sync(self._own, arguments, id=id, **caller))

    def __call__(self, /, *args: object, **named: object) -> str:
        """Run a call whose arguments are given as those of a function."""
        arguments = self._bind(args, named)
        return self._tell(arguments if isinstance(arguments, Answer) else self.run_sync(arguments))

    async def acall(self, /, *args: object, **named: object) -> str:
        """As ``tool(…)``, in the event loop."""
        arguments = self._bind(args, named)
        return self._tell(arguments if isinstance(arguments, Answer) else await self.run(arguments))

    def _bind(self, args: tuple[object, ...], named: dict[str, object]) -> dict[str, object] | Answer:
        names = list(self.parameters.get("properties", ()))
        placed = dict(zip(names, args, strict=False))
        if len(args) <= len(names) and placed.keys().isdisjoint(named):
            return placed | named
        reason = f"{len(args)} arguments by position and {len(named)} by name, for {len(names)} parameters"
        return self._answer(Call(self._own), Failure(MalformedCall(PublicText(reason))))

    def _answer(self, call: Call, outcome: Outcome[Any]) -> Answer:
        return Answer(render(outcome, call=call, wording=self._pipeline.wording), says_error(outcome), outcome)

    def _tell(self, answer: Answer) -> str:
        if self.raises and is_failure(answer.outcome):
            raise FailedCallError(answer.outcome.failure(), answer.text)
        return answer.text


def export_tools(registry: ToolView, pipeline: Pipeline, *, raises: bool = False) -> list[ExportedTool]:
    """The tools that may be called now, as callables with a name, a description and a JSON Schema.

    Args:
        registry: The tools.
        pipeline: Runs their calls.
        raises: Whether ``tool(…)`` and ``tool.acall(…)`` raise `FailedCallError` for a failure, for a framework that
            records a failure by its exception. Default False: they return its text.
    """
    return [
        ExportedTool(each["name"], each.get("description", ""), each["parameters"], raises, own, pipeline)
        for each, own in list_offered(registry)
    ]

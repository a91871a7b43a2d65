"""What all adapters share: reading dicts and SDK objects alike, definitions that providers take, values as parts."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterable, Awaitable, Iterable, Mapping
from typing import Any, cast

import attrs
from returns.result import Failure, Success

from ..call import Call, Outcome
from ..errors import SetupError
from ..messages import render
from ..tools.registry import ToolRegistry
from .provider_names import own_names, sent_names

CUT_OFF = "length"  # the finish reason that Validate refuses


def field(thing: object, name: str) -> Any:
    """A key of a mapping or an attribute of an object; None where there is none."""
    if isinstance(thing, Mapping):
        return cast("Mapping[str, Any]", thing).get(name)
    return getattr(thing, name, None)


def items(thing: object) -> Iterable[Any]:
    """The items of a list; none of None; what stands where a list should is the only item."""
    if isinstance(thing, (list, tuple)):
        return cast("Iterable[Any]", thing)
    return () if thing is None else (thing,)


def text(value: object) -> str:
    """A text as it is, and empty text for all else."""
    return value if isinstance(value, str) else ""


def streamed(reply: object) -> Iterable[Any]:
    """The events of a stream; none of anything else. Raises SetupError for what has to be awaited first."""
    if isinstance(reply, (Awaitable, AsyncIterable)):
        raise SetupError("await the reply first, and collect an async stream: [event async for event in stream]")
    return cast("Iterable[Any]", reply) if isinstance(reply, Iterable) else ()


def number(value: object) -> int | None:
    """An integer as it is, None for all else."""
    return value if type(value) is int else None


@attrs.define
class Asked:
    """A call on its way in, put together of what a stream brings."""

    index: int | None = None
    id: str = ""
    name: str = ""
    pieces: list[str] = attrs.field(factory=list[str])
    whole: object = None  # the arguments, where they came at once
    done: bool = False

    @property
    def arguments(self) -> object:
        """As they came; the pieces as one text, byte for byte."""
        return "".join(self.pieces) if self.whole is None else self.whole

    def call(self, finish_reason: str | None, *, ended: bool) -> Call:
        """The call. If the stream broke off before it was done, nothing is no arguments: it was cut off.

        A text that was begun needs no such care: a JSON object says itself where it ends.
        """
        arguments = self.arguments
        lost = not (ended or self.done) and isinstance(arguments, str) and not arguments.strip()
        return Call(self.name, arguments, self.id, finish_reason=CUT_OFF if lost else finish_reason)


def named(calls: list[Call], registry: ToolRegistry | None, longest: int) -> list[Call]:
    """The calls, with the tools' own names in place of those that were made for the provider."""
    own = {} if registry is None or not calls else own_names(registry, longest)
    return [attrs.evolve(call, name=own[call.name]) if call.name in own else call for call in calls]


def definitions(registry: ToolRegistry, longest: int, schema: str) -> list[dict[str, Any]]:
    """Name, description and, under the key ``schema``, the parameters of each tool that is open, as providers take it.

    They refuse a schema without ``"type": "object"`` or without ``properties``, both of which say nothing new of
    arguments, and an empty description is left out.
    """
    sent = sent_names(registry, longest)
    offered: list[dict[str, Any]] = []
    for each in registry.definitions():
        about = {"description": each["description"]} if (each["description"] or "").strip() else {}
        parameters = {**each["parameters"], "type": "object"}
        parameters.setdefault("properties", {})
        offered.append({"name": sent[each["name"]], **about, schema: parameters})
    return offered


@attrs.frozen
class Image:
    """An image among what a tool returned."""

    media_type: str
    data: bytes = attrs.field(repr=False)

    @property
    def base64(self) -> str:
        """As all providers want it."""
        return b64encode(self.data).decode()

    def __str__(self) -> str:
        return f"(an image, {self.media_type}, {len(self.data)} bytes)"


def parts(outcome: Outcome[Any]) -> list[str | Image]:
    """What a model is told, in order: texts, none of them blank, and images; at least one.

    Bytes are an image by their first bytes; those that are neither that nor text are counted. A list or tuple that
    holds bytes is a part for each item, any other value is one text, as `tell` has it.
    """
    if type(outcome) is Failure:
        return [render(outcome)]
    value: object = cast("Any", outcome).unwrap()
    if type(value) in (list, tuple):
        each = cast("list[object]", value)
        if any(isinstance(item, (bytes, bytearray)) for item in each):
            return [_part(item) for item in each]
    return [_part(value)]


def joined(said: list[str | Image]) -> str:
    """The parts as one text, for where only text goes: an image is mentioned."""
    return "\n".join(map(str, said))


def _part(value: object) -> str | Image:
    if isinstance(value, (bytes, bytearray)):
        data = bytes(value)
        if media_type := _media_type(data):
            return Image(media_type, data)
        if not _is_text(data):
            return f"({len(data)} bytes of binary data)"
        value = data.decode()
    said = render(Success(value))
    return said if said.strip() else render(Success(None))  # providers refuse blank texts too


def _media_type(data: bytes) -> str | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def _is_text(data: bytes) -> bool:
    try:
        return b"\0" not in data and bool(data.decode() or True)
    except UnicodeDecodeError:
        return False

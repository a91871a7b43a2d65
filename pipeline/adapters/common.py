"""Shared by all adapters: reading dicts and SDK objects alike, definitions that providers accept, values as parts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Awaitable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import attrs
from returns.result import Failure, Success
from typing_extensions import TypeIs

from ..base.nesting import refuse_deep
from ..base.options import check_type, refuse
from ..base.provider_names import OfferedName, accepts_all, make_provider_name
from ..base.setup_error import SetupError
from ..engine.call import Call, Outcome
from ..engine.call_state import WIRE
from ..engine.errors import OutcomeUnknown, UnknownTool
from ..messages import Wording, render
from ..messages.parts import Part
from ..messages.rendering import render_data, render_failure
from ..messages.result_parts import find_parts, read_mcp
from ..messages.values import NOTHING, SCALARS
from ..tools.view import ToolView

if TYPE_CHECKING:
    from ..engine.compose import Pipeline

# Under these names type checkers do not narrow to `dict[Unknown, Unknown]`, and to lists of unknown things.
_DICT: Any = dict
_LISTS: Any = (list, tuple)
CUT_OFF = "length"  # the finish reason that Validate refuses
CUT_OFF_BY_LENGTH = ("max_tokens", "model_context_window_exceeded")  # how Anthropic and Bedrock say so
_AWAITED = (Awaitable, AsyncIterable)


def get_field(thing: Any, name: str) -> Any:
    """A key of a mapping or an attribute of an object; None if there is none."""
    if type(thing) is _DICT:  # most replies; `Mapping` takes longer to ask than all the rest
        return thing.get(name)
    return cast("Mapping[str, Any]", thing).get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def find_field(thing: object, *names: str) -> Any:
    """The first of several fields that there is: an SDK and the API beneath it spell them in two ways."""
    for name in names:
        if (value := get_field(thing, name)) is not None:
            return value
    return None


def read_wire(thing: object, *names: str) -> dict[str, Any]:
    """The fields that a provider wants back with the answer of a call, as plain data; those that there are."""
    found = {name: get_field(thing, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def to_plain(reply: Any) -> Any:
    """A reply, or an event of a stream, as plain data if it is an object of an SDK; anything else as it is.

    Each adapter does this once, first of all: what it reads then is what it can send back. Fields without a value are
    left out, and so is all of the reply so far, which helpers of SDKs add to each event.
    """
    dump = None if is_dict(reply) else getattr(reply, "model_dump", None)
    return reply if dump is None else dump(by_alias=True, exclude_none=True, exclude={"snapshot"}, warnings=False)


def with_wire(call: Call, wire: Mapping[str, Any]) -> Call:
    """The call with what `Call.wire` gives back."""
    return call.with_state(WIRE, wire) if wire else call


def list_items(thing: Any) -> Sequence[Any]:
    """The items of a list; none for None; anything else, where a list should be, is the only item."""
    items: Sequence[Any] = thing if isinstance(thing, _LISTS) else () if thing is None else (thing,)
    return items


def text_or_empty(value: object) -> str:
    """A text as it is, and "" for anything else."""
    return value if isinstance(value, str) else ""


def join_surrogates(text: str, errors: str = "surrogatepass") -> str:
    """A text in which each pair of surrogates is one character; what is left of half a pair is by ``errors``."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", errors)


def is_dict(value: object) -> TypeIs[dict[str, Any]]:
    """Whether it is plain data with names, as JSON has it."""
    return type(value) is dict


def dict_or_empty(value: object) -> dict[str, Any]:
    """A dict as it is, and an empty one for anything else."""
    return value if is_dict(value) else {}


def join_texts(content: object, kind: str) -> str:
    """The text of a message's content: a text, or a list of blocks, where blocks of this kind have a ``text``."""
    if isinstance(content, str):
        return content
    return "".join(
        text_or_empty(get_field(each, "text")) for each in list_items(content) if get_field(each, "type") == kind
    )


def int_or_none(value: object) -> int | None:
    """An integer as it is, and None for anything else."""
    return value if type(value) is int else None


def read_events(reply: object) -> Iterable[Any]:
    """The events of a stream as plain data, none for anything else; SetupError for what has to be awaited first."""
    if isinstance(reply, _AWAITED):
        raise SetupError("await the reply first, and collect an async stream: [event async for event in stream]")
    return map(to_plain, cast("Iterable[Any]", reply)) if is_stream(reply) else ()


def is_stream(thing: object) -> bool:
    """Whether this can be the events of a stream, also one that has to be awaited first."""
    return isinstance(thing, (Iterable, *_AWAITED)) and not isinstance(thing, (str, bytes, Mapping))


@attrs.define
class PartialCall:
    """A call that is being put together from the pieces of a stream."""

    index: int | None = None
    id: str = ""
    name: str = ""
    pieces: list[str] = attrs.field(factory=list[str])  # of the arguments as text
    whole: object = None  # the arguments, if they came at once
    done: bool = False
    has_head: bool = False  # a name came together with arguments, if only with ""
    named_again: bool = False  # the last piece had a name, though arguments had come before
    wire: dict[str, Any] = attrs.field(factory=dict[str, Any])  # see `Call.wire`
    extra: dict[str, Any] = attrs.field(factory=dict[str, Any])  # further fields that came with the call

    @property
    def has_arguments(self) -> bool:
        """Whether any part of the arguments has come."""
        return bool(self.pieces) or self.whole is not None

    @property
    def is_complete(self) -> bool:
        """Whether the arguments are a whole JSON object, to which nothing can be added."""
        if self.whole is not None:
            return True
        text = "".join(self.pieces).strip()
        if not text.endswith("}"):
            return False
        try:
            return isinstance(json.loads(refuse_deep(text)), dict)
        except ValueError:
            return False

    @property
    def arguments(self) -> object:
        """The arguments as they came; pieces are joined byte for byte."""
        return "".join(self.pieces) if self.whole is None else self.whole

    def to_call(self, finish_reason: str | None, *, ended: bool) -> Call:
        """The call as far as it came.

        A stream that broke off before the first piece of the arguments did not mean a call without arguments: such a
        call is marked as cut off. Text that was begun needs no mark, since a JSON object shows where it ends.
        """
        arguments = self.arguments
        lost = not (ended or self.done) and isinstance(arguments, str) and not arguments.strip()
        call = Call(self.name, arguments, self.id, finish_reason=CUT_OFF if lost else finish_reason)
        return with_wire(call, self.wire)


def read_source(where: str, source: Pipeline | ToolView | None) -> tuple[ToolView | None, Wording | None]:
    """The registry of a pipeline or itself, and the wording; a SetupError that says ``where`` for anything else."""
    if source is None or isinstance(source, ToolView):
        return source, None
    registries: Any = getattr(source, "registries", None)
    if not isinstance(registries, tuple):
        refuse(where, "registry", "a Pipeline or ToolRegistry or None", source)
    return next(iter(cast("tuple[ToolView, ...]", registries)), None), source.wording


def restore_names(calls: list[Call], registry: ToolView | None, longest: int | None = None) -> list[Call]:
    """The calls with the tools' own names in place of those that were made for a provider.

    Such a name, and one that no tool has, is marked with the provider's limit, see `OfferedName`: texts about the call
    name tools as the provider was sent them.

    Args:
        calls: Calls as a provider sent them, not shared yet: their names are replaced in place.
        registry: The registry whose definitions the provider was sent. None: the calls stay as they are.
        longest: Characters of a name at the provider. Default None: not known, and no name is marked.
    """
    return calls if registry is None else [_restore_name(call, registry, longest) for call in calls]


def _restore_name(call: Call, registry: ToolView, longest: int | None) -> Call:
    if call.name in registry:
        return call
    tool = registry.find_by_provider_name(call.name)
    name = call.name if tool is None else tool.name
    cast("Any", call).name = name if longest is None else OfferedName(name, longest)
    return call


def with_sent_names(outcome: Outcome[Any], longest: int) -> Outcome[Any]:
    """The outcome with the names of tools as a provider was sent them, for a call that came without its registry."""
    if type(outcome) is not Failure:
        return outcome
    error = outcome.failure()
    if isinstance(error, UnknownTool):
        suggestions, available = error.suggestions, error.available
        if accepts_all(longest, suggestions, available):  # as with most
            return outcome
        suggestions, available = _as_sent(suggestions, longest), _as_sent(available, longest)
        return Failure(error.changed(suggestions=suggestions, available=available))
    if isinstance(error, OutcomeUnknown) and isinstance(error.verify_with, str):
        name = make_provider_name(error.verify_with, longest)
        return Failure(error.changed(verify_with=name))
    return outcome


def _as_sent(names: object, longest: int) -> Any:
    """The names as they were sent. An attribute of an error that does not hold a tuple of names stays as it is."""
    items = cast("tuple[Any, ...]", names) if type(names) is tuple else ()
    if not items or not all(isinstance(item, str) for item in items):
        return cast("Any", names)
    return tuple(make_provider_name(item, longest) for item in items)


def build_definitions(registry: ToolView, longest: int, parameters_key: str) -> list[dict[str, Any]]:
    """Name, description and parameters of each tool that is open now, as providers accept them.

    Providers refuse a schema without ``"type": "object"`` or without ``properties``; both are added, and neither
    changes which arguments are valid. An empty description is left out.
    """
    check_type("tools", "registry", registry, ToolView, name="ToolRegistry")
    offered = registry.definitions()
    names = registry.provider_names(longest)
    definitions: list[dict[str, Any]] = []
    for each in offered:
        if each["name"] not in names:  # another thread has unregistered it meanwhile
            continue
        description = {"description": each["description"]} if (each["description"] or "").strip() else {}
        parameters = {**each["parameters"], "type": "object"}
        parameters.setdefault("properties", {})
        definitions.append({"name": names[each["name"]], **description, parameters_key: parameters})
    return definitions


def to_parts(outcome: Outcome[Any], call: Call | None = None, wording: Wording | None = None) -> list[Part]:
    """The text for the model: at least one part, in order; each a text that is not blank, or a part that is not text.

    Bytes are an image, a sound or a PDF file by their first bytes, else text if they are UTF-8, else only counted. The
    content of an MCP result is its parts, and of a list or tuple that holds a part or bytes each item is one. Any other
    value is one text, made by `pipeline.render`.

    Args:
        outcome: The outcome of the call.
        call: The call, which may know its wording. Default None: it is not known.
        wording: Another wording. Default None: the call's, else the error's, else the default.

    Raises:
        SetupError: ``outcome`` is not an Outcome, such as a call that was not awaited.
    """
    given: object = outcome
    if type(given) is not Success and type(given) is not Failure:
        what = f"not a {type(given).__name__}"
        raise SetupError(f"a call is answered with its outcome, {what}: message(call, await pipeline(call))")
    if call is not None and wording is None:
        wording = call.wording
    if type(outcome) is Failure:
        error = outcome.failure()
        if wording is None and error.wording is None:
            return [render_failure(error)]
        return [render(outcome, call=call, wording=wording)]
    value: object = cast("Any", outcome).unwrap()
    parts = None if type(value) in SCALARS else find_parts(value, with_bytes=True)
    if parts is None:
        text = render_data(value) if wording is None else render(outcome, wording=wording)
        return [text if text.strip() else NOTHING]  # providers refuse a blank text
    shown: list[Part] = [render(Success(part)) if isinstance(part, str) else part for part in parts]
    filled = [part for part in shown if not isinstance(part, str) or part.strip()]
    return filled or [NOTHING]


def check_pairs(answered: Iterable[tuple[Call, Outcome[Any]]]) -> list[tuple[Call, Outcome[Any]]]:
    """The pairs of calls and outcomes that ``messages`` of an adapter is given; SetupError for anything else."""
    pairs = list(answered)
    for pair in pairs:
        if not isinstance(cast("object", pair), tuple):
            raise SetupError(f"messages() takes pairs of a call and its outcome, not a {type(pair).__name__}")
    return pairs


def says_error(outcome: Outcome[Any]) -> bool:
    """Whether the model reads about an error: every failure, and an MCP result that says that it is one."""
    if type(outcome) is Failure:
        return True
    result = read_mcp(cast("Any", outcome).unwrap())
    return result is not None and result.is_error

"""Shapes a result or an error for the model: bounded, never empty, and without invisible characters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import attrs

from ..engine.error_kind import evolve
from ..engine.errors import ToolError, Unavailable
from ..privacy import PublicText
from ..privacy import neutralise as escape
from .parts import PARTS, Part, join_parts
from .result_parts import find_parts
from .shortening import elide, shorten_data, shorten_parts, shorten_result
from .values import NOTHING, as_text, read_dump, to_data

NO_RESULTS = "(no results)"
_PER_TOKEN = 4  # ASCII characters, as for the verbosities
_TEXTS = frozenset(("message", "question", "reason", "suggestion", "expected", "constraint"))  # fields of errors
T = TypeVar("T")


class Shaped(NamedTuple):
    """A tool's result as a model should read it."""

    value: Any  # the same object if nothing had to change
    before: int  # characters of its text as the tool returned it
    after: int  # characters of its text now
    whole: str = ""  # its text as the tool returned it


def shape_value(  # noqa: C901  # text, parts and data, one after the other
    value: object,
    max_characters: int | None,
    max_tokens: int | None,
    way: Callable[[], str],
    *,
    empty: str | None,
    neutralise: bool,
) -> Shaped:
    """Bound a tool's result. The value is written as text once: a large one takes its time.

    Args:
        value: The tool's result.
        max_characters: Limit of its text. None: no limit.
        max_tokens: Limit of its text, estimated. None: no limit.
        way: Returns a sentence on how the model gets the rest; called only if something is left out. "": no sentence.
        empty: The text for an empty value. None: one of two fixed ones.
        neutralise: Whether to escape invisible characters.
    """
    parts = None if value is None or isinstance(value, str) else find_parts(value, with_bytes=True)
    data: Any = None
    if value is None or isinstance(value, str):
        value = escape(value, keep_lines=True) if neutralise and value is not None else value
        text = value or NOTHING
    elif parts is not None:
        if neutralise and (escaped := _escape_parts(parts)) != parts:
            value = parts = escaped
        text = join_parts(parts)
    else:
        data, dumped = to_data(value)
        if neutralise and escape(dumped, keep_lines=True) != dumped:
            value = data = _neutralise_data(data)
            dumped = to_data(data)[1]
        text = read_dump(value, dumped)
    before = len(text)
    if text == NOTHING or not text.strip():
        shown = empty or NOTHING
        return Shaped(shown, before, len(shown))
    if text in ("[]", "{}"):
        shown = empty or NO_RESULTS
        return Shaped(shown, before, len(shown))
    shaped, sentence, whole = value, None, text
    while (room := _room(text, max_characters, max_tokens)) is not None:
        sentence = way() if sentence is None else sentence
        if isinstance(value, str):
            shaped = shorten_result(value, room, sentence)
        elif parts is not None:
            shaped = shorten_parts(parts, room, sentence, value)
        else:
            shaped = shorten_data(data, room, sentence)
        longer, text = text, as_text(shaped)
        if len(text) >= len(longer):  # as short as it gets
            break
        max_characters = room if max_tokens is None else room * 9 // 10  # the head may be in another script
    return Shaped(shaped, before, len(text), whole)


def shape_error(error: ToolError, max_characters: int | None, max_tokens: int | None, *, neutralise: bool) -> ToolError:
    """Return an error whose texts are bounded in the same way: the same object if nothing has to change."""

    def shape(text: str) -> str:
        text = escape(text, keep_lines=True) if neutralise else text
        room = _room(text, max_characters, max_tokens)
        return text if room is None else elide(text, room)

    return error if isinstance(error, Unavailable) else map_texts(error, shape)


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: a quarter for each ASCII character, and one for any other."""
    ascii_characters = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return -(-ascii_characters // _PER_TOKEN) + len(text) - ascii_characters


def _room(text: str, max_characters: int | None, max_tokens: int | None) -> int | None:
    """Return how many characters of a text may stay; None: all of them."""
    room = len(text) if max_characters is None else max_characters
    if max_tokens is not None and (tokens := estimate_tokens(text)) > max_tokens:
        room = min(room, len(text) * max_tokens // tokens)
    return room if room < len(text) else None


def _escape_parts(parts: list[Part]) -> list[Part]:
    return [escape(part, keep_lines=True) if isinstance(part, str) else map_texts(part, escape) for part in parts]


def _neutralise_data(data: Any) -> Any:
    if isinstance(data, str):
        return escape(data, keep_lines=True)
    if isinstance(data, list):
        return [_neutralise_data(item) for item in cast("list[Any]", data)]
    if isinstance(data, dict):
        return {escape(key): _neutralise_data(item) for key, item in cast("dict[str, Any]", data).items()}
    return data


def map_texts(thing: T, change: Callable[[str], str]) -> T:
    """Return a copy of an error or a part with its texts changed; the same object if none is."""
    changed: dict[str, Any] = {}
    for field in attrs.fields(cast("Any", type(thing))):
        before: Any = getattr(thing, field.name)
        after: Any = before
        if isinstance(before, str) and (field.name in _TEXTS or isinstance(thing, PARTS)):
            after = before if (text := change(before)) == before else PublicText(text)
        elif attrs.has(cast("type[Any]", type(before))):
            after = map_texts(before, change)
        elif isinstance(before, tuple):
            each = cast("tuple[Any, ...]", before)
            mapped = tuple(map_texts(item, change) if attrs.has(cast("Any", type(item))) else item for item in each)
            after = each if all(one is other for one, other in zip(mapped, each, strict=True)) else mapped
        if after is not before:
            changed[field.name] = after
    return evolve(thing, changed)

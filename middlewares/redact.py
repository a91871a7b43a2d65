"""Redact: takes out of results, and of arguments if asked, what a model or a tool must not see."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable
from typing import Any, ClassVar, TypeVar, cast

import attrs
from returns.result import Failure, Success

from ..base.foreign_values import FaultBarrier
from ..base.options import is_function, is_type, read_items, refuse
from ..engine.call import Outcome, ValidCall
from ..engine.compose import Handler, Placement
from ..engine.errors import NO_DETAILS, Denied, ToolError
from ..messages.parts import PARTS
from ..messages.result_parts import find_parts
from ..messages.shaping import map_texts
from ..messages.values import to_data
from ..parameters import CannotSay
from ..parameters.exact_json import Written
from ..parameters.reading import read_literal
from ..policies.facts import make_plain_arguments
from ..privacy import REDACTED, approved, get_logger
from ..privacy.linear_pattern import LinearPattern, merge_spans

V = TypeVar("V", bound=ValidCall)
Detect = Callable[[str], Iterable[tuple[int, int]]]
_MAX_TEXT = 1_000_000  # characters; a longer text is withheld as a whole
_NO_DATA = (*PARTS, bytes, bytearray)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|[bfnrt])")
_AROUND = " \t\r\n\"'`"  # between a name and its colon, also in JSON that is a text of JSON
_UNREADABLE = approved("The arguments have no JSON form, so it cannot be known what they hold.")
_DETECTS = FaultBarrier(get_logger(), "Redact: the detector failed, so the text is withheld")


@attrs.frozen(eq=False)
class Redact:
    r"""A middleware that puts ``[redacted]`` in the place of what it is told to take out.

    It looks at results, at the texts of failures and, with ``arguments=True``, at what a tool is given: at each text
    and number, also in JSON that is a text. A result in which it finds nothing stays as it is, the same object. One
    that is changed is text or plain data afterwards. What reports and traces record is the matter of
    ``standard(redact=…)``.

    Args:
        fields: Names of fields whose values are taken out, such as ``iban``, or their last steps, ``customer.iban``.
            Large and small letters, ``_`` and ``-`` make no difference. A text that has such a name before a colon, and
            is not JSON in which each name stands once, such as one that was cut off, is withheld. Default: none.
        patterns: Regular expressions, such as ``r"\b\d{16}\b"``. Each part of a text that some match covers is taken
            out. They run on the event loop, in 0.1 to 0.3 ms for 1,000 characters, however many there are. A text of
            10,000 different characters, and any that takes as much work, is withheld. Default: none.
        detect: Called with each text. It returns from where to where something has to go. If it raises, or returns
            something else, the text is withheld, and that is logged. Default None: none.
        arguments: Whether a tool is given its arguments without these things, too. Arguments that do not fit the tool
            without them, and such as have no JSON form, are refused. Default False.

    Raises:
        SetupError: Nothing is to be taken out; or a pattern is none, or does not run in linear time.
    """

    placement: ClassVar[Placement] = Placement(
        kind="redact",
        reason="right after validate: what stands inside sees the arguments without, and it sees what that answers",
        runs_body=False,
        inside_of={"shape": "a text that is cut, or kept to be read in pieces, shows parts of what is to be taken out"},
        decides=("permission", "validation"),
    )

    fields: Collection[str] = ()
    patterns: Collection[str] = ()
    detect: Detect | None = attrs.field(default=None, validator=is_function(optional=True), kw_only=True)
    arguments: bool = attrs.field(default=False, validator=is_type(bool), kw_only=True)
    _names: frozenset[tuple[str, ...]] = attrs.field(init=False, repr=False)
    _pattern: LinearPattern | None = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        for option in ("fields", "patterns"):
            given = read_items("Redact", option, getattr(self, option), "texts")
            for each in given:
                if not isinstance(each, str) or not each:
                    refuse("Redact", option, "texts", each)
            object.__setattr__(self, option, tuple(given))  # the class is frozen, and an iterator gives them once
        if not self.fields and not self.patterns and self.detect is None:
            refuse("Redact", "fields", "given, or `patterns` or `detect`", self.fields)
        names = frozenset(tuple(map(_fold, each.split("."))) for each in self.fields)
        object.__setattr__(self, "_names", names)
        object.__setattr__(self, "_pattern", LinearPattern(*self.patterns) if self.patterns else None)

    async def __call__(self, call: V, call_next: Handler[V]) -> Outcome:
        """The inside's outcome without these things; or InvalidParams where the arguments do not fit without them."""
        taken = _Taking(self._names, self._pattern, self.detect)
        if self.arguments:
            try:
                plain = taken.from_data(make_plain_arguments(call), ())
            except CannotSay:
                return Failure(Denied("redact", _UNREADABLE))
            if taken.count:
                params: Any = call.tool.parse(plain)
                if type(params) is not dict:
                    return Failure(params)
                call = attrs.evolve(call, arguments=plain, params=cast("dict[str, Any]", params))
        outcome = await call_next(call)
        if type(outcome) is Failure:
            error: ToolError = outcome.failure()
            changed: Any = taken.from_error(error)
            outcome = outcome if changed is error else Failure(changed)
        else:
            value: object = outcome.unwrap()
            changed = taken.from_value(value)
            outcome = outcome if changed is value else Success(changed)
        if taken.count and call.report is not None:
            call.report.note(self, f"redacted: {taken.count}")
        return outcome


@attrs.define
class _Taking:
    """The things that are taken out of one call."""

    names: frozenset[tuple[str, ...]]  # the last steps of the fields
    pattern: LinearPattern | None  # all, as one
    detect: Detect | None
    count: int = 0  # how often something was taken out

    def from_value(self, value: object) -> object:
        """A result without these things; the same object if it has none."""
        if value is None or type(value) is bool:
            return value
        if isinstance(value, str):
            return self.from_text(value)
        before = self.count
        items: list[Any] = cast("Any", list)(value) if type(value) in (list, tuple) else [value]
        if any(isinstance(each, _NO_DATA) for each in items):
            parts = find_parts(value, with_bytes=True) or []
            shown = [
                self.from_text(each) if isinstance(each, str) else map_texts(each, self.from_text) for each in parts
            ]
            return shown if self.count > before else value
        found = self.from_data(to_data(value)[0], ())
        return found if self.count > before else value

    def from_error(self, error: Any) -> Any:
        """An error without these things in what the model is told; the same object if it has none."""
        details: Any = getattr(error, "details", NO_DETAILS)
        before, facts = self.count, (dict(details.more), details.value)
        if facts != ({}, None):
            more, value = (self.from_data(to_data(each)[0], ()) for each in facts)
            if self.count > before:
                error = error.changed(details=attrs.evolve(details, more=more, value=value))
        return map_texts(error, self.from_text)

    def from_data(self, data: Any, path: tuple[str, ...]) -> Any:
        """JSON data without these things."""
        if isinstance(data, str):
            return self.from_text(data, path)
        if isinstance(data, list):
            return [self.from_data(each, path) for each in cast("list[Any]", data)]
        if isinstance(data, dict):
            fields = cast("dict[str, Any]", data).items()
            return {self.from_text(name): self._field(each, (*path, _fold(name))) for name, each in fields}
        if data is None or isinstance(data, bool) or not self._find(str(data)):
            return data
        return self._mark()

    def _field(self, value: Any, path: tuple[str, ...]) -> Any:
        is_named = any(path[-len(each) :] == each for each in self.names)
        return self._mark() if is_named and value is not None else self.from_data(value, path)

    def from_text(self, text: str, path: tuple[str, ...] = ()) -> str:
        """A text without these things. One that is JSON stays JSON; one that only looks like it may be withheld."""
        if len(text) > _MAX_TEXT:
            return self._mark()
        before = self.count
        held = read_literal(text) if text.lstrip()[:1] in ("{", "[") else None
        if isinstance(held, (dict, list)):
            data = self.from_data(held, path)
            if self.count > before:
                return json.dumps(data, ensure_ascii=False)
        if self._names_field(text) and (held is None or read_literal(text, Written()) is None):
            return self._mark()  # nearly JSON, or with a name twice: another reader may find the field in it
        found = self._find(text)
        if not found:
            return text
        shown: list[str] = []
        end = 0
        for low, high in found:
            shown += [text[end:low], self._mark()]
            end = high
        return "".join([*shown, text[end:]])

    def _names_field(self, text: str) -> bool:
        """Whether a name of a field stands before a colon, whatever quotes, blanks and escapes are around it."""
        if not self.names or ":" not in text:
            return False
        last = {each[-1] for each in self.names}
        longest = max(map(len, last))
        for part in _fold(_ESCAPE.sub(_unescape, text).replace("\\", "")).split(":")[:-1]:
            name = part.rstrip(_AROUND)
            end = name[-longest - 1 :]
            if any(end.endswith(each) and not end[: -len(each)][-1:].isalnum() for each in last):
                return True
        return False

    def _find(self, text: str) -> list[tuple[int, int]]:
        spans = [] if self.pattern is None else self.pattern.find(text)
        return spans if self.detect is None else list(merge_spans(spans + _ask(self.detect, text)))

    def _mark(self) -> str:
        self.count += 1
        return REDACTED


def _ask(detect: Detect, text: str) -> list[tuple[int, int]]:
    with _DETECTS:
        return [(max(0, int(low)), min(len(text), int(high))) for low, high in detect(text)]
    return [(0, len(text))]


def _unescape(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    return chr(int(code, 16)) if code else " "


def _fold(name: str) -> str:
    return name.casefold().replace("_", "").replace("-", "")

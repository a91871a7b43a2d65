"""Templates: texts as data. The template whose key fits an error best gives its text.

A key is a kind of error, such as ``validation``, which may be narrowed:

- by a rule: ``validation.required``. The rule of a ``validation`` is the rule of its `Problem`, of ``unavailable`` the
  reason. ``unknown_tool.empty`` is for a registry without any tool that may be called.
  ``malformed_call.truncated`` is for arguments that were cut off, ``configuration.corrupted`` for a message of
  the tool's author that says "corrupt".
- by a parameter: ``validation:to``, ``validation.required:to``.
- by a tool or a family of tools in front: ``send_email:validation``, ``gmail_*:configuration``.
- by the service of an integration in front: ``provider=Gmail:configuration``, ``gmail_*:provider=Gmail:configuration``.

The most specific key that fits wins: one with a tool's name, then one with a service's name, then the longest family of
tools, then one with a parameter, then one with a rule.

A text has fields such as ``{tool}``; `UNKNOWN_FIELDS` lists them. Of several texts, the first whose fields are all
known is used. The value of a field is never read as a template.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from operator import attrgetter
from string import Formatter
from typing import NamedTuple, TypeAlias, cast

from ..base.setup_error import SetupError
from ..engine.errors import ERROR_TYPES

Texts: TypeAlias = str | Sequence[str]  # of several, the first whose fields are all known is used
Fields: TypeAlias = Mapping[str, str]

# All fields of templates, each with the words that replace it if it is unknown and no other text is left. "": the
# default text of the error replaces it.
UNKNOWN_FIELDS = {
    "tool": "this tool",
    "service": "the service",
    "parameter": "the arguments",
    "expected": "another value",
    "got": "what came",
    "message": "",
    "question": "",
    "reason": "",
    "text": "",
    "hint": "",
    "suggestions": "none",
    "available": "none",
    "count": "many",
    "seconds": "a few",
    "verify_with": "the tool that shows it",
}
_KINDS = frozenset(each.kind for each in ERROR_TYPES)
_SERVICE = "provider="


class TemplateKey(NamedTuple):
    """The key of an error, which is matched with the keys of templates."""

    kind: str
    rule: str = ""
    parameter: str = ""
    tool: str = ""
    service: str = ""


class _Pattern(NamedTuple):
    pieces: tuple[tuple[str, str | None], ...]

    def fill(self, fields: Fields, *, complete: bool) -> str | None:
        """Return the text. With ``complete``, None if a field is not known."""
        parts: list[str] = []
        for literal, name in self.pieces:
            parts.append(literal)
            if name is not None:
                value = fields.get(name, "")
                if not value and complete:
                    return None
                parts.append(value or UNKNOWN_FIELDS[name] or fields["text"])
        return "".join(parts)


class _Template(NamedTuple):
    """The texts of one key, with the parts of the key; "" matches any."""

    tool: str
    service: str
    rule: str
    parameter: str
    patterns: tuple[_Pattern, ...]

    @property
    def rank(self) -> tuple[bool, bool, int, int, bool, bool]:
        tool, service = _is_glob(self.tool), _is_glob(self.service)
        return (
            bool(self.tool) and not tool,
            bool(self.service) and not service,
            len(self.tool) if tool else 0,
            len(self.service) if service else 0,
            bool(self.parameter),
            bool(self.rule),
        )

    def fits(self, key: TemplateKey) -> bool:
        return (
            (not self.rule or self.rule == key.rule)
            and (not self.parameter or _contains(self.parameter, key.parameter))
            and (not self.tool or fnmatchcase(key.tool, self.tool))
            and (not self.service or fnmatchcase(key.service.lower(), self.service))
        )

    def fill(self, fields: Fields) -> str:
        """Return the first text whose fields are all known; else the last text, with words for the unknown fields."""
        for pattern in self.patterns:
            if (text := pattern.fill(fields, complete=True)) is not None:
                return text
        return self.patterns[-1].fill(fields, complete=False) or fields["text"]


class Templates(NamedTuple):
    """Compiled templates by kind of error, the most specific first."""

    by_kind: Mapping[str, tuple[_Template, ...]]

    def build_text(self, key: TemplateKey, fields: Fields) -> str | None:
        """Return the text for an error; None if no template applies to it."""
        for template in self.by_kind.get(key.kind, ()):
            if template.fits(key):
                return template.fill(fields)
        return None


def compile_templates(templates: Mapping[str, Texts]) -> Templates:
    """Parse templates, once: the result is cached. SetupError if a key or a text is not valid."""
    try:
        items = [(key, texts if isinstance(texts, str) else tuple(texts)) for key, texts in templates.items()]
        return _compile(tuple(items))
    except (TypeError, AttributeError) as exc:
        if isinstance(exc, SetupError):
            raise
        raise SetupError(f"`templates` must map each key to a text or to several texts: {exc}") from exc


@lru_cache(maxsize=64)
def _compile(items: tuple[tuple[str, Texts], ...]) -> Templates:
    found: dict[str, list[_Template]] = {}
    for key, texts in items:
        kind, template = _parse(key, texts)
        found.setdefault(kind, []).append(template)
    return Templates({kind: tuple(sorted(each, key=attrgetter("rank"), reverse=True)) for kind, each in found.items()})


def find_tool(key: str) -> str:
    """The name or the pattern of tools in a key; "": it is for all."""
    return _parse(key, "text")[1].tool


def _parse(key: str, texts: Texts) -> tuple[str, _Template]:
    parts = key.split(":")
    place = next((place for place, part in enumerate(parts) if part.partition(".")[0] in _KINDS), None)
    if place is None:
        raise SetupError(f"template {key!r}: its key names no kind of error; known: {', '.join(sorted(_KINDS))}")
    kind, _, rule = parts[place].partition(".")
    services = [part for part in parts[:place] if part.startswith(_SERVICE)]
    tool = ":".join(part for part in parts[:place] if part not in services)
    parameter = ":".join(parts[place + 1 :])
    if len(services) > 1 or "" in parts or parts[place].endswith(".") or _SERVICE in services:
        raise SetupError(f"template {key!r}: a part of its key is empty or given twice")
    texts = (texts,) if isinstance(texts, str) else tuple(texts)
    if not texts:
        raise SetupError(f"template {key!r} has no text")
    service = services[0].removeprefix(_SERVICE).lower() if services else ""
    patterns = tuple(_Pattern(tuple(_parse_text(key, text))) for text in texts)
    return kind, _Template(tool, service, rule, parameter, patterns)


def _parse_text(key: str, text: str) -> Iterator[tuple[str, str | None]]:
    if not isinstance(cast("object", text), str) or not text.strip():
        raise SetupError(f"template {key!r}: a text must be a str that is not blank, not {text!r}")
    try:
        parsed = list(Formatter().parse(text))
    except ValueError as exc:
        raise SetupError(f"template {key!r}: cannot parse {text!r}: {exc}") from exc
    for literal, name, spec, conversion in parsed:
        if name is not None and (name not in UNKNOWN_FIELDS or spec or conversion):
            known = ", ".join(f"{{{each}}}" for each in UNKNOWN_FIELDS)
            raise SetupError(f"template {key!r}: unknown field {{{name}}}; known: {known}")
        yield literal, name


def _is_glob(pattern: str) -> bool:
    return any(each in pattern for each in "*?[")


def _contains(parameter: str, path: str) -> bool:
    return path == parameter or path.startswith((f"{parameter}.", f"{parameter}["))

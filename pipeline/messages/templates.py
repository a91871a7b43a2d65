"""Templates: texts as data, found by what an error is, and filled with what is known of it.

A key is ``kind``, more closely ``kind.rule`` and ``kind:parameter`` or both (``validation.required:to``), and in front
of it for whom: a tool (``send_email:validation``), a family of tools (``gmail_*:configuration``) or the service that
an integration is for (``provider=Gmail:configuration``), or a tool and a service. The rule of a ``validation`` is that
of the `Problem`, of ``unavailable`` the reason, of ``malformed_call`` ``truncated``, of ``configuration`` ``corrupted``
where the tool's author says that a credential is. Of several keys that fit the most specific one wins: one that names
the tool, then one that names the service, then the longest family, then the parameter, then the rule.

A text is filled in place of ``{tool}`` and the like, and of several texts the first one is told of which all is known.
What fills a place is never read as a template itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from string import Formatter
from typing import Any, NamedTuple, TypeAlias, cast

from ..errors import KINDS, SetupError

Words: TypeAlias = str | Sequence[str]  # of several, the first one of which all is known
Facts: TypeAlias = Mapping[str, str]

# What a template may ask for, and what is said where it is not known and no other text is given.
UNKNOWN = {
    "tool": "this tool",
    "service": "the service",
    "parameter": "the arguments",
    "expected": "another value",
    "got": "what came",
    "message": "",  # the text
    "question": "",  # the text
    "reason": "",  # the text
    "text": "",
    "hint": "",
    "suggestions": "none",
    "available": "none",
    "seconds": "a few",
    "verify_with": "the tool that shows it",
}
_KINDS = frozenset(str(cast("Any", each).kind) for each in KINDS)
_SERVICE = "provider="


class About(NamedTuple):
    """What a template is found by."""

    kind: str
    rule: str = ""
    parameter: str = ""
    tool: str = ""
    service: str = ""


class _Text(NamedTuple):
    """One template, taken apart."""

    pieces: tuple[tuple[str, str | None], ...]  # text, and the name of what follows it

    def filled(self, facts: Facts, *, whole: bool) -> str | None:
        """The text; None where ``whole`` is asked for and something is not known."""
        told: list[str] = []
        for literal, name in self.pieces:
            told.append(literal)
            if name is not None:
                value = facts.get(name, "")
                if not value and whole:
                    return None
                told.append(value or UNKNOWN[name] or facts["text"])
        return "".join(told)


class _Entry(NamedTuple):
    """One key with its texts."""

    tool: str
    service: str
    rule: str
    parameter: str
    texts: tuple[_Text, ...]

    @property
    def rank(self) -> tuple[bool, bool, int, int, bool, bool]:
        """How specific it is."""
        tool, service = _is_glob(self.tool), _is_glob(self.service)
        return (
            bool(self.tool) and not tool,
            bool(self.service) and not service,
            len(self.tool) if tool else 0,
            len(self.service) if service else 0,
            bool(self.parameter),
            bool(self.rule),
        )

    def fits(self, about: About) -> bool:
        """Whether it is about that."""
        return (
            (not self.rule or self.rule == about.rule)
            and (not self.parameter or _leads_to(self.parameter, about.parameter))
            and (not self.tool or fnmatchcase(about.tool, self.tool))
            and (not self.service or fnmatchcase(about.service.lower(), self.service))
        )

    def told(self, facts: Facts) -> str:
        """The first text of which all is known; else the last one, with words for what is not."""
        for text in self.texts:
            if (told := text.filled(facts, whole=True)) is not None:
                return told
        return self.texts[-1].filled(facts, whole=False) or facts["text"]


class Templates(NamedTuple):
    """Compiled templates, most specific first."""

    entries: Mapping[str, tuple[_Entry, ...]]

    def told(self, about: About, facts: Facts) -> str | None:
        """The text for that; None where there is none."""
        for entry in self.entries.get(about.kind, ()):
            if entry.fits(about):
                return entry.told(facts)
        return None


def compiled(templates: Mapping[str, Words]) -> Templates:
    """Templates ready for use. Raises SetupError for a key or a text that makes no sense; kept for the next time."""
    try:
        items = [(key, words if isinstance(words, str) else tuple(words)) for key, words in templates.items()]
        return _compiled(tuple(items))
    except (TypeError, AttributeError) as exc:
        if isinstance(exc, SetupError):
            raise
        raise SetupError(f"templates are a mapping of text to text or to several texts: {exc}") from exc


@lru_cache(maxsize=64)
def _compiled(items: tuple[tuple[str, Words], ...]) -> Templates:
    entries: dict[str, list[_Entry]] = {}
    for key, words in items:
        kind, entry = _entry(key, words)
        entries.setdefault(kind, []).append(entry)
    return Templates({kind: tuple(sorted(each, key=_rank, reverse=True)) for kind, each in entries.items()})


def _rank(entry: _Entry) -> Any:
    return entry.rank


def _entry(key: str, words: Words) -> tuple[str, _Entry]:
    parts = key.split(":")
    place = next((place for place, part in enumerate(parts) if part.partition(".")[0] in _KINDS), None)
    if place is None:
        raise SetupError(f"the template {key!r} is for no kind of error; there are {', '.join(sorted(_KINDS))}")
    kind, _, rule = parts[place].partition(".")
    services = [part for part in parts[:place] if part.startswith(_SERVICE)]
    tool = ":".join(part for part in parts[:place] if part not in services)
    parameter = ":".join(parts[place + 1 :])
    if len(services) > 1 or "" in parts or parts[place].endswith(".") or _SERVICE in services:
        raise SetupError(f"the template {key!r} is for nothing: a part of its key is empty, or too much")
    texts = (words,) if isinstance(words, str) else tuple(words)
    if not texts:
        raise SetupError(f"the template {key!r} has no text")
    service = services[0].removeprefix(_SERVICE).lower() if services else ""
    return kind, _Entry(tool, service, rule, parameter, tuple(_Text(tuple(_pieces(key, text))) for text in texts))


def _pieces(key: str, text: str) -> Iterator[tuple[str, str | None]]:
    if not isinstance(cast("object", text), str) or not text.strip():
        raise SetupError(f"the template {key!r} has no text")
    try:
        parsed = list(Formatter().parse(text))
    except ValueError as exc:
        raise SetupError(f"the template {key!r} cannot be read: {exc}") from exc
    for literal, name, spec, conversion in parsed:
        if name is not None and (name not in UNKNOWN or spec or conversion):
            raise SetupError(
                f"the template {key!r} asks for {{{name}}}; there are {', '.join(f'{{{each}}}' for each in UNKNOWN)}"
            )
        yield literal, name


def _is_glob(pattern: str) -> bool:
    return any(each in pattern for each in "*?[")


def _leads_to(parameter: str, path: str) -> bool:
    return path == parameter or path.startswith((f"{parameter}.", f"{parameter}["))

"""A text by a profile: its templates, what changed, a valid example, all of it within the budget."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InvalidParams, Problem, Repair, ToolError
from ..parameters.example import make_example
from ..parameters.phrases import describe_expected
from ..parameters.schema import schema_at
from ..privacy import PublicText
from .changes import changes
from .default import MORE, block_of, said
from .fields import about, facts_of, is_question
from .profiles.profile import Profile, profile_of
from .profiles.structured import as_json, as_value, with_note
from .repair_notes import note_of
from .templates import Templates, Words, compiled
from .text import FULL, Verbosity, assembled, cut, ended, one_line, sendable, short, unmarked, verbosity_of
from .values import as_json_value, as_text, shortened


def told(
    error: ToolError,
    profile: str | Profile,
    previous: ToolError | None,
    verbosity: str,
    templates: Mapping[str, Words] | None,
    tool: str | None,
) -> PublicText:
    """As `say` says, which answers the commonest case itself."""
    how, style = verbosity_of(verbosity), profile_of(profile)
    own = None if templates is None else compiled(templates)  # checked as a whole, whatever the error is
    since = "" if previous is None else changes(error, previous)
    example = make_example(error.schema) if how.details and isinstance(error, InvalidParams) else ""
    if len(example) > how.characters // 2:
        example = ""
    if style.json:
        lines = _lines(error, how, style, own, tool)
        return PublicText(sendable(as_json(error, lines, how, since, example)))
    last = "\n".join(filter(None, (since, example and f"A valid example: {example}")))
    room = how.characters - (len(last) + 1 if last else 0)
    text = _text(error, how, style, own, tool, room)
    text = cut(text if text.strip() else said(error, how, room), room)  # a template's places may all hold blanks
    return PublicText(sendable(f"{text}\n{last}" if last else text))


def success(
    value: object,
    profile: str | Profile,
    verbosity: str,
    templates: Mapping[str, Words] | None,
    repairs: Sequence[Repair],
    limit: int | None,
) -> PublicText:
    """As `tell` says of a success, but for the commonest case."""
    verbosity_of(verbosity)  # what makes no sense is told of at once, and not with the first failure
    compiled(templates or {})
    note = note_of(repairs)
    if not profile_of(profile).json:
        text = shortened(as_text(value), limit)
        return PublicText(sendable(f"{text}\n{note}" if note else text))
    data = as_json_value(value)
    if limit is not None and len(data) > limit:  # half of an object would be no JSON
        data = json.dumps(shortened(as_text(value), limit), ensure_ascii=False)
    return PublicText(sendable(as_value(data, note)))


def noted(said: PublicText, repairs: Sequence[Repair], profile: str | Profile) -> PublicText:
    """The text of a failure, with what was put right in the call."""
    note = sendable(note_of(repairs))
    if not note:
        return said
    return PublicText(with_note(said, note) if profile_of(profile).json else f"{said}\n{note}")


def _text(error: ToolError, how: Verbosity, style: Profile, own: Templates | None, tool: str | None, room: int) -> str:
    if isinstance(error, InvalidParams) and error.problems:
        blocks = list(dict.fromkeys(_lines(error, how, style, own, tool)))
        more = MORE if blocks[0].startswith("Error: ") else unmarked(MORE)
        return assembled(blocks, room, more, max(0, len(error.problems) - how.problems))
    text = "\n".join(_lines(error, how, style, own, tool))
    return text if how.hints else one_line(text, room)


def _lines(error: ToolError, how: Verbosity, style: Profile, own: Templates | None, tool: str | None) -> list[str]:
    """The text of each problem, or the only text there is."""
    if not isinstance(error, InvalidParams):
        facts, what = facts_of(error, None, how, tool), about(error, None, tool)
        if own is not None and (text := own.told(what, facts)) is not None:
            return [text]
        if style.questions and (question := is_question(error)):
            return [question]
        return [style.compiled.told(what, facts) or said(error, how)]
    lines = [_line(error, problem, how, style, own, tool) for problem in error.problems[: how.problems]]
    return lines or [said(error, how)]


def _line(
    error: InvalidParams, problem: Problem, how: Verbosity, style: Profile, own: Templates | None, tool: str | None
) -> str:
    facts, what = facts_of(error, problem, how, tool), about(error, problem, tool)
    text = (own.told(what, facts) if own is not None else None) or style.compiled.told(what, facts)
    if text is None:
        if style.json:
            return facts["text"]
        about_it = _about(error, problem) if how.details else ""
        return "\n".join(filter(None, (block_of(problem, how), about_it)))
    if not how.hints:
        return one_line(text, how.wanted)
    text = cut(text, how.wanted * 2)
    return f"{text}\n{facts['hint']}" if style.hints and not style.json and facts["hint"] else text


def _about(error: InvalidParams, problem: Problem) -> str:
    """What the schema says of a parameter whose value is wrong; of a missing one the hint says it."""
    if error.schema is None or problem.rule in ("required", "additionalProperties"):
        return ""
    try:
        declared: Any = schema_at(error.schema, [problem.path])
        words = describe_expected(error.schema, [problem.path]) if "description" in declared else ""
    except Exception:  # noqa: BLE001  # a schema may hold anything, and this is a courtesy
        return ""
    return f"Please send {short(problem.path)}: {ended(one_line(words, FULL.wanted))}" if words else ""

"""Builds a text from profile, templates and verbosity, with changes and the form of arguments, within the budget."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..base.foreign_values import or_default
from ..engine.errors import InvalidParams, Problem, Repair, ToolError
from ..parameters.problems import describe_expected
from ..parameters.schema import schema_at
from ..privacy import PublicText
from .author_words import add_author_words
from .changes import describe_change, describe_repetition
from .closing import Closing, build_form, close
from .default import (
    INVALID,
    MORE,
    default_body,
    default_text,
    describe_missing,
    describe_problem,
    is_whole_text,
    split_missing,
)
from .fields import as_question, fields_of, question_in, template_key
from .repair_notes import describe_repairs
from .structured import add_note, build_error_json, build_value_json
from .templates import Templates, Texts, compile_templates
from .text import as_sentence, join_blocks, replace_surrogates, shorten, strip_prefix, to_one_line, truncate
from .values import as_json, as_text, elide_middle
from .wording import FULL, Profile, Verbosity, get_profile, get_verbosity

_INVALID_VALUE = ("Invalid parameter value", "Invalid parameters: ")


class _Style(NamedTuple):
    profile: Profile
    verbosity: Verbosity
    templates: Templates | None
    tool: str | None
    closing: Closing


def build_text(
    error: ToolError,
    profile: str | Profile,
    previous: ToolError | None,
    verbosity: str,
    templates: Mapping[str, Texts] | None,
    tool: str | None,
) -> PublicText:
    """Build the text for an error. See `render` for the arguments; it handles the commonest case itself."""
    own = None if templates is None else compile_templates(templates)
    level = get_verbosity(verbosity)
    style = _Style(get_profile(profile), level, own, tool, close(error, level))
    budget = level.characters
    change = error.change if previous is None else describe_change(error, previous)
    if error.times:
        change = describe_repetition(error.times)
    lines, are_ours = _build_lines(error, style)
    if style.profile.json:
        form = build_form(error, level) if level.details else ""
        return PublicText(replace_surrogates(build_error_json(error, lines, level, change, form)))
    end = "\n".join(filter(None, (_find_end(error, style, are_ours=are_ours), change)))
    room = budget - (len(end) + 1 if end else 0)
    text = _join_lines(error, lines, style, room)
    if not text.strip():  # a template whose fields are all blank
        text = default_body(error, style.verbosity, room, style.closing)
    if style.templates is None:  # the caller's own templates decide what the text says
        said = are_ours and not isinstance(error, InvalidParams)  # by the default text
        words = text if said else add_author_words(text, error)
        text = words if style.verbosity.hints or isinstance(error, InvalidParams) else to_one_line(words, room)
    text = truncate(text, room)
    return PublicText(replace_surrogates(f"{text}\n{end}" if end else text))


def _find_end(error: ToolError, style: _Style, *, are_ours: bool) -> str:
    """Return the last line of a text, or ""."""
    if are_ours and style.closing.line:
        return style.closing.line
    form = build_form(error, style.verbosity) if style.verbosity.details else ""
    return f"Example of the form: {form}" if form else ""


def build_value_text(
    value: object,
    profile: str | Profile,
    verbosity: str,
    templates: Mapping[str, Texts] | None,
    repairs: Sequence[Repair],
    limit: int | None,
) -> PublicText:
    """Build the text for a value. See `render` for the arguments; it handles the commonest case itself."""
    get_verbosity(verbosity)  # raise for a wrong option at the first value, not at the first failure
    compile_templates(templates or {})
    note = describe_repairs(repairs)
    if not get_profile(profile).json:
        text = elide_middle(as_text(value), limit)
        return PublicText(replace_surrogates(f"{text}\n{note}" if note else text))
    data = as_json(value)
    if limit is not None and len(data) > limit:  # as text: half of an object would not be JSON
        data = json.dumps(elide_middle(as_text(value), limit), ensure_ascii=False)
    return PublicText(replace_surrogates(build_value_json(data, note)))


def append_note(text: PublicText, repairs: Sequence[Repair], profile: str | Profile) -> PublicText:
    """Add a note about the repairs of the call to the text of a failure."""
    note = replace_surrogates(describe_repairs(repairs))
    if not note:
        return text
    return PublicText(add_note(text, note) if get_profile(profile).json else f"{text}\n{note}")


def _join_lines(error: ToolError, lines: Sequence[str], style: _Style, room: int) -> str:
    if isinstance(error, InvalidParams) and error.problems:
        blocks = list(dict.fromkeys(lines))
        more = MORE if blocks[0].startswith("Error: ") else strip_prefix(MORE)
        return join_blocks(blocks, room, more, max(0, len(error.problems) - style.verbosity.max_problems))
    text = "\n".join(lines)
    return text if style.verbosity.hints else to_one_line(text, room)


def _build_lines(error: ToolError, style: _Style) -> tuple[list[str], bool]:
    """Return a text for each problem, or the only text; and whether any of them is the default text."""
    if isinstance(error, InvalidParams):
        return _build_problems(error, style)
    key, fields = template_key(error, None, style.tool), fields_of(error, None, style.verbosity, style.tool)
    if style.templates is not None and (text := style.templates.build_text(key, fields)) is not None:
        return [text], False
    if style.profile.questions and (question := question_in(error)):
        return [question], False
    text = style.profile.compiled.build_text(key, fields)
    if text:
        return [text], False
    if style.profile.json:
        return [default_text(error, style.verbosity)], True
    return [default_body(error, style.verbosity, style.verbosity.characters, style.closing)], True


def _build_problems(error: InvalidParams, style: _Style) -> tuple[list[str], bool]:
    shown = error.problems[: style.verbosity.max_problems]
    if style.profile.json:
        texts = [_fill_in(error, problem, style) or _describe(error, problem, style) for problem in shown]
        return texts or [INVALID], False
    lines: list[str] = []
    ours: list[Problem] = []
    for problem in shown:
        if text := _fill_in(error, problem, style):
            lines.append(text)
        else:
            ours.append(problem)
    missing, others = split_missing(ours)
    described = [describe_missing(missing, style.verbosity, style.closing)] if missing else []
    described += [_describe(error, problem, style) for problem in others]
    return [*described, *lines] or [INVALID], bool(described)


def _fill_in(error: InvalidParams, problem: Problem, style: _Style) -> str:
    """Return the text of the first template that fits, or ""."""
    verbosity, profile = style.verbosity, style.profile
    key, fields = template_key(error, problem, style.tool), fields_of(error, problem, verbosity, style.tool)
    text = None if style.templates is None else style.templates.build_text(key, fields)
    if not text:
        asked = _ask_in_words_of_author(problem) if profile.questions else ""
        text = asked or profile.compiled.build_text(key, fields)
        if text and not asked and is_whole_text(problem) and any(each in text for each in _INVALID_VALUE):
            return ""  # it would say twice what is wrong
    if not text:
        return ""
    if not verbosity.hints:
        return to_one_line(text, verbosity.max_expected)
    text = truncate(text, verbosity.max_expected * 2)
    return f"{text}\n{fields['hint']}" if profile.hints and not profile.json and fields["hint"] else text


def _ask_in_words_of_author(problem: Problem) -> str:
    """Return what the tool's author says, as a question, if that names the problem by itself, else ""."""
    if problem.rule != "validator":
        return ""
    words = str(problem.expected)
    return as_question(words) or (f"Question: {strip_prefix(words)}" if is_whole_text(problem) else "")


def _describe(error: InvalidParams, problem: Problem, style: _Style) -> str:
    if style.profile.json:
        return fields_of(error, problem, style.verbosity, style.tool)["text"]
    description = _describe_parameter(error, problem) if style.verbosity.details else ""
    return "\n".join(filter(None, (describe_problem(problem, style.verbosity, style.closing), description)))


@or_default("")
def _describe_parameter(error: InvalidParams, problem: Problem) -> str:
    """Return the schema's description of a parameter with a wrong value. A missing one has it in the line of help."""
    if error.schema is None or problem.rule in ("required", "additionalProperties"):
        return ""
    declared: Any = schema_at(error.schema, [problem.path])
    description = describe_expected(error.schema, [problem.path]) if "description" in declared else ""
    if not description:
        return ""
    return f"Please send {shorten(problem.path)}: {as_sentence(to_one_line(description, FULL.max_expected))}"

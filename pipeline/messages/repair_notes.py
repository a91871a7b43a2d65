"""The note about the repairs of a call: one line for the model, with nothing but its own input."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.foreign_values import or_default
from ..engine.errors import Repair
from ..parameters.schema import json_type
from .text import shorten

_MAX_REPAIRS = 5  # per call
_MAX_NAME = 60  # characters of a name or value
_MAX_NUMBER = 10**15
_NOUNS = {"array": "an array", "object": "an object"}


def describe_repairs(repairs: Sequence[Repair]) -> str:
    """Return one line about all repairs, or "" if there is nothing to learn.

    A name that an adapter made for the provider is left out: the model wrote the name that it was given.
    """
    sentences = list(dict.fromkeys(sentence for each in repairs if (sentence := _describe_repair(each))))
    if not sentences:
        return ""
    more = f" And {len(sentences) - _MAX_REPAIRS} more." if len(sentences) > _MAX_REPAIRS else ""
    return f"Note: {' '.join(sentences[:_MAX_REPAIRS])}{more}"


@or_default("")  # the values of a stage that is not type-checked may raise anything
def _describe_repair(repair: Repair) -> str:  # noqa: C901, PLR0912  # one case for each rule
    path = shorten(repair.path, _MAX_NAME) if repair.path else "the whole of the arguments"
    before, after = _format_name(repair.before), _format_name(repair.after)
    match repair.rule:
        case "json_text" if not repair.path and not str(repair.before).lstrip().startswith('"'):
            return (
                "the arguments were not plain JSON and were read as an object. Send one JSON object and nothing else."
            )
        case "json_text":
            return f"{path} was sent as text. Send it as {_NOUNS.get(json_type(repair.after), 'JSON')}, not in quotes."
        case "null_optional":
            if isinstance(repair.before, str) and repair.before.strip():
                return f"{path} was sent as the text null and read as no value. Send null unquoted, or leave it out."
            return f"{path} was empty and left out. Leave it out where it has no value."
        case "number_text":
            number = _format_number(repair.after)
            return f"{path} was sent as text and taken as the number{number}. Send it as a number."
        case "boolean_text":
            value = str(repair.after).lower() if isinstance(repair.after, bool) else "a boolean"
            return f"{path} was sent as text and taken as {value}. Send it as a boolean."
        case "text_of_number":
            number = _format_number(repair.before)
            return f"{path} was sent as the number{number} and taken as text. Send it as text."
        case "whole_float":
            number = _format_number(repair.after)
            return f"{path} was sent with a fraction and taken as the integer{number}. Send an integer."
        case "lone_scalar":
            return f"{path} was sent as a single value and taken as an array of one. Send an array."
        case "separated_text":
            return f"{path} was sent as one text and taken as an array of several values. Send an array."
        case "enum_spelling":
            return f"{path} was taken as {after or 'the value that is spelt alike'}. Send it spelt like that."
        case "parameter_name":
            return f"{before or path} was taken for {after or 'a parameter'}. Use that name."
        case "wrapped":
            return "the arguments were sent inside of another object. Send them directly."
        case "undeclared_dropped":
            return f"{path} is no parameter of this tool and was left out."
        case "alias" | "canonical_name" | "transport_noise":
            return f"the tool {before} was taken for {after}. Use that name." if before and after else ""
        case "provider_name":
            return ""
        case _:
            return f"{path} was put right before the tool ran."


def _format_name(value: object) -> str:
    return shorten(value, _MAX_NAME) if isinstance(value, str) else ""


def _format_number(value: object) -> str:
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _MAX_NUMBER
    return f" {value}" if known else ""

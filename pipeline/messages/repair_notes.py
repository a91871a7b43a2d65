"""What was put right in a call, in a line that the model can learn from. Only what the model itself sent is in it."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import Repair
from ..parameters.schema import json_type
from .text import short

_MOST = 5  # repairs of one call
_LONGEST = 60  # characters of a name or value
_LARGEST = 10**15
_AN = {"array": "an array", "object": "an object"}


def note_of(repairs: Sequence[Repair]) -> str:
    """One line on all of them; "" where there is nothing to learn.

    A name that an adapter made for the provider is put right without a word: the model wrote what it was given.
    """
    told = list(dict.fromkeys(text for each in repairs if (text := _sentence(each))))
    if not told:
        return ""
    more = f" And {len(told) - _MOST} more." if len(told) > _MOST else ""
    return f"Note: {' '.join(told[:_MOST])}{more}"


def _sentence(repair: Repair) -> str:  # noqa: C901, PLR0912  # a table of rules
    path = short(repair.path, _LONGEST) if repair.path else "the whole of the arguments"
    before, after = _name(repair.before), _name(repair.after)
    match repair.rule:
        case "json_text":
            return f"{path} was sent as text. Send it as {_AN.get(json_type(repair.after), 'JSON')}, not in quotes."
        case "null_optional":
            return f"{path} was empty and left out. Leave it out where it has no value."
        case "number_text":
            number = _number(repair.after)
            return f"{path} was sent as text and taken as the number{number}. Send it as a number."
        case "boolean_text":
            value = str(repair.after).lower() if isinstance(repair.after, bool) else "a boolean"
            return f"{path} was sent as text and taken as {value}. Send it as a boolean."
        case "text_of_number":
            return f"{path} was sent as the number{_number(repair.before)} and taken as text. Send it as text."
        case "whole_float":
            return f"{path} was sent with a fraction and taken as the integer{_number(repair.after)}. Send an integer."
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


def _name(value: object) -> str:
    return short(value, _LONGEST) if isinstance(value, str) else ""


def _number(value: object) -> str:
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _LARGEST
    return f" {value}" if known else ""

"""Convert the errors of jsonschema-rs to problems."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import attrs
from jsonschema_rs import FancyRegexOptions, ReferencingError, ValidationError, validator_for

from ..engine.errors import Problem
from ..privacy import PublicText
from .keyword_words import SEVERAL_FORMS, describe_keyword, says_what_was_sent
from .limits import Limits, Size, count_problems, limit_found, measure
from .problems import (
    LIMITS,
    describe_expected,
    describe_limit,
    describe_names,
    describe_size,
    describe_value,
    merge_branches,
)
from .schema import Form, format_path, is_object, names_at, value_at

# The limits: steps for one text by a pattern that looks back or ahead; bytes of one compiled pattern.
PATTERNS = FancyRegexOptions(backtrack_limit=2_000, size_limit=1_000_000)
# As the parameters of functions are read: zone and seconds may be left out, a blank may stand in place of the T.
_TIME: Final = r"([01][0-9]|2[0-3]):[0-5][0-9](:([0-5][0-9]|60)(\.[0-9]+)?)?([zZ]|[+-]([01][0-9]|2[0-3]):?[0-5][0-9])?"
_CLOCK: Final = re.compile(_TIME, re.ASCII)
_MAX_WRONG = 20  # wrong parameters that are listed for large arguments
_MAX_KEYS = 250  # names and items; for larger arguments only the wrong parameters are listed
_MAX_READINGS = 2_500  # of such values: an error for each branch of a union takes as long as one for a value
_MAX_BYTES = 10_000  # of arguments with a copy in each error
_SMALL = Limits(bytes=None, depth=None, keys=_MAX_KEYS)


def _is_date_time(text: str) -> bool:
    return text[10:11] in ("T", "t", " ") and _DAY.is_valid(text[:10]) and _CLOCK.fullmatch(text, 11) is not None


def _is_time(text: str) -> bool:
    return _CLOCK.fullmatch(text) is not None


def _is_any(_text: str) -> bool:
    return True


_DAY: Final = validator_for({"format": "date"}, offline=True, validate_formats=True)
_FORMATS: Final[dict[str, Callable[..., bool]]] = {
    "date-time": _is_date_time,
    "time": _is_time,
    "regex": _is_any,  # of which language, only the tool knows
}


def compile_validator(schema: Form) -> Any:
    """Compile a JSON Schema for arguments; the guide of this room lists the formats that it asserts."""
    return validator_for(dict(schema), offline=True, pattern_options=PATTERNS, validate_formats=True, formats=_FORMATS)


def compile_without_formats(schema: Form) -> Any:
    """Compile a JSON Schema in which a format is a word for the model alone, as of what pydantic reads."""
    return validator_for(dict(schema), offline=True, pattern_options=PATTERNS)


@attrs.define(eq=False)
class ProblemFinder:
    """Lists the problems of arguments that a schema refuses, in time and memory that grow with their size alone.

    jsonschema-rs makes all its errors at once, at 26 µs each, and each holds its instance as text: of arguments of
    100 kB, forty missing parameters would take 4 MB.

    Args:
        validator: The compiled schema; for `find`.
        whole: The schema that it was compiled from.
        schema: The schema that the model sees.
        readings: How often one value is read at most.
        compile: Compiles a part of it, as ``validator`` was.
    """

    validator: Any
    whole: Form
    schema: Form
    readings: int
    compile: Callable[[Form], Any] = compile_without_formats
    _lenient: Any = attrs.field(default=None, init=False)  # the same without its required parameters, once needed

    def find(self, arguments: Mapping[str, Any]) -> tuple[Problem, ...]:
        """List all problems of the arguments; if these hold many values, the parameters that are wrong."""
        size = measure(arguments, _SMALL)
        if self._count_readings(size) > _MAX_READINGS:
            return (count_problems(None), *self.find_wrong(arguments))
        missing: list[Problem] = []
        validator = self.validator
        if size.bytes > _MAX_BYTES:
            validator = self._make_lenient()
            required: Iterable[str] = self.whole.get("required") or ()
            absent = [name for name in dict.fromkeys(required) if name not in arguments]
            missing = [Problem(name, "required", describe_expected(self.schema, [name])) for name in absent]
        found = convert_jsonschema_errors(validator.iter_errors(arguments), arguments, self.schema)
        return limit_found((*found, *missing))

    def _count_readings(self, size: Size) -> int:
        """Estimate the errors that a value of this size makes at most."""
        return _MAX_READINGS + 1 if size.keys > _MAX_KEYS else size.keys * self.readings

    def _make_lenient(self) -> Any:
        if self._lenient is None:
            self._lenient = self.compile({**self.whole, "required": []})
        return self._lenient

    def find_wrong(self, arguments: Mapping[str, Any]) -> tuple[Problem, ...]:
        """Find the wrong parameters, and the problems inside of those that are small; it takes linear time."""
        try:
            lenient = self._make_lenient()
            wrong = [name for name, value in arguments.items() if not lenient.is_valid({name: value})][:_MAX_WRONG]
        except (TypeError, ValueError, AttributeError, ReferencingError):  # not JSON, or not an object
            return ()
        found: list[Problem] = []
        readings = 0
        for name in wrong:
            alone = {name: arguments[name]}
            readings += (more := self._count_readings(measure(alone, _SMALL)))
            if readings <= _MAX_READINGS:
                found += convert_jsonschema_errors(lenient.iter_errors(alone), alone, self.schema)
            else:
                readings -= more
                found.append(_tell_wrong(self.schema, name, arguments[name]))
        return tuple(found)


def _tell_wrong(schema: Form, name: str, value: object) -> Problem:
    if name not in names_at(schema, ()) and not is_object(schema.get("additionalProperties")):
        return Problem(name, "additionalProperties", describe_names(schema, ()), describe_value(value))
    return Problem(name, "anyOf", describe_expected(schema, [name]), describe_value(value))


def convert_jsonschema_errors(
    errors: Iterable[ValidationError], arguments: Mapping[str, Any], schema: Form
) -> tuple[Problem, ...]:
    """Convert all errors of jsonschema-rs, each once; the errors of a union's branches become one problem.

    A wrong type is left out where a problem at the same place lists the allowed values.
    """
    found = list(_convert_all(errors, arguments, schema, {}))
    if len(found) == 1:
        return tuple(found)
    chosen = {each.path for each in found if each.rule in ("enum", "const")}
    return tuple(each for each in dict.fromkeys(found) if each.rule != "type" or each.path not in chosen)


def _convert_all(
    errors: Iterable[ValidationError], arguments: Mapping[str, Any], schema: Form, choices: dict[Any, PublicText]
) -> Iterator[Problem]:
    for error in errors:
        if error.kind.name == "enum":  # described once for all values: a choice may be long
            place = tuple(error.schema_path)
            if place not in choices:
                choices[place] = PublicText(_convert(error, arguments, schema)[0].expected)
            parts = _read_path(error.instance_path, arguments)
            yield Problem(format_path(parts), "enum", choices[place], describe_value(value_at(arguments, parts)))
        else:
            yield from _convert(error, arguments, schema)


def _read_path(found: Iterable[int | str], arguments: Mapping[str, Any]) -> list[int | str]:
    """Read the path of an error; jsonschema-rs gives a name that consists of digits as an index: 2 for "2" or "02"."""
    parts: list[int | str] = []
    here: Any = arguments
    for part in found:
        if isinstance(part, int) and is_object(here) and str(part) not in here:
            part = next((name for name in here if name.isdecimal() and int(name) == part), part)  # noqa: PLW2901
        parts.append(str(part) if is_object(here) else part)
        here = value_at(here, parts[-1:])
    return parts


def _convert(error: ValidationError, arguments: Mapping[str, Any], schema: Form) -> list[Problem]:
    rule, facts = error.kind.name, error.kind.as_dict()
    parts = _read_path(error.instance_path, arguments)
    path = format_path(parts)
    if rule == "required":
        missing = [*parts, str(facts["property"])]
        return [Problem(format_path(missing), rule, describe_expected(schema, missing))]
    value = value_at(arguments, parts)  # not error.instance: Rust's JSON has no NaN
    if rule in ("additionalProperties", "unevaluatedProperties"):
        names = describe_names(schema, parts, value)
        return [  # report one rule, whichever keyword forbids the name
            Problem(format_path([*parts, name]), "additionalProperties", names, describe_value(value_at(value, [name])))
            for name in facts["unexpected"]
        ]
    if facts.get("context"):  # anyOf, oneOf
        if rule == "oneOf" and sum(not branch for branch in facts["context"]) > 1:
            return [Problem(path, rule, SEVERAL_FORMS)]
        branches = [list(convert_jsonschema_errors(branch, arguments, schema)) for branch in facts["context"]]
        return merge_branches(parts, branches, value, schema)
    if rule in LIMITS:
        got = describe_value(value) if rule.endswith("imum") else describe_size(value)
        return [Problem(path, rule, describe_limit(rule, facts["limit"]), got)]
    words = PublicText(describe_keyword(rule, facts, list(error.schema_path), schema, value))
    return [Problem(path, rule, words, describe_value(value) if says_what_was_sent(rule) else "")]

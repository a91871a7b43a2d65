"""Convert the errors of pydantic to problems.

Pydantic reports its own type names, and one error for each branch of a union under a path that names the branch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, LiteralString, TypeAlias, cast, get_args

import attrs
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_core.core_schema import ErrorType

from ..engine.errors import InvalidParams, MalformedCall, Problem
from ..privacy import PublicText, approved
from .formats import describe_format
from .limits import count_problems, limit_found
from .problems import (
    ANY_FORM,
    FAILED_CHECK,
    LIMITS,
    describe_expected,
    describe_limit,
    describe_names,
    describe_options,
    describe_size,
    describe_value,
    merge_branches,
    refuse_json,
    refuse_non_json,
    refuse_non_object,
    refuse_unicode,
)
from .schema import Form, class_of, format_path, schema_at, value_at
from .schema_limits import find_growth

if TYPE_CHECKING:
    from .jsonschema_errors import ProblemFinder

_MISSING = frozenset(("missing", "missing_argument", "missing_keyword_only_argument"))
_UNKNOWN = frozenset(("extra_forbidden", "unexpected_keyword_argument"))
_PYDANTICS = frozenset(get_args(ErrorType))  # any other type of error comes from an author's validator
_LABELLED = frozenset(("value_error", "assertion_error"))  # also an author's, with a label before the text
_LENGTHS: Final = frozenset(("minItems", "maxItems"))
_KEY: Final = "[key]"  # pydantic's last step to a name of an object
_SHOULD_BE: Final = "Input should be "
_SHOULD = re.compile(r".* should (?P<verb>be|have|not have|contain only) (?P<words>.*)", re.DOTALL)
_VERBS = {"be": "", "have": "a value with ", "not have": "a value without ", "contain only": "a value of only "}
_MAX_ERRORS = 500  # of one call; pydantic counts each branch of a union
_CACHEABLE = frozenset((None, str, list, dict, type(None)))  # the problem of a number or boolean quotes the value
_MAX_CACHED = 256  # problems of one tool; a model may send any name to **kwargs
_DICT: Any = dict  # under this name type checkers do not narrow to `dict[Unknown, Unknown]`
_Key: TypeAlias = tuple[int | str, str, type | None]  # the parameter, pydantic's type of error, the type of the value
Branch: TypeAlias = tuple[tuple[int | str, ...], str]  # the path of a union, and the branch that pydantic tried
Found: TypeAlias = tuple[Problem, Sequence[Branch]]  # a problem and the branches on the way to it, outermost first

# --- Pydantic's types of errors ---
# Pydantic's type of error -> the JSON Schema keyword that was broken (2020-12, validation vocabulary).
KEYWORDS = {
    "literal_error": "enum",
    "enum": "enum",
    "greater_than": "exclusiveMinimum",
    "greater_than_equal": "minimum",
    "less_than": "exclusiveMaximum",
    "less_than_equal": "maximum",
    "multiple_of": "multipleOf",
    "string_too_short": "minLength",
    "string_too_long": "maxLength",
    "bytes_too_short": "minLength",
    "bytes_too_long": "maxLength",
    "url_too_long": "maxLength",
    "string_pattern_mismatch": "pattern",
    "too_short": "minItems",
    "too_long": "maxItems",
    "equal_keys": "propertyNames",  # our own type, from `core_schema`
}
# Errors with several numbers: keyword -> the number that is the bound.
BOUNDS = {"minItems": "min_length", "maxItems": "max_length"}
# Errors for a wrong type -> the expected type.
TYPES: dict[str, LiteralString] = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "a boolean",
    "string_type": "a string",
    "bytes_type": "a string",
    "list_type": "an array",
    "tuple_type": "an array",
    "set_type": "an array",
    "frozen_set_type": "an array",
    "deque_type": "an array",
    "iterable_type": "an array",
    "named_tuple_type": "an array",
    "dict_type": "an object",
    "frozen_dict_type": "an object",
    "ordered_dict_type": "an object",
    "counter_type": "an object",
    "mapping_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dataclass_type": "an object",
    "dataclass_exact_type": "an object",
    "none_required": "null",
    "fraction_type": "a number or a fraction such as 1/3",
    "url_type": "a URL",
    "complex_type": "a complex number",
}
# Errors whose message does not suit a model -> the expected value, with the facts of the error filled in.
FORMATS = {
    "is_instance_of": "of another type",  # pydantic's own message names a class
    "is_subclass_of": "of another type",
    **dict.fromkeys(("date_type", "date_parsing", "date_from_datetime_parsing"), describe_format("date")),
    **dict.fromkeys(
        ("datetime_type", "datetime_parsing", "datetime_object_invalid", "datetime_from_date_parsing"),
        describe_format("date-time"),
    ),
    **dict.fromkeys(("time_type", "time_parsing"), describe_format("time")),
    **dict.fromkeys(("time_delta_type", "time_delta_parsing"), describe_format("duration")),
    **dict.fromkeys(("uuid_type", "uuid_parsing"), describe_format("uuid")),
    **dict.fromkeys(("decimal_type", "decimal_parsing"), "a decimal number such as 12.50"),
    "base64_decode": "text in base64",
    "fraction_parsing": "a number or a fraction such as 1/3",
    "url_parsing": "a URL",
    "url_syntax_violation": "a URL",
    "timezone_aware": "a datetime or time with its zone, such as Z or +02:00 at the end",
    "timezone_naive": "a datetime or time without a zone",
    "date_past": "a date in the past",
    "date_future": "a date in the future",
    "datetime_past": "a datetime in the past",
    "datetime_future": "a datetime in the future",
    "complex_str_parsing": "a complex number",
    "byte_size": "a size such as 10MB",
    "byte_size_unit": "a size such as 10MB",
    "ip_v4_address": "an IPv4 address",
    "ip_v6_address": "an IPv6 address",
    "ip_any_address": "an IP address",
    "ip_v4_network": "an IPv4 network such as 192.0.2.0/24",
    "ip_v6_network": "an IPv6 network such as 2001:db8::/32",
    "ip_any_network": "an IP network such as 192.0.2.0/24",
    "date_from_datetime_inexact": "a date without a time",
    "string_pattern_mismatch": "text that matches {pattern}",
    "url_scheme": "a URL that begins with {expected_schemes}",
    "uuid_version": "a UUID of version {expected_version}",
}


@attrs.define(eq=False)
class PydanticErrors:
    """Converts pydantic's errors in the arguments of one tool.

    Args:
        schema: The tool's schema.
        scalars: Parameters that are a bare int, float, bool or str. A text, null, array or object of the wrong type is
            always the same single error for them. So the only error of a call follows from its values, and pydantic
            need not list it, which would take half as long as a plain call.
    """

    schema: Form
    scalars: frozenset[str] = frozenset()
    _finder: ProblemFinder | None = attrs.field(init=False, default=None)  # by the JSON Schema; few refusals need it
    _has_lengths: bool | None = attrs.field(init=False, default=None)  # whether an array of the schema has a limit
    _common: dict[_Key, Problem] = attrs.field(init=False, factory=dict[Any, Any])
    _wrong_types: dict[tuple[int | str, type], tuple[Problem]] = attrs.field(init=False, factory=dict[Any, Any])
    _declared: frozenset[str] = attrs.field(init=False)
    _required: frozenset[str] = attrs.field(init=False)
    _incomplete: dict[frozenset[str], tuple[Problem, ...]] = attrs.field(init=False, factory=dict[Any, Any])

    def __attrs_post_init__(self) -> None:
        self._declared = frozenset(self.schema.get("properties", ()))
        self._required = frozenset(self.schema.get("required", ()))

    def convert(self, exc: ValidationError, arguments: Any, sent: Any) -> InvalidParams | MalformedCall:
        """Convert all errors to problems; the errors of a union's branches become one problem.

        Args:
            exc: The exception that pydantic raised.
            arguments: The arguments that it validated, decoded if they were text.
            sent: The arguments as they were sent, for the refusal.
        """
        if type(arguments) is not _DICT:  # text may be wrong as a whole
            return self._list_all(exc, arguments, sent)
        if not arguments.keys() >= self._required:
            return self._list_missing(exc, arguments, sent)
        if exc.error_count() == 1:
            for name, value in arguments.items():
                if (known := self._wrong_types.get((name, class_of(value)))) is not None:
                    return InvalidParams(known, sent=sent, schema=self.schema, read=arguments)
        return self._list_all(exc, arguments, sent)

    def _list_missing(self, exc: ValidationError, arguments: Any, sent: Any) -> InvalidParams | MalformedCall:
        missing = self._required.difference(arguments)
        # An undeclared name may be an alias of a parameter.
        if len(missing) != exc.error_count() or not self._declared.issuperset(arguments):
            return self._list_all(exc, arguments, sent)
        if (known := self._incomplete.get(missing)) is not None:  # one error for each name: it is complete
            return InvalidParams(known, sent=sent, schema=self.schema, read=arguments)
        error = self._list_all(exc, arguments, sent)
        problems = error.problems if type(error) is InvalidParams else ()
        if len(self._incomplete) < _MAX_CACHED and all(problem.rule == "required" for problem in problems):
            self._incomplete[missing] = problems
        return error

    def _list_all(self, exc: ValidationError, arguments: Any, sent: object) -> InvalidParams | MalformedCall:
        if exc.error_count() > _MAX_ERRORS:
            return self._summarise(exc, arguments, sent)
        found: list[Found] = []
        in_union = False
        given: dict[Any, Any] = arguments if type(arguments) is _DICT else {}
        for each in exc.errors(include_url=False):
            kind, loc = each["type"], each["loc"]
            if len(loc) == 1 and (kind == "missing" or (kind in TYPES and loc[0] in given)):
                got = None if kind == "missing" else class_of(each["input"])
                key = (loc[0], kind, got)
                problem = self._common.get(key)
                found.append((self._make_common(key, each) if problem is None else problem, ()))
                continue
            if kind == "json_invalid":
                return refuse_json(str(each.get("ctx", {}).get("error", "they are no JSON")))
            if kind == "invalid_key" or kind.startswith("recursion_"):
                return refuse_non_json(sent, self.schema)
            if not loc and kind == "string_unicode":
                return refuse_unicode()
            if not loc and kind == "dict_type":
                return refuse_non_object(each["input"])
            if len(loc) == 1 and loc[0] in given:  # most errors have no union in their path
                found.append((self._make_problem(each, [*loc], arguments), ()))
                continue
            parts, branches = _split_location(loc, arguments, kind)
            if loc[-1] == _KEY and branches:  # the fault is the name's, not its value's
                expected = PublicText(f"an object in which each name is {self._describe_key(each, parts)}")
                found.append((Problem(format_path(parts[:-1]), "propertyNames", expected), branches[:-1]))
                continue
            found.append((self._make_problem(each, parts, arguments), branches))
            in_union = in_union or bool(branches)
        problems = _merge_unions(found, arguments, self.schema) if in_union else [problem for problem, _ in found]
        unique = self._complete_arrays(dict.fromkeys(problems), arguments)
        return InvalidParams(limit_found(unique), sent=sent, schema=self.schema, read=arguments)

    def _complete_arrays(self, problems: dict[Problem, None], arguments: Any) -> tuple[Problem, ...]:
        """Add the items of an array that is too long, and the length of one with faults: pydantic tells only one."""
        if not any("[" in problem.path or problem.rule in _LENGTHS for problem in problems):
            return tuple(problems)
        if self._has_lengths is None:
            self._has_lengths = not _LENGTHS.isdisjoint(re.findall(r"\w+", json.dumps(self.schema)))
        if not self._has_lengths:
            return tuple(problems)
        told = {problem.path for problem in problems}
        long = tuple(f"{problem.path}[" for problem in problems if problem.rule == "maxItems")
        more = [
            each
            for each in self._make_finder().find(arguments)
            if each.path.startswith(long)
            or (each.rule in _LENGTHS and any(path.startswith(f"{each.path}[") for path in told))
        ]
        return (*problems, *(each for each in more if each.path not in told))

    def _make_finder(self) -> ProblemFinder:
        if self._finder is None:
            from .jsonschema_errors import ProblemFinder, compile_without_formats

            whole = dict(self.schema)
            validator = compile_without_formats(whole)
            self._finder = ProblemFinder(validator, whole, self.schema, find_growth(whole, tagged=False)[0])
        return self._finder

    def _summarise(self, exc: ValidationError, arguments: Any, sent: object) -> InvalidParams:
        """Report the number of errors and the wrong parameters; to list every error takes 10 µs each."""
        problems = (count_problems(exc.error_count()), *self._make_finder().find_wrong(arguments))
        return InvalidParams(problems, sent=sent, schema=self.schema)

    def _make_common(self, key: _Key, each: ErrorDetails) -> Problem:
        """Make the problem of a missing parameter or a wrong type, and cache it: most refusals are of this kind."""
        problem = self._make_problem(each, [key[0]], {})
        name, _, got = key
        if got in _CACHEABLE and len(self._common) < _MAX_CACHED:
            self._common[key] = problem
            if got is not None and name in self.scalars:
                self._wrong_types[name, got] = (problem,)
        return problem

    def _make_problem(self, each: ErrorDetails, parts: list[int | str], arguments: object) -> Problem:
        kind, value = each["type"], each["input"]
        noun = TYPES.get(kind)
        if noun is not None:
            too_large = kind == "float_type" and type(value) is int
            return Problem(format_path(parts), "type", "a finite number" if too_large else noun, describe_value(value))
        facts = each.get("ctx", {})
        if kind in _MISSING:
            if isinstance(parts[-1], int):  # a tuple is too short
                bound = schema_at(self.schema, parts[:-1]).get("minItems", parts[-1] + 1)
                expected = describe_limit("minItems", bound)
                return Problem(format_path(parts[:-1]), "minItems", expected, describe_size(value))
            return Problem(format_path(parts), "required", describe_expected(self.schema, parts))
        if kind in _UNKNOWN:
            names = describe_names(self.schema, parts[:-1], value_at(arguments, parts[:-1]))
            return Problem(format_path(parts), "additionalProperties", names, describe_value(value))
        if kind in ("union_tag_invalid", "union_tag_not_found"):
            return self._make_tag_problem(each, parts)
        path = format_path(parts)
        if type(facts.get("error")).__module__ == "ipaddress":  # its text repeats the value
            form = schema_at(self.schema, parts).get("format", "ipvanyaddress")
            return Problem(path, "format", PublicText(describe_format(form)), describe_value(value))
        ours = kind in _PYDANTICS or kind in FORMATS or each["msg"].startswith(_SHOULD_BE)
        if kind in _LABELLED or not ours:
            return Problem(path, "validator", _read_author_text(each), describe_value(value))
        rule = KEYWORDS.get(kind)
        if rule in LIMITS:
            return _make_limit(path, rule, facts, value)
        if rule is None:
            rule = "format" if isinstance(value, str) else "type"
        return Problem(path, rule, self._describe_rule(each, parts), describe_value(value))

    def _describe_key(self, each: ErrorDetails, parts: list[int | str]) -> str:
        kind = each["type"]
        return TYPES[kind] if kind in TYPES else self._describe_rule(each, parts)

    def _describe_rule(self, each: ErrorDetails, parts: list[int | str]) -> PublicText:
        kind, facts = each["type"], each.get("ctx", {})
        if kind in FORMATS and (kind in _PYDANTICS or not each["msg"].startswith(_SHOULD_BE)):
            return PublicText(FORMATS[kind].format(**facts))
        if kind in ("literal_error", "enum"):
            node = schema_at(self.schema, parts)
            allowed = [node["const"]] if "const" in node else node.get("enum", ())
            return describe_options(allowed) or PublicText(str(facts.get("expected", "another value")))
        words = each["msg"].partition(", ")[0]  # the rest is about the parser
        if words.startswith(_SHOULD_BE):
            return PublicText(words.removeprefix(_SHOULD_BE))
        match = _SHOULD.fullmatch(words)
        return PublicText(_VERBS[match["verb"]] + match["words"] if match else "of the form that its schema names")

    def _make_tag_problem(self, each: ErrorDetails, parts: list[int | str]) -> Problem:
        """Make the problem of a union's discriminator that is missing or has an unknown value."""
        facts, value = each.get("ctx", {}), each["input"]
        key = str(facts["discriminator"])
        if not key.startswith("'"):  # the author's own function chooses the branch
            return Problem(format_path(parts), "anyOf", ANY_FORM, describe_value(value))
        name = key.strip("'")
        mapping = schema_at(self.schema, parts).get("discriminator", {}).get("mapping", ())
        tags = describe_options(mapping) or PublicText(str(facts.get("expected_tags", "a value")))
        path = format_path([*parts, name])
        if each["type"] == "union_tag_not_found":
            return Problem(path, "required", tags)
        return Problem(path, "enum", tags, describe_value(value_at(value, [name])))


def _split_location(loc: tuple[int | str, ...], arguments: object, kind: str) -> tuple[list[int | str], list[Branch]]:
    """Split pydantic's location into the path through the arguments and the union branches in it."""
    parts: list[int | str] = []
    branches: list[Branch] = []
    here: Any = arguments
    last = len(loc) - 1
    for index, part in enumerate(loc):
        if isinstance(here, dict) and (part in here or (index == last and kind in _MISSING)):
            parts.append(part)
            here = cast("dict[Any, Any]", here).get(part)
        elif isinstance(here, (list, tuple)) and isinstance(part, int):
            items = cast("Sequence[Any]", here)
            parts.append(part)
            here = items[part] if part < len(items) else None
        else:
            branches.append((tuple(parts), str(part)))
    return parts, branches


def _merge_unions(found: list[Found], arguments: object, schema: Form) -> list[Problem]:
    """Merge the problems of each union, in the place of the first of them; the other problems keep their order."""
    slots: list[list[Problem]] = []
    unions: dict[tuple[int | str, ...], tuple[list[Problem], dict[str, list[Found]]]] = {}
    for problem, branches in found:
        if not branches:
            slots.append([problem])
            continue
        place, branch = branches[0]
        if place not in unions:
            unions[place] = ([], {})
            slots.append(unions[place][0])
        unions[place][1].setdefault(branch, []).append((problem, branches[1:]))
    for place, (slot, by_branch) in unions.items():
        problems = [_merge_unions(branch, arguments, schema) for branch in by_branch.values()]
        slot.extend(merge_branches(place, problems, value_at(arguments, place), schema))
    return [problem for slot in slots for problem in slot]


def _read_author_text(each: ErrorDetails) -> PublicText:
    """Return the text of an exception from an author's validator. It is about the arguments, so a model may see it.

    attrs raises exceptions with several arguments; only the first of them is text for a reader.
    """
    exc = each.get("ctx", {}).get("error")
    if isinstance(exc, UnicodeError):  # its first argument names a codec
        return PublicText("it holds bytes that are no text in UTF-8")
    if isinstance(exc, Exception) and len(exc.args) > 1:
        return approved(str(exc.args[0]))
    text = each["msg"].partition(", ")[2] if each["type"] in _LABELLED else each["msg"]
    return approved(text.strip() or FAILED_CHECK)


def _make_limit(path: str, rule: str, facts: Mapping[str, Any], value: object) -> Problem:
    """Make the problem of a broken limit. Pydantic has one type of error for the items of an array and of an object."""
    bound = facts[BOUNDS[rule]] if rule in BOUNDS else next(iter(facts.values()))
    if rule in BOUNDS and isinstance(value, Mapping):
        rule = rule.replace("Items", "Properties")
    got = describe_value(cast("object", value)) if rule.endswith("imum") else describe_size(cast("object", value))
    return Problem(path, rule, describe_limit(rule, bound), str(facts.get("actual_length") or got))

"""Parse arguments into params: by pydantic for functions, by jsonschema-rs for raw schemas. Imported at first use.

Both follow the same rules: int, float, bool and str are strict, and richer types (Enum, date, UUID, Path, dataclass,
tuple, …) accept their JSON form. Pydantic's strict *JSON* mode has these rules: its lax mode turns "5" into 5 and True
into 1, and its strict Python mode refuses the value of an Enum. One difference is left: in JSON Schema 1.0 is an
integer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import PydanticSerializationError, ValidationError, from_json, to_json

from ..base.setup_error import SetupError
from ..engine.errors import InvalidParams, MalformedCall, Problem
from .exact_json import is_changed, read_exactly, refuse_twins
from .problems import (
    describe_names,
    describe_value,
    refuse_json,
    refuse_non_json,
    refuse_non_object,
    refuse_rounding,
    refuse_unicode,
)
from .references import References
from .schema import ToolSchema, is_object, is_open
from .schema_limits import bound_parse, check_schema, find_growth, is_flat
from .tool_parameters import Compiled, Given, Parse, Undeclared, copy_containers

if TYPE_CHECKING:
    from .signature import Shape

_CLOSING = ("additionalProperties", "unevaluatedProperties")  # the keywords that forbid undeclared arguments


def compile_function(function: Callable[..., Any], *, skip_first: bool) -> Compiled:  # noqa: C901  # one closure
    """Compile a function's parameters. Raises SetupError, see `signature.read_signature`."""
    from .given import is_json
    from .pydantic_errors import PydanticErrors
    from .signature import read_signature

    shape = read_signature(function, skip_first=skip_first)
    from_python, from_text = shape.validator.validate_python, shape.validator.validate_json
    if shape.shares:
        from_python = _copy_result(from_python)
    schema, plain = ToolSchema(shape.schema), shape.plain
    convert = PydanticErrors(schema, shape.scalars).convert
    parse_given = _parse_given(shape, convert)
    read_strictly = partial(from_text, strict=True)
    dict_: Any = dict  # under this name type checkers do not narrow to `dict[Unknown, Unknown]`

    def parse(arguments: Any) -> Any:
        if type(arguments) is not dict_:
            if isinstance(arguments, str) and "NaN" not in arguments and "Infinity" not in arguments:  # not in JSON
                if not arguments or arguments.isspace():
                    return parse({})
                try:
                    params = from_text(arguments, strict=True) if plain else read_exactly(arguments, read_strictly)
                    return params if arguments.count(":") <= len(params) else refuse_twins(arguments, params) or params
                except ValidationError as exc:
                    decoded = _decode(arguments)
                    return refuse_twins(arguments, decoded) or convert(exc, decoded, arguments)
            if type(arguments) is Given:
                return parse_given(arguments)
            given = _read_object(arguments)
            return given if type(given) is MalformedCall else parse(given)
        try:
            if plain:  # both modes return the same params, and this one takes half the time
                return from_python(arguments)
            if not is_json(arguments):  # not from a model
                return parse_given(arguments)
            return from_text(to_json(arguments), strict=True)
        except ValidationError as exc:
            error = convert(exc, arguments, arguments)
            return error if type(error) is InvalidParams else refuse_non_json(arguments, schema)
        except PydanticSerializationError:  # it contains itself, or a lone surrogate
            return refuse_non_json(arguments, schema)

    bounded = _bound(parse, schema)
    whole, ambiguous = _complete(bounded, shape), bounded is not parse
    return Compiled(whole, schema, is_flat(schema), ambiguous, is_open(schema), shape.make_core)


def _copy_result(validate: Callable[..., Any]) -> Callable[..., Any]:
    """Copy the lists and dicts that pydantic does not copy itself: those in a parameter of type Any."""

    def validate_and_copy(arguments: object) -> dict[str, Any]:
        return copy_containers(validate(arguments))

    return validate_and_copy


def _parse_given(shape: Shape, convert: Callable[[ValidationError, Any, Any], Any]) -> Callable[[Any], Any]:
    """Make the parser of a program's arguments. It compiles at the first such call, since few tools get one."""
    from_given: Callable[[Any], Any] | None = None

    def parse_given(arguments: Any) -> Any:
        nonlocal from_given
        if from_given is None:
            from_given = shape.make_given().validate_python
        if not _has_text_keys(arguments):
            return refuse_non_json(arguments, shape.schema)
        try:
            return copy_containers(from_given(dict(arguments)))
        except ValidationError as exc:
            return convert(exc, dict(arguments), arguments)

    return parse_given


def _bound(parse: Parse, schema: ToolSchema) -> Parse:
    """Add an estimate of the parsing time, for the few tools that need it."""
    _, growth = find_growth(schema, tagged=True)
    if growth is None:
        return parse
    import jsonschema_rs

    is_valid = jsonschema_rs.validator_for(dict(schema), offline=True).is_valid
    return bound_parse(parse, _read_object, growth, is_valid, schema)


def _has_text_keys(arguments: Mapping[Any, object]) -> bool:
    return all(isinstance(key, str) for key in arguments)


def _complete(parse: Parse, shape: Shape) -> Parse:
    """Add the steps that few tools need."""
    if shape.defaults:
        parse = _fill_defaults(parse, shape)
    return _refuse_reserved(parse, shape) if shape.reserved else parse


def _fill_defaults(parse: Parse, shape: Shape) -> Parse:
    def parse_and_fill(arguments: object) -> Any:
        params = parse(arguments)
        if type(params) is dict:
            for name, field in shape.defaults.items():
                if name not in params:
                    params[name] = field.get_default(call_default_factory=True, validated_data=params)
        return params

    return parse_and_fill


def _refuse_reserved(parse: Parse, shape: Shape) -> Parse:
    names = describe_names(shape.schema, ())

    def parse_and_refuse(arguments: object) -> Any:
        params = parse(arguments)
        if type(params) is dict and not shape.reserved.isdisjoint(params):
            problems = tuple(
                Problem(name, "additionalProperties", names, describe_value(value))
                for name, value in params.items()
                if name in shape.reserved
            )
            return InvalidParams(problems, sent=arguments, schema=shape.schema)
        return params

    return parse_and_refuse


def compile_schema(
    schema: Mapping[str, Any], name: str, undeclared: Undeclared | None, accepted: Mapping[str, Any] | None
) -> Compiled:
    """Compile a JSON Schema; see `Parameters.of_schema`. Raises SetupError for an invalid schema."""
    import jsonschema_rs

    from .jsonschema_errors import ProblemFinder, compile_validator

    whole = apply_undeclared_policy(schema if accepted is None else accepted, undeclared)
    check_schema(whole, name)
    if accepted is not None:
        check_schema(schema, name)
    schema = ToolSchema(schema)
    try:
        if accepted is not None:
            References(schema)  # the mask of a call follows them
        readings, growth = find_growth(whole, tagged=False)
        validator = compile_validator(whole)
    except SetupError as exc:
        raise SetupError(f"{name}: {exc}") from exc
    except (ValueError, jsonschema_rs.ReferencingError) as exc:
        raise SetupError(f"{name}: its parameters are no JSON Schema: {exc}") from exc
    is_valid, flat = validator.is_valid, is_flat(whole)
    find_problems = ProblemFinder(validator, whole, schema, readings, compile_validator).find
    dict_: Any = dict  # as in `compile_function`

    def parse(arguments: Any) -> Any:
        params: Any = arguments if type(arguments) is dict_ else _read_object(arguments)
        if type(params) is MalformedCall:
            return params
        try:
            "".join(params)  # the fastest way to find a key that is not text and would fail as **kwargs
            if is_valid(params):
                return params if flat else copy_containers(params)
            return InvalidParams(find_problems(params), sent=arguments, schema=schema)
        except (TypeError, ValueError):  # a value that JSON cannot represent, or one that contains itself
            return refuse_non_json(arguments, schema)

    if growth is None:
        return Compiled(parse, schema, flat=flat, is_open=is_open(whole))
    bounded = bound_parse(parse, _read_object, growth, is_valid, schema)
    return Compiled(bounded, schema, ambiguous=True, is_open=is_open(whole))


def apply_undeclared_policy(schema: Mapping[str, Any], undeclared: Undeclared | None) -> dict[str, Any]:
    """Replace the schema's own rule for undeclared arguments, at its top level, by a policy."""
    if undeclared is None:
        return dict(schema)
    result = {key: value for key, value in schema.items() if key not in _CLOSING}
    if undeclared != "pass":
        elsewhere = not {"allOf", "anyOf", "oneOf", "$ref"}.isdisjoint(schema)  # these may declare parameters too
        result["unevaluatedProperties" if elsewhere else "additionalProperties"] = False
    return result


def _read_object(arguments: object) -> dict[str, Any] | MalformedCall:
    """Read arguments that are not a dict: None and "" as no arguments, other text as JSON, a mapping as a copy."""
    if isinstance(arguments, str) and arguments and not arguments.isspace():
        text = arguments
        try:
            arguments = from_json(text, allow_inf_nan=False)
        except (TypeError, UnicodeEncodeError):
            return refuse_unicode()
        except ValueError as exc:
            return refuse_json(str(exc))
        if is_changed(text):
            return refuse_rounding()
        if is_object(arguments):
            return refuse_twins(text, arguments) or arguments
    elif arguments is None or isinstance(arguments, str):
        return {}
    if isinstance(arguments, Mapping):
        return dict(cast("Mapping[str, Any]", arguments))
    return refuse_non_object(arguments)


def _decode(text: str) -> object:
    try:
        return from_json(text)
    except (TypeError, ValueError):
        return text

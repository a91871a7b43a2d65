"""Arguments -> params: pydantic for functions, jsonschema-rs for raw schemas. Imported when a tool is first used.

One truth for both: int, float, bool and str are strict, richer types (Enum, date, UUID, Path, dataclass, tuple…)
accept their JSON form. That is pydantic's strict *JSON* mode to the letter; its lax mode turns "5" into 5 and True
into 1 without a word, its strict Python mode refuses an Enum's value. One difference is JSON Schema's own: to it
1.0 is an integer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import attrs
from pydantic_core import PydanticSerializationError, ValidationError, from_json, to_json

from ..errors import InvalidParams, MalformedCall, Problem, SetupError
from . import problems

if TYPE_CHECKING:
    from ..tools.definition import Undeclared
    from .pydantic_errors import Known
    from .signature import Shape

_CLOSING = ("additionalProperties", "unevaluatedProperties")

# Never raises for what a model sent; an exception of a user's own validator, other than ValueError, passes.
Parse: TypeAlias = Callable[[object], "dict[str, Any] | InvalidParams | MalformedCall"]


def of_function(function: Callable[..., Any], *, skip_first: bool) -> tuple[Parse, dict[str, Any]]:
    """The parser and the JSON Schema of a function's parameters. Raises SetupError, see `signature.shape_of`."""
    from .pydantic_errors import of_pydantic
    from .signature import shape_of

    shape = shape_of(function, skip_first=skip_first)
    from_python, from_text = shape.adapter.validator.validate_python, shape.adapter.validator.validate_json
    schema, plain, undeclared = shape.schema, shape.plain, shape.schema["additionalProperties"]
    known: Known = {}
    dict_: type = dict  # by this name pyright does not take it for a dict of unknown things

    def parse(arguments: Any) -> Any:
        if type(arguments) is not dict_:
            if isinstance(arguments, str) and "NaN" not in arguments and "Infinity" not in arguments:  # no JSON, either
                if not arguments or arguments.isspace():
                    return parse({})
                try:
                    return from_text(arguments, strict=True)
                except ValidationError as exc:
                    return of_pydantic(exc, _decoded(arguments), schema, known)
            given = _object(arguments)
            return given if type(given) is MalformedCall else parse(given)
        try:
            if plain:  # then both modes say the same, and this one is half as long
                return from_python(arguments)
            params = from_text(to_json(arguments, fallback=_attrs_as_dict), strict=True)
            return _with_keys_of_text(arguments, params) if undeclared else params
        except ValidationError as exc:
            found = of_pydantic(exc, arguments, schema, known)
            if not plain:
                found = _with_keys_of_text(arguments, found)
            return problems.not_plain() if type(found) is MalformedCall else found
        except PydanticSerializationError:
            return problems.not_plain()

    return _completed(parse, shape), schema


def _with_keys_of_text(arguments: Any, parsed: Any) -> Any:
    """What was made of the arguments, unless a key of theirs is no text: to_json makes text of it."""
    return parsed if all(isinstance(key, str) for key in arguments) else problems.not_plain()


def _completed(parse: Parse, shape: Shape) -> Parse:
    """For the few tools that want more than pydantic does."""
    if shape.defaults:
        parse = _with_defaults(parse, shape.defaults)
    return _without(parse, shape) if shape.reserved else parse


def _with_defaults(parse: Parse, defaults: Mapping[str, Any]) -> Parse:
    def parse_and_fill(arguments: object) -> Any:
        params = parse(arguments)
        if type(params) is dict:
            for name, field in defaults.items():
                if name not in params:
                    params[name] = field.get_default(call_default_factory=True, validated_data=params)
        return params

    return parse_and_fill


def _without(parse: Parse, shape: Shape) -> Parse:
    declared = problems.declared(shape.schema, ())

    def refused(name: str, value: object) -> Problem:
        return Problem(name, "additionalProperties", declared, problems.got(value))

    def parse_and_refuse(arguments: object) -> Any:
        params = parse(arguments)
        if type(params) is dict and not shape.reserved.isdisjoint(params):
            return InvalidParams(tuple(refused(name, params[name]) for name in params if name in shape.reserved))
        return params

    return parse_and_refuse


def of_schema(schema: Mapping[str, Any], name: str, undeclared: Undeclared | None = None) -> Parse:
    """The parser of a raw JSON Schema; nothing is fetched. Raises SetupError where it does not compile.

    ``undeclared`` says otherwise than the schema what it makes of arguments that it does not declare.
    """
    import jsonschema_rs

    from .jsonschema_errors import of_jsonschema

    try:
        validator = jsonschema_rs.validator_for(_ruled(schema, undeclared), offline=True)
    except (ValueError, jsonschema_rs.ReferencingError) as exc:
        raise SetupError(f"{name}: its parameters are no JSON Schema: {exc}") from exc
    is_valid = validator.is_valid

    def parse(arguments: object) -> Any:
        given = cast("dict[str, Any]", arguments) if type(arguments) is dict else _object(arguments)
        if type(given) is MalformedCall:
            return given
        params = cast("dict[str, Any]", given)
        try:
            "".join(params)  # the quickest way to refuse a key that is no text, which **kwargs could not take
            if is_valid(params):
                return params
            return of_jsonschema(validator.iter_errors(params), params, schema)
        except (TypeError, ValueError):  # what is no JSON value, or nested without end
            return problems.not_plain()

    return parse


def _ruled(schema: Mapping[str, Any], undeclared: Undeclared | None) -> dict[str, Any]:
    """The schema with the policy in place of its own word on undeclared arguments, at its top."""
    if undeclared is None:
        return dict(schema)
    ruled = {key: value for key, value in schema.items() if key not in _CLOSING}
    if undeclared != "pass":
        elsewhere = not {"allOf", "anyOf", "oneOf", "$ref"}.isdisjoint(schema)  # which declare some as well
        ruled["unevaluatedProperties" if elsewhere else "additionalProperties"] = False
    return ruled


def _object(arguments: object) -> dict[str, Any] | MalformedCall:
    """What is no dict, as one: nothing is no arguments, text is JSON, a mapping is copied; all else is refused."""
    if isinstance(arguments, str) and arguments and not arguments.isspace():
        try:
            arguments = from_json(arguments, allow_inf_nan=False)
        except (TypeError, UnicodeEncodeError):
            return problems.not_unicode()
        except ValueError as exc:
            return problems.not_json(str(exc))
    elif arguments is None or isinstance(arguments, str):
        return {}
    if isinstance(arguments, Mapping):
        return dict(cast("Mapping[str, Any]", arguments))
    return problems.not_an_object(arguments)


def _decoded(text: str) -> object:
    try:
        return from_json(text)
    except (TypeError, ValueError):
        return text


def _attrs_as_dict(value: Any) -> Any:
    """For values that a caller of ``pipeline.run`` made himself: pydantic serialises all but attrs."""
    cls = cast("type[Any]", type(value))
    if attrs.has(cls):
        return {field.alias: getattr(value, field.name) for field in attrs.fields(cls) if field.init}
    raise PydanticSerializationError("no JSON value")

"""Arguments -> params: pydantic for functions, jsonschema-rs for raw schemas. Imported when a tool is first used.

One truth for both: int, float, bool and str are strict, richer types (Enum, date, UUID, Path, dataclass, tuple…)
accept their JSON form. That is pydantic's strict *JSON* mode to the letter; its lax mode turns "5" into 5 and True
into 1 without a word, its strict Python mode refuses an Enum's value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

import attrs
from pydantic_core import PydanticSerializationError, ValidationError, from_json, to_json

from . import problems
from .errors import InvalidParams, MalformedCall, Problem, SetupError

# Never raises for what a model sent; an exception of a user's own validator, other than ValueError, passes.
Parse: TypeAlias = Callable[[object], "dict[str, Any] | InvalidParams | MalformedCall"]


def of_function(function: Callable[..., Any], *, skip_first: bool) -> tuple[Parse, dict[str, Any]]:
    """The parser and the JSON Schema of a function's parameters. Raises SetupError, see `signature.shape_of`."""
    from .signature import shape_of

    shape = shape_of(function, skip_first=skip_first)
    from_python, from_text = shape.adapter.validator.validate_python, shape.adapter.validator.validate_json
    schema, plain = shape.schema, shape.plain
    missing: dict[str, Problem] = {}

    def parse(arguments: object) -> Any:
        if type(arguments) is not dict:
            if isinstance(arguments, str) and arguments and not arguments.isspace():
                try:
                    return from_text(arguments, strict=True)
                except ValidationError as exc:
                    return problems.of_pydantic(exc, _decoded(arguments), schema, missing)
            arguments = _object(arguments)
            if type(arguments) is MalformedCall:
                return arguments
        try:
            if plain:  # then both modes say the same, and this one is half as long
                return from_python(arguments)
            return from_text(to_json(arguments, fallback=_attrs_as_dict), strict=True)
        except ValidationError as exc:
            return problems.of_pydantic(exc, cast("object", arguments), schema, missing)
        except PydanticSerializationError:
            return problems.not_plain()

    return (_with_defaults(parse, shape.defaults) if shape.defaults else parse), schema


def _with_defaults(parse: Parse, defaults: Mapping[str, Any]) -> Parse:
    def parse_and_fill(arguments: object) -> Any:
        params = parse(arguments)
        if type(params) is dict:
            for name, field in defaults.items():
                if name not in params:
                    params[name] = field.get_default(call_default_factory=True, validated_data=params)
        return params

    return parse_and_fill


def of_schema(schema: Mapping[str, Any], name: str) -> Parse:
    """The parser of a raw JSON Schema; nothing is fetched. Raises SetupError where it does not compile."""
    import jsonschema_rs

    try:
        validator = jsonschema_rs.validator_for(dict(schema), offline=True)
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
            return problems.of_jsonschema(validator.iter_errors(params), schema)
        except (TypeError, ValueError):  # what is no JSON value, or nested without end
            return problems.not_plain()

    return parse


def _object(arguments: object) -> dict[str, Any] | MalformedCall:
    """What is no dict, as one: nothing is no arguments, text is JSON, a mapping is copied; all else is refused."""
    if isinstance(arguments, str) and arguments and not arguments.isspace():
        try:
            arguments = from_json(arguments, allow_inf_nan=False)
        except (TypeError, UnicodeEncodeError):  # a lone surrogate: no text that could be encoded
            return MalformedCall("they hold a character that is no Unicode")
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

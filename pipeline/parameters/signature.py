"""A function's signature as a pydantic shape and as JSON Schema. Imported when a function tool is first used."""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Callable
from itertools import chain, repeat
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs
import typing_extensions
from pydantic import ConfigDict, PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter
from pydantic.fields import FieldInfo

from ..errors import SetupError
from ..introspection import get_bound_names, get_docstring, get_open_parameters, unwrap
from .annotations import ANYTHING, DECLARED, Known, as_json, bridged
from .docstrings import parameters as told_of

_PLAIN = frozenset((str, int, float, bool, type(None), object, Any))


@attrs.frozen
class Shape:
    """What the arguments of one function look like."""

    adapter: TypeAdapter[Any]
    schema: dict[str, Any]
    plain: bool  # JSON and Python values of it are the same thing
    defaults: dict[str, FieldInfo]  # where a default is a pydantic Field: python would pass the Field itself
    reserved: frozenset[str]  # names that **kwargs would take and that are filled already


def shape_of(function: Callable[..., Any], *, skip_first: bool) -> Shape:
    """Read the signature. Raises SetupError for a type that has no JSON Schema or cannot be found."""
    name = getattr(function, "__qualname__", repr(function))
    every = get_open_parameters(function)
    wanted = every[skip_first:]
    try:
        hints = _hints(function, wanted)
        fields, config = _fields(wanted, hints)
        adapter = _adapter(fields, config)
        made = adapter.json_schema()
        schema = _cleaned(made, made.get("$defs", {}))
    except NameError as exc:
        raise SetupError(f"{name}: {exc}; its annotations must be found at run time") from exc
    except (PydanticUserError, PydanticUndefinedAnnotation) as exc:
        raise SetupError(f"{name}: {exc}") from exc
    defaults = {p.name: p.default for p in wanted if isinstance(p.default, FieldInfo) and not p.default.is_required()}
    _describe(schema, get_docstring(function), wanted, fields, defaults)
    reserved = get_bound_names(function) | {parameter.name for parameter in every[:skip_first]}
    return Shape(
        adapter,
        schema,
        all(_is_plain(hint) for hint in fields.values()),
        defaults,
        reserved if config is ANYTHING else frozenset(),
    )


def _fields(wanted: list[inspect.Parameter], hints: dict[str, Any]) -> tuple[dict[str, Any], ConfigDict]:
    fields: dict[str, Any] = {}
    known: Known = {}
    config = DECLARED
    for parameter in wanted:
        hint = hints.get(parameter.name, Any)
        if parameter.kind is parameter.VAR_KEYWORD:
            if get_origin(hint) is typing_extensions.Unpack:  # **options: Unpack[SomeTypedDict] names them all
                named = get_args(hint)[0]
                optional = typing.cast("frozenset[str]", named.__optional_keys__)
                for key, written in get_type_hints(named, include_extras=True).items():
                    inner = bridged(written, known)
                    fields[key] = typing_extensions.NotRequired[inner] if key in optional else inner
            else:
                config = ANYTHING
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            fields[parameter.name] = _field(bridged(hint, known), parameter)
    return fields, config


def _field(hint: Any, parameter: inspect.Parameter) -> Any:
    default = parameter.default
    if isinstance(default, FieldInfo):
        hint = Annotated[hint, *_without_default(default)]
        return hint if default.is_required() else typing_extensions.NotRequired[hint]
    return hint if default is parameter.empty else typing_extensions.NotRequired[hint]


def _adapter(fields: dict[str, Any], config: ConfigDict) -> TypeAdapter[Any]:
    make: Any = typing_extensions.TypedDict  # the checkers know the name, and want a literal
    shape: Any = make("Arguments", fields)
    shape.__pydantic_config__ = config
    return TypeAdapter(shape)


def _hints(function: Callable[..., Any], wanted: list[inspect.Parameter]) -> dict[str, Any]:
    """The parameters' own hints: neither the context's nor the return type needs to exist at run time."""
    written = {p.name: p.annotation for p in wanted if p.annotation is not p.empty}
    holder = types.SimpleNamespace(__annotations__=written)
    return get_type_hints(holder, getattr(unwrap(function), "__globals__", {}), include_extras=True)


_CARRIED = ("title", "description", "examples", "alias", "validation_alias")


def _without_default(field: FieldInfo) -> list[Any]:
    described = {key: value for key in _CARRIED if (value := getattr(field, key)) is not None}
    return [*field.metadata, FieldInfo(**typing.cast("Any", described))]


def _is_plain(hint: Any) -> bool:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Annotated, typing_extensions.NotRequired):
        return _is_plain(args[0])
    if origin is Literal:
        return all(type(arg) in _PLAIN for arg in args)
    if origin is dict:
        return args[0] is str and _is_plain(args[1])  # other keys are text in JSON only
    if origin in (list, Union, types.UnionType):
        return all(map(_is_plain, args))
    return origin is None and (hint in (list, dict) or (hint.__hash__ is not None and hint in _PLAIN))


def _cleaned(schema: Any, defs: dict[str, Any]) -> Any:
    """Without the titles that pydantic makes of names: 16 % of the bytes, and nothing that a model needs."""
    if isinstance(schema, list):
        items = typing.cast("list[Any]", schema)
        return [_cleaned(item, defs) for item in items]
    if not isinstance(schema, dict):
        return schema
    whole = typing.cast("dict[str, Any]", schema)
    kept: dict[str, Any] = {}
    for key, value in whole.items():
        if key in ("properties", "$defs", "patternProperties") and isinstance(value, dict):
            named = typing.cast("dict[str, Any]", value)
            kept[key] = {name: _cleaned(inner, defs) for name, inner in named.items()}
        elif key == "default":
            kept[key] = _settled(value, whole, defs)
        elif key == "examples" and isinstance(value, list):
            kept[key] = [_settled(each, whole, defs) for each in typing.cast("list[Any]", value)]
        elif key in ("enum", "const", "examples", "required", "discriminator"):
            kept[key] = value
        elif not (key == "title" and isinstance(value, str)):
            kept[key] = _cleaned(value, defs)
    return kept


def _settled(value: Any, schema: Any, defs: dict[str, Any]) -> Any:
    """A set is in another order in each process, and a prompt that changes is cached nowhere: sorted by its JSON."""
    if not isinstance(schema, dict):
        return value
    known = typing.cast("dict[str, Any]", schema)
    if "$ref" in known:
        return _settled(value, defs.get(known["$ref"].removeprefix("#/$defs/")), defs)
    for either in (*known.get("anyOf", ()), *known.get("oneOf", ())):
        value = _settled(value, either, defs)
    if isinstance(value, dict):
        named, more = known.get("properties", {}), known.get("additionalProperties")
        pairs = typing.cast("dict[str, Any]", value).items()
        return {name: _settled(inner, named.get(name, more), defs) for name, inner in pairs}
    if not isinstance(value, list):
        return value
    items = typing.cast("list[Any]", value)
    first, rest = known.get("prefixItems", []), known.get("items")
    items = [_settled(item, schema, defs) for item, schema in zip(items, chain(first, repeat(rest)), strict=False)]
    return sorted(items, key=_text) if known.get("uniqueItems") else items


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _describe(
    schema: dict[str, Any],
    text: str,
    wanted: list[inspect.Parameter],
    fields: dict[str, Any],
    defaults: dict[str, FieldInfo],
) -> None:
    """Add what only the function knows: descriptions from its docstring, and its defaults."""
    told = told_of(text)
    schema.pop("description", None)
    properties: dict[str, dict[str, Any]] = schema.setdefault("properties", {})
    for parameter in wanted:
        entry = properties.get(_alias(fields.get(parameter.name)) or parameter.name)
        if entry is None:
            continue
        if parameter.name in told:
            entry.setdefault("description", told[parameter.name])
        default = defaults[parameter.name].default if parameter.name in defaults else parameter.default
        if default is not parameter.empty:
            try:
                shown = as_json(default)
                if isinstance(default, (set, frozenset)):  # of a parameter that need be none
                    shown = sorted(typing.cast("list[Any]", shown), key=_text)
                entry.setdefault("default", _settled(shown, entry, schema.get("$defs", {})))
            except ValueError:  # a sentinel of the author's: no business of the model
                continue


def _alias(hint: Any) -> str | None:
    """The name under which pydantic wants a field, where its Field says so."""
    if get_origin(hint) is typing_extensions.NotRequired:
        return _alias(get_args(hint)[0])
    for extra in getattr(hint, "__metadata__", ()):
        if isinstance(extra, FieldInfo) and isinstance(extra.validation_alias, str):
            return extra.validation_alias
    return None

"""A function's signature as a pydantic shape and as JSON Schema. Imported when a function tool is first used."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs
import typing_extensions
from pydantic import ConfigDict, GetPydanticSchema, PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError, PydanticSerializationError, core_schema, to_jsonable_python

from .errors import SetupError

_PLAIN = frozenset((str, int, float, bool, type(None), object, Any))
_ANYTHING = ConfigDict(strict=True, extra="allow")
_DECLARED = ConfigDict(strict=True, extra="forbid")


@attrs.frozen
class Shape:
    """What the arguments of one function look like."""

    adapter: TypeAdapter[Any]
    schema: dict[str, Any]
    plain: bool  # JSON and Python values of it are the same thing
    defaults: dict[
        str, FieldInfo
    ]  # of parameters whose default is a pydantic Field: python would pass the Field itself


def shape_of(function: Callable[..., Any], *, skip_first: bool) -> Shape:
    """Read the signature. Raises SetupError for a type that has no JSON Schema or cannot be found."""
    name = getattr(function, "__qualname__", repr(function))
    parameters = list(inspect.signature(function).parameters.values())[skip_first:]
    try:
        hints = _hints(function, parameters)
    except NameError as exc:
        raise SetupError(f"{name}: {exc}; its annotations must be found at run time") from exc
    fields: dict[str, Any] = {}
    defaults: dict[str, FieldInfo] = {}
    config = _DECLARED
    for parameter in parameters:
        hint = _bridged(hints.get(parameter.name, Any))
        if parameter.kind is parameter.VAR_KEYWORD:
            config = _ANYTHING
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            if isinstance(parameter.default, FieldInfo):
                hint = Annotated[hint, *_without_default(parameter.default)]
                if not parameter.default.is_required():
                    defaults[parameter.name] = parameter.default
                    hint = typing_extensions.NotRequired[hint]
            elif parameter.default is not parameter.empty:
                hint = typing_extensions.NotRequired[hint]
            fields[parameter.name] = hint
    try:
        adapter = _adapter(fields, config)
        schema = _untitled(adapter.json_schema())
    except (PydanticUserError, PydanticUndefinedAnnotation) as exc:
        raise SetupError(f"{name}: {exc}") from exc
    _describe(schema, function, parameters, defaults)
    return Shape(adapter, schema, all(_is_plain(hint) for hint in fields.values()), defaults)


def _adapter(fields: dict[str, Any], config: ConfigDict) -> TypeAdapter[Any]:
    make: Any = typing_extensions.TypedDict  # the checkers know the name, and want a literal
    shape: Any = make("Arguments", fields)
    shape.__pydantic_config__ = config
    return TypeAdapter(shape)


def _hints(function: Callable[..., Any], parameters: list[inspect.Parameter]) -> dict[str, Any]:
    """The parameters' own hints: neither the context's nor the return type needs to exist at run time."""
    plain: Any = function.func if isinstance(function, functools.partial) else function
    plain = inspect.unwrap(plain)
    if not hasattr(plain, "__globals__"):  # a callable object, a bound method
        plain = getattr(plain, "__func__", type(plain).__call__)
    written = {p.name: p.annotation for p in parameters if p.annotation is not p.empty}
    holder = types.SimpleNamespace(__annotations__=written)
    return get_type_hints(holder, getattr(plain, "__globals__", {}), include_extras=True)


def _without_default(field: FieldInfo) -> list[Any]:
    described: dict[str, Any] = {"title": field.title, "description": field.description, "examples": field.examples}
    return [*field.metadata, FieldInfo(**{key: value for key, value in described.items() if value is not None})]


def _is_plain(hint: Any) -> bool:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Annotated, typing_extensions.NotRequired):
        return _is_plain(args[0])
    if origin is Literal:
        return all(type(arg) in _PLAIN for arg in args)
    if origin in (list, dict, Union, types.UnionType):
        return all(map(_is_plain, args))
    return origin is None and (hint in (list, dict) or (hint.__hash__ is not None and hint in _PLAIN))


def _bridged(hint: Any) -> Any:
    """The hint with every attrs class in it made known to pydantic, which refuses them."""
    if attrs.has(hint) and not hasattr(hint, "__get_pydantic_core_schema__"):
        return Annotated[hint, GetPydanticSchema(functools.partial(_attrs_schema, hint))]
    origin, args = get_origin(hint), get_args(hint)
    if not args or origin is Literal:
        return hint
    if origin is Annotated:
        return Annotated[_bridged(args[0]), *args[1:]]
    bridged: tuple[Any, ...] = tuple(_bridged(arg) for arg in args)
    if bridged == args:
        return hint
    if origin in (Union, types.UnionType):
        return Union[bridged]  # noqa: UP007  # of as many as there are
    return typing.cast("Any", origin)[bridged]


def _attrs_schema(cls: type[Any], _source: Any, handler: Any) -> core_schema.CoreSchema:
    hints = get_type_hints(cls, include_extras=True)
    fields: dict[str, Any] = {}
    for field in attrs.fields(cls):
        if field.init:
            hint = _bridged(hints.get(field.name, Any))
            optional = field.default is not attrs.NOTHING
            fields[field.alias or field.name] = typing_extensions.NotRequired[hint] if optional else hint
    make: Any = typing_extensions.TypedDict
    shape: Any = make(cls.__name__, fields)
    shape.__pydantic_config__ = _DECLARED
    shape.__doc__ = inspect.getdoc(cls) if "__doc__" in vars(cls) else None

    def build(values: Any) -> Any:
        try:
            return cls(**values)
        except TypeError as exc:  # attrs' own validators say it so, with a class name that is nobody's business
            raise PydanticCustomError("type", "Input should be accepted by the tool's own check") from exc

    def accept(value: Any, inner: Callable[[Any], Any]) -> Any:
        return value if isinstance(value, cls) else build(inner(value))

    return core_schema.no_info_wrap_validator_function(accept, handler(shape))


def _untitled(schema: Any) -> Any:
    """Without the titles that pydantic makes of names: 16 % of the bytes, and nothing that a model needs."""
    if isinstance(schema, list):
        items = typing.cast("list[Any]", schema)
        return [_untitled(item) for item in items]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for key, value in typing.cast("dict[str, Any]", schema).items():
        if key in ("properties", "$defs", "patternProperties") and isinstance(value, dict):
            named = typing.cast("dict[str, Any]", value)
            kept[key] = {name: _untitled(inner) for name, inner in named.items()}
        elif key in ("enum", "const", "default", "examples", "required"):
            kept[key] = value
        elif not (key == "title" and isinstance(value, str)):
            kept[key] = _untitled(value)
    return kept


def _describe(
    schema: dict[str, Any],
    function: Callable[..., Any],
    parameters: list[inspect.Parameter],
    defaults: dict[str, FieldInfo],
) -> None:
    """Add what only the function knows: descriptions from its docstring, and its defaults."""
    told = _told(function)
    schema.pop("description", None)
    properties: dict[str, dict[str, Any]] = schema.setdefault("properties", {})
    for parameter in parameters:
        entry = properties.get(parameter.name)
        if entry is None:
            continue
        if parameter.name in told:
            entry.setdefault("description", told[parameter.name])
        default = defaults[parameter.name].default if parameter.name in defaults else parameter.default
        if default is not parameter.empty:
            try:
                entry.setdefault("default", to_jsonable_python(default))
            except PydanticSerializationError:  # a sentinel of the author's: no business of the model
                continue


def _told(function: Callable[..., Any]) -> dict[str, str]:
    text = inspect.getdoc(function) or ""
    if "Args:" not in text and "Arguments:" not in text and "Parameters:" not in text:
        return {}
    import griffe  # 105 ms

    sections = griffe.Docstring(text).parse("google", warnings=False)
    return {
        item.name.lstrip("*"): " ".join(item.description.split())
        for section in sections
        if isinstance(section, griffe.DocstringSectionParameters)
        for item in section.value
        if item.description
    }

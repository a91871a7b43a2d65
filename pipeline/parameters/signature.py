"""Read a function's signature as a pydantic type and a JSON Schema. Imported when a function tool is first used."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from functools import cache, partial
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin, get_type_hints

import attrs
import typing_extensions
from pydantic import PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic_core import SchemaValidator, to_json

from ..base.introspection import get_bound_names, get_docstring, get_open_parameters, unwrap
from ..base.setup_error import SetupError
from ..privacy.secret_guard import hide_defaults
from .annotations import ANYTHING, DECLARED, Known, adapt_annotation
from .core_schema import make_validator
from .docstrings import read_parameters
from .given import accept_given
from .schema_generator import SchemaGenerator, drop_titles, show_default
from .tool_parameters import copy_containers

_PLAIN = frozenset((str, int, float, bool, type(None), object, Any))
_SCALARS = (int, float, bool, str)
_VALUE = "="  # no parameter has this name
_BUILTINS: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {}  # see `_join_plain`
_MAX_BUILTINS: Final = 1_000  # each ``Literal`` is a type of its own
# The attributes of a pydantic Field that are kept besides its constraints.
_KEPT = ("title", "description", "examples", "alias", "validation_alias", "json_schema_extra")


@attrs.frozen
class Shape:
    """The arguments that one function accepts.

    Attributes:
        validator: Validates a model's arguments.
        schema: The JSON Schema that the model sees.
        plain: Whether JSON values and Python values of these parameters are the same.
        shares: Whether pydantic may pass on an object of the caller without a copy.
        make_given: Makes the validator of a program's arguments.
        make_core: Makes the core schema of the parameters, which is large and seldom read.
        defaults: Parameters whose default is a pydantic Field; Python itself would pass the Field object.
        reserved: Names that are filled otherwise, though ``**kwargs`` would accept them.
        scalars: Parameters that are annotated with a bare int, float, bool or str.
    """

    validator: SchemaValidator
    schema: dict[str, Any]
    plain: bool
    shares: bool
    make_given: Callable[[], SchemaValidator]
    make_core: Callable[[], Any]
    defaults: dict[str, FieldInfo]
    reserved: frozenset[str]
    scalars: frozenset[str]


def read_signature(function: Callable[..., Any], *, skip_first: bool) -> Shape:
    """Read the parameters of a function.

    Raises:
        SetupError: A type has no JSON Schema, or an annotation cannot be found at run time.
    """
    name = getattr(function, "__qualname__", repr(function))
    every = get_open_parameters(function)
    wanted = every[skip_first:]
    try:
        hints = _read_hints(function, wanted)
        fields, extra = _list_fields(wanted, hints)
        plain = all(_is_plain(hint) for hint in (*fields.values(), Any if extra is None else extra))
        validator, schema = (_join_plain(fields) if extra is None and plain else None) or _compile(fields, extra)
    except NameError as exc:
        raise SetupError(f"{name}: {exc}; annotations must be found at run time, outside of TYPE_CHECKING") from exc
    except SetupError as exc:
        raise SetupError(f"{name}: {exc}") from exc
    except RecursionError as exc:
        raise SetupError(f"{name}: the types of its parameters are nested too deeply") from exc
    except (PydanticUserError, PydanticUndefinedAnnotation) as exc:
        raise SetupError(f"{name}: {exc}") from exc
    defaults = {p.name: p.default for p in wanted if isinstance(p.default, FieldInfo) and not p.default.is_required()}
    _describe(schema, get_docstring(function), wanted, fields, defaults)
    hide_defaults(schema)
    reserved = get_bound_names(function) | {parameter.name for parameter in every[:skip_first]}
    return Shape(
        validator,
        schema,
        plain,
        extra is not None or any(map(_may_share, fields.values())),
        partial(_make_given, wanted, hints, fields, extra),
        lambda: make_adapter(fields, extra).core_schema,
        defaults,
        frozenset() if extra is None else reserved,
        frozenset(p.name for p in wanted if hints.get(p.name) in _SCALARS and not isinstance(p.default, FieldInfo)),
    )


def _compile(fields: dict[str, Any], extra: Any) -> tuple[SchemaValidator, dict[str, Any]]:
    adapter = make_adapter(fields, extra)
    return make_validator(adapter), drop_titles(adapter.json_schema(schema_generator=SchemaGenerator))


def _join_plain(named: dict[str, Any]) -> tuple[SchemaValidator, dict[str, Any]] | None:
    """Join what is known of builtin types to what `_compile` would make; None if a type is none of these.

    Pydantic needs 0.3 ms for a signature. Most parameters have one of a few types, and each is read once.
    """
    fields: dict[str, Any] = {}
    shown: dict[str, Any] = {}
    for name, field in named.items():
        optional = get_origin(field) is typing_extensions.NotRequired
        hint = get_args(field)[0] if optional else field
        if optional and type(getattr(hint, "__metadata__", (None,))[0]) is _Own:
            hint = hint.__origin__
        text = repr(hint)  # a builtin type's text says all of it; ``int | str`` and ``str | int`` are equal otherwise
        if "Annotated[" in text:  # its metadata may be anything
            return None
        core, schema = _BUILTINS.get(text) or _read_builtin(text, hint)
        fields[name] = {**core, "required": not optional}
        shown[name] = copy_containers(schema)
    validator = SchemaValidator(cast("Any", {**_empty(), "fields": fields}))
    required = [name for name, field in fields.items() if field["required"]]
    of_required = {"required": required} if required else {}
    return validator, {"additionalProperties": False, "properties": shown, **of_required, "type": "object"}


def _read_builtin(text: str, hint: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read a type as one field: its core schema, and its JSON Schema."""
    adapter = make_adapter({_VALUE: hint}, None)
    core: Any = adapter.core_schema
    schema = drop_titles(adapter.json_schema(schema_generator=SchemaGenerator))
    known = core["fields"][_VALUE], schema["properties"][_VALUE]
    if len(_BUILTINS) < _MAX_BUILTINS:
        _BUILTINS[text] = known
    return known


@cache
def _empty() -> Any:
    """The core schema of no parameters. Its reference, to which nothing leads, is left out."""
    return {key: value for key, value in cast("Any", make_adapter({}, None).core_schema).items() if key != "ref"}


def _list_fields(wanted: list[inspect.Parameter], hints: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return the type of each parameter, and the type of ``**kwargs`` or None."""
    fields: dict[str, Any] = {}
    known: Known = {}
    extra: Any = None
    for parameter in wanted:
        hint = hints.get(parameter.name, Any)
        if parameter.kind is not parameter.VAR_KEYWORD:
            fields[parameter.name] = _make_field(adapt_annotation(hint, known), parameter)
        elif get_origin(hint) is typing_extensions.Unpack:  # **options: Unpack[SomeTypedDict] declares each name
            named = get_args(hint)[0]
            optional = cast("frozenset[str]", named.__optional_keys__)
            for key, annotation in get_type_hints(named, include_extras=True).items():
                inner = adapt_annotation(annotation, known)
                fields[key] = _leave_out(inner) if key in optional else inner
        else:
            extra = Any if hint is object else adapt_annotation(hint, known)
    return fields, extra


def _make_field(hint: Any, parameter: inspect.Parameter) -> Any:
    """Return a parameter's type with the metadata of a Field default; not required if there is a default."""
    default = parameter.default
    required = default is parameter.empty
    if isinstance(default, FieldInfo):
        kept = {key: value for key in _KEPT if (value := getattr(default, key)) is not None}
        hint = Annotated[hint, *default.metadata, FieldInfo(**cast("Any", kept))]
        required = default.is_required()
    return hint if required else _leave_out(hint)


def _leave_out(hint: Any) -> Any:
    """Mark a parameter's type as not required. If it has parts, the result is unequal to all others, see `_Own`."""
    return typing_extensions.NotRequired[hint if isinstance(hint, type) else Annotated[hint, _Own()]]


class _Own:
    """Makes a type unequal to others: ``str | date`` equals ``date | str``, and typing would return its cached type."""


def _make_given(
    wanted: list[inspect.Parameter], hints: dict[str, Any], fields: dict[str, Any], extra: Any
) -> SchemaValidator:
    given = dict(fields)
    for parameter in wanted:
        if (field := fields.get(parameter.name)) is not None:
            hint = hints.get(parameter.name, Any)
            given[parameter.name] = _make_field(accept_given(hint, _read_json_of(field)), parameter)
    return make_validator(make_adapter(given, extra), of_json=False)


def _read_json_of(field: Any) -> Callable[[object], Any]:
    """Make a function that reads one value in its JSON form."""
    hint = get_args(field)[0] if get_origin(field) is typing_extensions.NotRequired else field

    @cache
    def compile_once() -> SchemaValidator:
        return make_validator(make_adapter({_VALUE: hint}, None))

    def read_json(value: object) -> Any:
        return compile_once().validate_json(to_json({_VALUE: value}), strict=True)[_VALUE]

    return read_json


def make_adapter(fields: dict[str, Any], extra: Any) -> TypeAdapter[Any]:
    """Make pydantic's type of the arguments: these fields, and any others of type ``extra``; None: no others."""
    make: Any = typing_extensions.TypedDict  # as Any: type checkers accept only literals here
    if extra is None or extra is Any:
        shape: Any = make("Arguments", fields)
    else:
        shape = make("Arguments", fields, extra_items=extra)
    shape.__pydantic_config__ = DECLARED if extra is None else ANYTHING
    return TypeAdapter(shape)


def _read_hints(function: Callable[..., Any], wanted: list[inspect.Parameter]) -> dict[str, Any]:
    """Resolve the annotations of these parameters only: the context's and the return type may not exist at run time."""
    written = {p.name: p.annotation for p in wanted if p.annotation is not p.empty}
    holder = types.SimpleNamespace(__annotations__=written)
    return get_type_hints(holder, getattr(unwrap(function), "__globals__", {}), include_extras=True)


def _may_share(hint: Any) -> bool:
    """Whether a value of the type may contain objects that pydantic does not read, and so does not copy."""
    return hint in (Any, object, list, dict) if get_origin(hint) is None else any(map(_may_share, get_args(hint)))


def _is_plain(hint: Any) -> bool:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Annotated, typing_extensions.NotRequired):
        return _is_plain(args[0])
    if origin is Literal:
        return all(type(arg) in _PLAIN for arg in args)
    if origin is dict:
        return args[0] is str and _is_plain(args[1])  # keys of other types are text in JSON, not in Python
    if origin in (list, Union, types.UnionType):
        return all(map(_is_plain, args))
    return origin is None and (hint in (list, dict) or (hint.__hash__ is not None and hint in _PLAIN))


def _describe(
    schema: dict[str, Any],
    text: str,
    wanted: list[inspect.Parameter],
    fields: dict[str, Any],
    defaults: dict[str, FieldInfo],
) -> None:
    """Add the descriptions from the function's docstring, and its defaults."""
    descriptions = read_parameters(text)
    schema.pop("description", None)
    properties: dict[str, dict[str, Any]] = schema.setdefault("properties", {})
    for parameter in wanted:
        if parameter.kind is parameter.VAR_KEYWORD and parameter.name in descriptions:
            more: Any = schema.get("additionalProperties")
            if more is not False:  # it is False if a TypedDict declares all names
                kinds: dict[str, Any] = {} if more is True else more
                schema["additionalProperties"] = {**kinds, "description": descriptions[parameter.name]}
        entry = properties.get(_find_alias(fields.get(parameter.name)) or parameter.name)
        if entry is None:
            continue
        if parameter.name in descriptions:
            entry.setdefault("description", descriptions[parameter.name])
        default = defaults[parameter.name].default if parameter.name in defaults else parameter.default
        if default is not parameter.empty:
            show_default(default, entry, schema)


def _find_alias(hint: Any) -> str | None:
    """Return the alias in a parameter's Field; None if it has none."""
    if get_origin(hint) is typing_extensions.NotRequired:
        return _find_alias(get_args(hint)[0])
    for extra in getattr(hint, "__metadata__", ()):
        if isinstance(extra, FieldInfo) and isinstance(extra.validation_alias, str):
            return extra.validation_alias
    return None

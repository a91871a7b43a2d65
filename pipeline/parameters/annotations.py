"""Types that pydantic refuses or takes too easily, as ones that it reads by our rules. Imported with `signature`."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import attrs
import typing_extensions
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError, from_json, to_json

from ..errors import SetupError
from .problems import options

# JSON has no NaN. By name too: whoever calls pipeline.run writes python's name and not an alias.
DECLARED: ConfigDict = {
    "strict": True,
    "extra": "forbid",
    "allow_inf_nan": False,
    "validate_by_name": True,
    "validate_by_alias": True,
}
ANYTHING: ConfigDict = {**DECLARED, "extra": "allow"}
_CHECK: Final = "it does not pass the tool's own check"
Known: TypeAlias = dict[type[Any], Any]  # attrs classes met before: they may hold each other, or themselves


def bridged(hint: Any, known: Known) -> Any:
    """The hint with every attrs class in it made known to pydantic, and literals and enums compared by type too."""
    if _is_attrs(hint):
        return _attrs(hint, known)
    if values := _choices(hint):
        return _exactly(hint, values)
    origin, args = get_origin(hint), get_args(hint)
    if not args:
        return hint
    if origin is Annotated:
        return Annotated[bridged(args[0], known), *args[1:]]
    inner: tuple[Any, ...] = tuple(bridged(arg, known) for arg in args)
    if inner == args:
        return hint
    if origin in (Union, types.UnionType):
        return Union[inner]  # noqa: UP007  # of as many as there are
    return origin[inner]


def _is_attrs(hint: Any) -> bool:
    return attrs.has(hint) and not hasattr(hint, "__get_pydantic_core_schema__")


def _choices(hint: Any) -> list[Any]:
    if isinstance(hint, type) and issubclass(hint, Enum):
        own_lookup = any("_missing_" in vars(base) for base in hint.__mro__ if base is not Enum)  # a Flag has one
        return [] if own_lookup else [member.value for member in hint]
    return list(get_args(hint)) if get_origin(hint) is Literal else []


def as_json(value: object) -> object:
    """A default as JSON. Raises ValueError for what JSON cannot hold."""
    return from_json(to_json(value), allow_inf_nan=False)


def _exactly(hint: Any, values: list[Any]) -> Any:
    """Pydantic compares by ``==``: to it True is 1, and so is 1.0."""
    allowed = {(type(value), value) for value in values if isinstance(value, (bool, int, float))}
    if not allowed:
        return hint
    allowed |= {(int, int(value)) for _, value in allowed if isinstance(value, float) and value.is_integer()}
    wanted = options(values)

    def check(value: object) -> object:
        if isinstance(value, (bool, int, float)) and (type(value), value) not in allowed:
            raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": wanted})
        return value

    return Annotated[hint, BeforeValidator(check)]


def _attrs(cls: Any, known: Known) -> Any:
    """A TypedDict of the class's own fields, then the class itself."""
    if cls in known:
        return known[cls]
    if not isinstance(cls, type):
        raise SetupError(f"{cls} is a generic attrs class, which has no JSON Schema: make it a dataclass")
    make: Any = typing_extensions.TypedDict  # the checkers know the name, and want a literal
    shape: Any = make(cls.__name__, {})
    shape.__pydantic_config__ = DECLARED
    shape.__doc__ = inspect.getdoc(cls) if "__doc__" in vars(cls) else None
    known[cls] = Annotated[shape, AfterValidator(_built(cls))]
    hints = get_type_hints(cls, include_extras=True)
    fields = {field.alias or field.name: field for field in attrs.fields(cls) if field.init}
    shape.__annotations__ = {
        name: _with_default(bridged(hints.get(field.name, Any), known), field.default) for name, field in fields.items()
    }
    shape.__required_keys__ = frozenset(name for name, field in fields.items() if field.default is attrs.NOTHING)
    shape.__optional_keys__ = frozenset(fields) - shape.__required_keys__
    return known[cls]


def _built(cls: type[Any]) -> Callable[[dict[str, Any]], Any]:
    def build(values: dict[str, Any]) -> Any:
        try:
            return cls(**values)
        except TypeError as exc:  # attrs' own validators say it so, with a class name that is nobody's business
            raise PydanticCustomError("validator", _CHECK) from exc

    return build


def _with_default(hint: Any, default: Any) -> Any:
    if default is attrs.NOTHING:
        return hint
    try:
        shown = typing.cast("Any", as_json(default))
    except ValueError:  # a factory, or another value that JSON cannot hold
        return hint
    return Annotated[hint, Field(json_schema_extra={"default": shown})]

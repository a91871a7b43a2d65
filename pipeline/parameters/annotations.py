"""Replace annotations that pydantic refuses, or reads too freely, by ones that follow our rules."""

from __future__ import annotations

import inspect
import types
from collections import abc
from enum import Enum, Flag
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, cast, get_args, get_origin, get_type_hints

import attrs
import typing_extensions
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from ..base.setup_error import SetupError
from .problems import FAILED_CHECK, describe_options
from .schema_generator import flag_mask, to_json_value

# JSON has no NaN. Fields are also read by name: a caller of `Pipeline.run` writes the Python name, not the alias.
DECLARED: Final[ConfigDict] = {
    "strict": True,
    "extra": "forbid",
    "allow_inf_nan": False,
    "validate_by_name": True,
    "validate_by_alias": True,
}
_LISTS: Final = (abc.Collection, abc.Container, abc.Reversible)  # pydantic knows Iterable and Sequence only
_LIST: Any = list  # type checkers do not accept a variable as a type
_READ_ONCE: Final = (  # refused: a repeated attempt has to read the value again
    abc.Iterator,
    abc.Generator,
    abc.AsyncIterable,
    abc.AsyncIterator,
    abc.AsyncGenerator,
    abc.Awaitable,
    abc.Coroutine,
)
ANYTHING: Final[ConfigDict] = {**DECLARED, "extra": "allow"}  # for a function with **kwargs
Known: TypeAlias = dict[type[Any], Any]  # attrs classes adapted so far: they may refer to each other or to themselves


@attrs.frozen(eq=False)
class BuildAttrs:
    """Makes an instance of an attrs class of its validated fields."""

    cls: type[Any]

    def __call__(self, values: dict[str, Any]) -> Any:
        """The instance."""
        try:
            return self.cls(**values)
        except TypeError as exc:  # raised by attrs' own validators; its text names a private class
            raise PydanticCustomError("validator", FAILED_CHECK) from exc


def adapt_annotation(hint: Any, known: Known) -> Any:
    """Adapt a type to our rules, with all types inside it.

    An attrs class becomes a type that pydantic can read; literals and enums also compare the type of a value; an
    abstract collection becomes a list.

    Args:
        hint: The annotation.
        known: The attrs classes adapted so far, with their replacements. Each call adds to it; share it within one
            signature.

    Raises:
        SetupError: An attrs class is generic, or a value of the type can be read only once.
    """
    if (choice := _adapt_choice(hint)) is not None:
        return choice
    if _is_attrs(hint):
        return _adapt_attrs(hint, known)
    if (behind := name_behind(hint, known)) is not None:
        known.setdefault(hint, hint)  # a recursive alias: its inner occurrence stays as it is
        adapted = known[hint] = adapt_annotation(behind, known)
        return hint if adapted == behind else adapted
    origin, args = get_origin(hint), get_args(hint)
    _refuse_read_once(hint, origin or hint)
    if (origin or hint) in _LISTS:
        return _LIST[adapt_annotation(args[0], known)] if args else list[Any]
    if not args:
        return hint
    if origin is Annotated:
        return Annotated[adapt_annotation(args[0], known), *args[1:]]
    inner: tuple[Any, ...] = tuple(adapt_annotation(arg, known) for arg in args)
    if inner == args:
        return hint
    if origin in (Union, types.UnionType):
        return Union[inner]  # noqa: UP007  # a union of any number of types
    return origin[inner]


def _refuse_read_once(hint: Any, origin: Any) -> None:
    if origin in _READ_ONCE:
        raise SetupError(f"{hint} can be read only once, and a model sends a whole value: annotate list[...]")


def _adapt_choice(hint: Any) -> Any:
    """Adapt an enum or a ``Literal``. Returns None for every other type."""
    if isinstance(hint, type) and issubclass(hint, Flag):
        return _bound_flag(hint)
    values = _list_choices(hint)
    return _compare_types(hint, values) if values else None


def name_behind(hint: Any, known: Known) -> Any:
    """Return the type behind a NewType or a ``type`` alias; None for other types and for known ones."""
    behind = getattr(hint, "__supertype__", None)
    if isinstance(hint, typing_extensions.TypeAliasType) and not hint.__type_params__:
        behind = hint.__value__
    return None if behind is None or hint in known else behind  # only now look it up: other types may be unhashable


def _bound_flag(cls: type[Flag]) -> Any:
    """Accept sums of a Flag's members only. Pydantic accepts all that ``_missing_`` does: True and negative numbers."""
    mask = flag_mask(cls)

    def check(value: object) -> object:
        if not isinstance(value, cls) and (type(value) is not int or value < 0 or value & ~mask):
            expected = f"a sum of {', '.join(str(member.value) for member in cls)}"
            raise PydanticCustomError("enum", "Input should be {expected}", {"expected": expected})
        return value

    return Annotated[cls, BeforeValidator(check)]


def _is_attrs(hint: Any) -> bool:
    return attrs.has(hint) and not hasattr(hint, "__get_pydantic_core_schema__")


def _list_choices(hint: Any) -> list[Any]:
    if isinstance(hint, type) and issubclass(hint, Enum):
        own_lookup = any("_missing_" in vars(base) for base in hint.__mro__ if base is not Enum)  # as every Flag has
        return [] if own_lookup else [member.value for member in hint]
    choices = list(get_args(hint)) if get_origin(hint) is Literal else []
    return [each.value if isinstance(each, Enum) else each for each in choices]


def _compare_types(hint: Any, values: list[Any]) -> Any:
    """Compare the type of a value too. Pydantic compares by ``==`` alone, and True == 1 == 1.0."""
    allowed = {(type(value), value) for value in values if isinstance(value, (bool, int, float))}
    if not allowed:
        return hint
    allowed |= {(int, int(value)) for _, value in allowed if isinstance(value, float) and value.is_integer()}
    expected = describe_options(values)

    def check(value: object) -> object:
        plain = isinstance(value, (bool, int, float)) and not isinstance(value, Enum)
        if plain and (type(value), value) not in allowed:
            raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": expected})
        return value

    return Annotated[hint, BeforeValidator(check)]


def _adapt_attrs(cls: Any, known: Known) -> Any:
    """Make a TypedDict of an attrs class's fields, whose validated values become an instance of the class."""
    if cls in known:
        return known[cls]
    if not isinstance(cls, type):
        raise SetupError(f"{cls} is a generic attrs class, which has no JSON Schema: make it a dataclass")
    make: Any = typing_extensions.TypedDict  # as Any: type checkers accept only literals here
    shape: Any = make(cls.__name__, {})
    shape.__pydantic_config__ = DECLARED
    shape.__doc__ = inspect.getdoc(cls) if "__doc__" in vars(cls) else None
    known[cls] = Annotated[shape, AfterValidator(BuildAttrs(cls))]
    hints = get_type_hints(cls, include_extras=True)
    fields = {field.alias or field.name: field for field in attrs.fields(cls) if field.init}
    shape.__annotations__ = {
        name: _add_default(adapt_annotation(hints.get(field.name, Any), known), field.default)
        for name, field in fields.items()
    }
    shape.__required_keys__ = frozenset(name for name, field in fields.items() if field.default is attrs.NOTHING)
    shape.__optional_keys__ = frozenset(fields) - shape.__required_keys__
    return known[cls]


def _add_default(hint: Any, default: Any) -> Any:
    if default is attrs.NOTHING:
        return hint
    try:
        shown = cast("Any", to_json_value(default))
    except ValueError:  # a factory, or another value that JSON cannot represent
        return hint
    return Annotated[hint, Field(json_schema_extra={"default": shown})]

"""Accept arguments from a program instead of a model: values of the annotated types stay unchanged.

A model's arguments are JSON, and pydantic's JSON mode reads them. The same way would change a program's values: a
SecretStr becomes ``"**********"`` in JSON, and a subclass may become its base class.
"""

from __future__ import annotations

import types
from collections import abc
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, cast, get_args, get_origin

import attrs
from pydantic import BeforeValidator, InstanceOf, ValidationError, WrapValidator
from pydantic_core import PydanticCustomError

from ..base.foreign_values import or_default
from .annotations import Known, adapt_annotation, name_behind
from .schema import class_of

_Handler: TypeAlias = Callable[[Any], Any]
_LISTS: Final = (abc.Iterable, abc.Collection, abc.Container, abc.Reversible, abc.Sequence)
_LIST: Any = list  # type checkers do not accept a variable as a type
_INSTANCE_OF: Any = InstanceOf
_TEXTS: Final = (str, bytes, bytearray)
_NAMES: Final = frozenset((str,))
_FEW: Final = 16  # values that are looked at as fast one by one
_DICT: Any = dict
_DICTS: Final = frozenset((_DICT,))
_values: Callable[[dict[str, Any]], Iterable[Any]] = _DICT.values
_SCALARS: Final = frozenset((str, int, float, bool, type(None)))


def is_json(value: object, arrays: tuple[type, ...] = (list,)) -> bool:
    """Whether a value consists of JSON's types only, as a model's arguments do. Subclasses of them do not count.

    Args:
        value: Any value, even one that contains itself.
        arrays: The types that count as an array.
    """
    parts: list[Any] = [value]
    seen: set[int] = set()
    for part in parts:  # grows
        kind = class_of(part)
        if kind is dict:
            if not _NAMES.issuperset(map(type, part)):
                return False
            inner = part.values()
        elif kind in arrays:
            inner = part
        elif kind in _SCALARS:
            continue
        else:
            return False
        if not _SCALARS.issuperset(map(type, inner)) and id(part) not in seen:  # most hold nothing but scalars
            seen.add(id(part))
            if len(inner) <= _FEW or not _are_flat(inner):
                parts += inner
    return True


def _are_flat(values: Iterable[Any]) -> bool:
    """Whether all are dicts with nothing but text as names and scalars as values. Looked at in C: most arrays are."""
    return (
        _DICTS.issuperset(map(type, values))
        and _NAMES.issuperset(map(type, chain.from_iterable(values)))
        and _SCALARS.issuperset(map(type, chain.from_iterable(map(_values, values))))
    )


def accept_given(hint: Any, read_json: Callable[[object], Any]) -> Any:
    """Adapt a parameter's type to accept an instance unchanged, or else the JSON form of one.

    Args:
        hint: The annotation as the function has it.
        read_json: Converts a value of JSON's types to an instance of that type.
    """

    def accept(value: Any, check: _Handler) -> Any:
        try:
            checked = check(value)
        except ValidationError:
            if not is_json(value, (list, tuple)):
                raise
            return read_json(value)
        return value if _is_unchanged(value, checked) else checked

    return Annotated[_adapt(hint, {}), WrapValidator(accept)]


@or_default(default=False)
def _is_unchanged(value: Any, checked: Any) -> bool:
    """Whether pydantic returned a mere copy, perhaps cut to the base class; then the given value is passed on."""
    if value is checked:
        return True
    return isinstance(value, type(checked)) and bool(value == checked)


def _adapt(hint: Any, known: Known) -> Any:
    """Adapt a type, with all types inside it, so that strict validation of Python values accepts an instance."""
    if (behind := name_behind(hint, known)) is not None:
        known[hint] = hint
        adapted = known[hint] = _adapt(behind, known)
        return hint if adapted == behind else adapted
    origin: Any = get_origin(hint)
    args = get_args(hint)
    if (origin or hint) in _LISTS:
        return Annotated[_LIST[_adapt(args[0], known) if args else Any], WrapValidator(_accept_items)]
    if attrs.has(hint) and not hasattr(hint, "__get_pydantic_core_schema__"):
        return _INSTANCE_OF[hint]
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(cast("object", hint), "_fields"):
        return Annotated[cast("Any", hint), WrapValidator(_accept_instance_of(cast("Any", hint)))]
    if origin is Literal:
        return adapt_annotation(hint, {})
    if hint is float:
        return Annotated[float, BeforeValidator(_refuse_rounding)]
    if not args:
        return cast("Any", hint)
    if origin is Annotated:
        return Annotated[_adapt(args[0], known), *args[1:]]
    inner_args: tuple[Any, ...] = tuple(_adapt(arg, known) for arg in args)
    if inner_args == args:
        return cast("Any", hint)
    return Union[inner_args] if origin in (Union, types.UnionType) else origin[inner_args]  # noqa: UP007  # any number


@or_default(default=False)  # a foreign ``__float__`` may raise anything
def _is_exact_float(value: Any) -> bool:
    return bool(float(value) == value)


def _refuse_rounding(value: Any) -> Any:
    """Refuse a Decimal or other number that pydantic would round to a float."""
    if isinstance(value, (int, float)) or not hasattr(value, "__float__"):
        return value
    if not _is_exact_float(value):
        raise PydanticCustomError("float_type", "Input should be a valid number")
    return value


def _accept_instance_of(cls: type[Any]) -> Callable[[Any, _Handler], Any]:
    """Accept a named tuple unchanged. Pydantic would make a new one, of the annotated base class."""
    return lambda value, check: value if isinstance(value, cls) else check(value)


def _accept_items(value: Any, check: _Handler) -> Any:
    """Check the items of any iterable except text; an iterator, which can be read only once, becomes a list."""
    given: Any = value
    if isinstance(value, _TEXTS) or not isinstance(value, abc.Iterable):
        return check(given)
    items = list(cast("abc.Iterable[Any]", value))
    checked = check(items)
    return given if isinstance(value, abc.Collection) and _is_unchanged(items, checked) else checked

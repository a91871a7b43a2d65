"""Handlers of tools that are made from a JSON Schema: called by keyword or with one mapping, as the signature says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any, Final, get_origin

import attrs

from ..base.introspection import get_open_parameters, is_async
from ..base.setup_error import SetupError
from ..parameters.schema import forms_at, is_object, names_of

_BY_POSITION: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_STARS: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_NO_MAPPINGS: Final = ("str", "bytes", "int", "float", "bool", "list", "tuple", "set")  # types of a parameter
_CONDITIONAL: Final = ("if", "then", "else")  # keywords whose schemas may declare properties as well


def adapt_handler(
    name: str, handler: Callable[..., Any], schema: Mapping[str, Any] | None, *, context: bool
) -> Callable[..., Any]:
    """Return what a pipeline calls with the arguments as keyword arguments: the handler, or a wrapper of it.

    A handler takes one mapping if it has one parameter by position that is no property of the schema, takes none of
    the properties by keyword, and does not annotate it as something else. A parameter that has a default is left alone
    where a schema declares no property: it was bound there, as in ``lambda item=item: …``.

    Raises:
        SetupError: Each call would fail: the handler wants a parameter that is no property of the schema.
    """
    try:
        left = get_open_parameters(handler)[context:]
    except SetupError:
        return handler
    names = _read_names(schema or {})
    by_name = {each.name for each in left if each.kind not in (Parameter.POSITIONAL_ONLY, *_STARS)}
    takes_any = any(each.kind is Parameter.VAR_KEYWORD for each in left)
    unfilled = [
        each
        for each in left
        if each.kind not in _STARS
        and each.default is Parameter.empty
        and (each.kind is Parameter.POSITIONAL_ONLY or each.name not in names)
    ]
    if not takes_any and not by_name & names and _takes_one(left, unfilled, names, schema):
        return (_WithMappingAsync if is_async(handler) else _WithMapping)(handler)
    if unfilled and names:  # of a schema without properties nothing is known
        raise SetupError(
            f"{name}: the handler needs {unfilled[0].name}, which a model cannot send: the schema declares "
            f"{', '.join(sorted(names))}. Take the properties by keyword, or all of them in one parameter of another "
            "name, as `def handler(arguments)`"
        )
    return handler


def _takes_one(
    left: list[Parameter], unfilled: list[Parameter], names: set[str], schema: Mapping[str, Any] | None
) -> bool:
    places = unfilled or [each for each in left if each.kind in _BY_POSITION]
    if len(places) != 1 or places[0].kind not in _BY_POSITION or places[0].name in names:
        return False
    if not unfilled and schema is not None and not names:
        return False
    annotation = places[0].annotation
    kind = get_origin(annotation) or annotation
    return (kind.partition("[")[0] if isinstance(kind, str) else getattr(kind, "__name__", "")) not in _NO_MAPPINGS


def _read_names(schema: Mapping[str, Any]) -> set[str]:
    """The properties that a schema declares or requires, its branches included."""
    forms = forms_at(schema, ())
    inner = [form[key] for form in forms for key in _CONDITIONAL if key in form]
    dependent = (form.get("dependentSchemas") for form in forms)  # checked by its draft: older ones do not know it
    inner += [each for held in dependent if is_object(held) for each in held.values()]
    names = {name for form in forms for name in (*form.get("properties", ()), *form.get("required", ()))}
    for node in inner:
        names |= names_of(schema, node)
    return names


@attrs.frozen
class _WithMapping:
    """Calls a handler with one mapping. A class, since it has to pickle for another process."""

    __wrapped__: Callable[..., Any]

    def __call__(self, *context: Any, **arguments: Any) -> Any:
        return self.__wrapped__(*context, arguments)


class _WithMappingAsync(_WithMapping):
    async def __call__(self, *context: Any, **arguments: Any) -> Any:
        return await self.__wrapped__(*context, arguments)

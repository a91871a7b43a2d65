"""The arguments of a call as plain JSON values, for the conditions of a rule."""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from ..base.introspection import get_open_parameters
from ..engine.call import ValidCall
from ..tools.definition import Tool

if TYPE_CHECKING:
    from pydantic_core import SchemaSerializer

_DICT: Any = dict  # under this name type checkers do not narrow to `dict[Unknown, Unknown]`


def make_plain_arguments(call: ValidCall) -> dict[str, Any]:
    """The arguments as the tool would get them, by parameter name, also defaults, as plain JSON values.

    A Decimal becomes a number, so that ``minimum`` holds for it; a set becomes an array, and bytes become base64.
    """
    from pydantic_core import to_jsonable_python  # 100 ms, and most pipelines do without

    params = {**_read_defaults(call.tool), **call.params}
    python = _get_serializer().to_python(params, warnings="none")
    return cast(
        "dict[str, Any]",
        to_jsonable_python(_as_numbers(python), bytes_mode="base64", inf_nan_mode="constants", fallback=str),
    )


@cache
def _get_serializer() -> SchemaSerializer:
    """A serializer for values of any type; to make one takes 50 times as long as to use it."""
    from pydantic_core import SchemaSerializer, core_schema

    return SchemaSerializer(core_schema.any_schema())


def _read_defaults(tool: Tool[..., Any]) -> dict[str, Any]:
    """The defaults of the parameters: of the function, else of a schema. A `Field` has put its own into the params."""
    shown: Any = tool.parameters.schema.get("properties", {})
    found: dict[str, Any] = {
        name: each["default"]
        for name, each in shown.items()
        if type(each) is _DICT and "default" in each  # a schema may be true
    }
    for parameter in get_open_parameters(tool.fn):
        if parameter.default is not parameter.empty and type(parameter.default).__name__ != "FieldInfo":
            found[parameter.name] = parameter.default
    return found


def _as_numbers(value: Any) -> Any:
    if isinstance(value, Decimal) and value.is_finite():
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {key: _as_numbers(each) for key, each in cast("dict[Any, Any]", value).items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_as_numbers(each) for each in cast("list[Any]", value)]
    return value

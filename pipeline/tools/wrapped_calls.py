"""Calls inside of a call: models of OpenAI's write several as one of ``multi_tool_use.parallel``, which is no tool.

The name was in the prompt that they were trained with. Each item of ``tool_uses`` has a ``recipient_name``, such as
``functions.read_file``, and its ``parameters``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from ..engine.call import Call
from ..parameters.limits import Limits
from ..parameters.reading import read_arguments
from ..parameters.schema import is_array, is_object

_BOUNDS = Limits()
_MOST = 50  # calls in one


def read_wrapped(arguments: object) -> list[tuple[str, dict[str, Any]]]:
    """The names and arguments of the calls in a call; none if one of them is no call."""
    if type(arguments) not in (dict, str) or _BOUNDS.check(arguments) is not None:
        return []
    items: Any = (read_arguments(arguments) or {}).get("tool_uses")
    if not is_array(items) or len(items) > _MOST:
        return []
    found: list[tuple[str, dict[str, Any]]] = []
    for item in items:
        call: Any = item if is_object(item) else {}
        name, parameters = call.get("recipient_name"), call.get("parameters", {})
        if type(name) is not str or not name or not is_object(parameters):
            return []
        found.append((name, parameters))
    return found


def unwrap_calls(calls: Iterable[Call], wrapper: str) -> list[Call]:
    """The calls, with those that one of them holds in its place.

    The first of these has its id, and each further one has a number behind it.
    """
    unwrapped: list[Call] = []
    for call in calls:
        found = read_wrapped(call.arguments) if call.name == wrapper else []
        for number, (name, arguments) in enumerate(found, 1):
            id_ = f"{call.id}_{number}" if call.id and number > 1 else call.id
            unwrapped.append(attrs.evolve(call, name=name.removeprefix("functions."), arguments=arguments, id=id_))
        if not found:
            unwrapped.append(call)
    return unwrapped

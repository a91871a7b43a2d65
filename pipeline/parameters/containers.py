"""Copies of the lists and dicts in arguments: what a tool does to its own must not reach the caller's."""

from __future__ import annotations

from typing import Any, cast

_CONTAINERS = frozenset((dict, list, tuple, set))


def copy_containers(params: dict[str, Any]) -> dict[str, Any]:
    """Copy arguments with all dicts, lists, tuples and sets in them. Objects of other classes stay the same objects.

    Returns:
        The copy; the arguments themselves where they are nested too deeply for Python.
    """
    try:
        return cast("dict[str, Any]", _copy(params, {}))
    except RecursionError:
        return params


def _copy(value: Any, known: dict[int, Any]) -> Any:
    kind = cast("type[Any]", type(value))
    if kind not in _CONTAINERS:
        return value
    made: Any = known.get(id(value))
    if made is not None:  # it stands in two places, or holds itself
        return made
    if kind is dict:
        made = known[id(value)] = {}
        for key, each in value.items():
            made[key] = each if type(each) not in _CONTAINERS else _copy(each, known)
    elif kind is list:
        made = known[id(value)] = []
        made += [each if type(each) not in _CONTAINERS else _copy(each, known) for each in value]
    else:
        made = known[id(value)] = kind(_copy(each, known) for each in value)
    return made

"""Finds names of tools in options that no registry of a pipeline has, and options of tools that no stage reads."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

from ...base.setup_error import SetupError
from ...messages.wording import Wording
from ...privacy.safe_logs import get_logger
from ...tools.view import ToolView
from .promises import LACKS_CHECK, has_check
from .stage import Stage

# Of `toolcall_pipeline.builtin`: they need the pipeline.
_INSTALLED_LATER = frozenset(("batch", "invalid", "read_result"))
_OF_A_SERVER = "; it may be one of a server that does not offer it now"
_logger = get_logger()


class _Named(NamedTuple):
    """A name that no registry has."""

    text: str  # what names it, and what may have been meant
    may_come: bool  # a server that was added may still offer such a tool


def check_tool_names(stages: Sequence[Stage], registries: Sequence[ToolView], wording: Wording | None) -> bool:
    """Check the names of tools that `Placement.tool_options`, ``verify_with=`` and the keys of templates hold.

    Returns:
        Whether anything is known: not without a registry that holds a tool. Then `log_unknown_names` is for later.

    Raises:
        SetupError: No registry has a tool of that name. If it may be one of a server, that is a warning in the log.
    """
    known = _list_known(registries)
    for named in _find_unknown(stages, registries, wording, known) if known else ():
        if not named.may_come:
            raise SetupError(named.text)
        _warn(named.text)
    return bool(known)


def log_unknown_names(stages: Sequence[Stage], registries: Sequence[ToolView], wording: Wording | None) -> bool:
    """As `check_tool_names`, at a time when nothing may be raised: each such name is an error in the log."""
    known = _list_known(registries)
    for named in _find_unknown(stages, registries, wording, known) if known else ():
        level = logging.WARNING if named.may_come else logging.ERROR
        _logger.log(level, "%s%s", named.text, _OF_A_SERVER if named.may_come else "")
    return bool(known)


def _list_known(registries: Sequence[ToolView]) -> set[str]:
    return {name for registry in registries for name in registry.tools} - _INSTALLED_LATER


def _find_unknown(
    stages: Sequence[Stage], registries: Sequence[ToolView], wording: Wording | None, known: set[str]
) -> Iterator[_Named]:
    tools = [tool for registry in registries for tool in registry]
    if not has_check(stages):
        for tool in (tool for tool in tools if tool.ensure is not None):
            yield _Named(f"tool {tool.name!r}: {LACKS_CHECK}", may_come=False)
    of_servers = {tool.name for tool in tools if tool.is_remote}
    for where, name in _list_names(stages, registries, wording):
        if name not in known and name not in _INSTALLED_LATER:
            from difflib import get_close_matches  # only here

            near = get_close_matches(name, sorted(known), 1)
            hint = f"did you mean {near[0]!r}?" if near else "register it before the pipeline is built"
            may_come = bool(of_servers) and (not near or near[0] in of_servers)
            yield _Named(f"{where} names {name!r}, and there is no such tool; {hint}", may_come)


def _list_names(
    stages: Sequence[Stage], registries: Sequence[ToolView], wording: Wording | None
) -> Iterator[tuple[str, str]]:
    """Each name of a tool, behind what names it."""
    for stage in stages:
        for option in stage.placement.tool_options:
            attribute, _, part = option.partition(".")
            given: Any = getattr(stage.obj, attribute, None)
            if hasattr(given, "list_tool_names"):  # the rules of a policy
                yield from given.list_tool_names()
            elif isinstance(given, Collection):
                names = (
                    cast("Mapping[Any, str]", given).values() if part == "values" else cast("Collection[str]", given)
                )
                where = f"{stage.name}: `{attribute}`"
                yield from ((where, name) for name in names if part != "patterns" or not is_pattern(name))
    for registry in registries:
        yield from ((f"tool {tool.name!r}: `verify_with`", tool.verify_with) for tool in registry if tool.verify_with)
    for key, tool in () if wording is None else wording.list_tool_names():
        if not is_pattern(tool):
            yield f"Wording: `templates`: the key {key!r}", tool


def is_pattern(name: str) -> bool:
    """Whether it may stand for many names, as ``delete_*`` does."""
    return any(each in name for each in "*?[")


@lru_cache(1024)
def _warn(text: str) -> None:
    """Once for each text: a pipeline that is changed is built again."""
    _logger.warning("%s%s", text, _OF_A_SERVER)

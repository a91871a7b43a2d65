"""Variants: the text of each profile and verbosity for a case, and the texts of other libraries."""

from __future__ import annotations

from collections.abc import Mapping

import anyio

from benchmarks.texts.cases import Case
from toolcall_pipeline import Call, Outcome, SetupError, Tool, ToolRegistry, is_failure, render
from toolcall_pipeline.messages.profiles import PROFILES
from toolcall_pipeline.middlewares import standard

_VERBOSITIES = ("terse", "normal", "full")
OURS = "default"
PROFILES_AND_VERBOSITIES = (OURS, "terse", "full", *(name for name in PROFILES if name != OURS))


async def echo(**arguments: object) -> object:
    """Return what the tool received."""
    return arguments


def texts_of(case: Case, own: Mapping[str, Mapping[str, str]] = {}) -> dict[str, str]:
    """The text of each variant for the first call of a case; none for a call that the pipeline repairs.

    Args:
        case: The case.
        own: Further texts: the text by the id of the case, by variant. Default: none.
    """
    outcome: Outcome[object] = anyio.run(standard(_make_registry(case)), Call(case.called, case.arguments, "call_1"))
    if not is_failure(outcome):
        return {}
    texts: dict[str, str] = {name: _render(outcome, name, case.called) for name in PROFILES_AND_VERBOSITIES}
    return texts | dict(case.peers) | {name: by_case[case.id] for name, by_case in own.items() if case.id in by_case}


def check_names(names: list[str], known: list[str]) -> None:
    """Raise SetupError for a variant that there is not."""
    if unknown := [name for name in names if name not in known]:
        raise SetupError(f"unknown variant {unknown[0]!r}; known: {', '.join(known)}")


def _render(outcome: Outcome[object], name: str, tool: str) -> str:
    if name in _VERBOSITIES:
        return render(outcome, verbosity=name)
    return render(outcome, profile=name, tool=tool)


def _make_registry(case: Case) -> ToolRegistry:
    tools = ToolRegistry()
    for each in case.tools:
        tools.register(
            Tool.from_schema(
                name=each["name"],
                parameters=each["parameters"],
                handler=echo,
                description=each["description"],
                effect="read",
            )
        )
    return tools

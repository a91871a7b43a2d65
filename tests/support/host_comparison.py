"""Compares what a framework runs without the pipeline with what it runs with it; see `host_signatures`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import attrs

from host_signatures import Ran, make_calls, make_signature
from toolcall_pipeline import Wording
from toolcall_pipeline.messages import Profile

# A profile of a user's own, and what it tells a model of a call without `a`, and of a name that is a little wrong.
MINE = Wording(Profile("mine", {"validation": "MINE {tool}", "unknown_tool": "MINE, try {suggestions}"}, hints=False))
TOLD_OF_ADD, TOLD_OF_AD = "MINE add", "MINE, try add"

# Runs one call of a tool in the framework: its arguments, and whether with the pipeline.
RunCall = Callable[[dict[str, Any], bool], Awaitable[object]]


@attrs.define
class Comparison:
    """Counts of one comparison.

    Attributes:
        calls: Compared calls.
        ran: Those that ran without the pipeline.
        ran_with: Those that ran with it.
        refused: Those that ran without it and not with it, with the arguments.
        differ: Those that ran with other values, or another number of times.
        not_taken: Signatures that the framework itself does not take.
        unchecked: Calls that the framework handed on though they break the types of the function.
    """

    calls: int = 0
    ran: int = 0
    ran_with: int = 0
    refused: list[str] = attrs.field(factory=list[str])
    differ: list[str] = attrs.field(factory=list[str])
    not_taken: list[str] = attrs.field(factory=list[str])
    unchecked: int = 0

    def __str__(self) -> str:
        shown = [f"{self.calls} calls, {self.ran} ran without, {self.ran_with} with the pipeline"]
        shown += [f"{len(self.refused)} refused, {len(self.differ)} differ, {len(self.not_taken)} signatures not taken"]
        shown += [f"{self.unchecked} handed on unchecked"] if self.unchecked else []
        return "; ".join(shown)


async def compare(
    make_runner: Callable[[Any], Awaitable[RunCall]],
    signatures: int = 60,
    calls: int = 30,
    breaks_types: Callable[[Any, dict[str, Any]], bool] | None = None,
) -> Comparison:
    """Run each call of each signature without the pipeline and with it.

    Args:
        make_runner: Makes, for the function of a tool, what runs one call: its arguments, and whether with the
            pipeline. It raises if the framework does not take the signature. A run may raise.
        signatures: How many.
        calls: How many of each.
        breaks_types: Whether arguments break the types of a function; for a framework that does not look at them.
    """
    found = Comparison()
    for number in range(signatures):
        make, parameters = make_signature(number)
        ran = Ran()
        function = make(ran)
        try:
            run = await make_runner(function)
        except Exception as exc:  # a type of which the framework makes no schema
            found.not_taken.append(f"{number}: {type(exc).__name__}: {str(exc)[:200]}")
            continue
        for sent in make_calls(number, parameters, calls):
            seen: list[list[str]] = []
            for ours in (False, True):
                ran.values.clear()
                with suppress(Exception):  # the run dies
                    await run(sent, ours)
                seen.append([*ran.values])
            without, with_ = seen
            found.calls += 1
            found.ran += bool(without)
            found.ran_with += bool(with_)
            if not without or without == with_:
                continue
            if breaks_types is not None and breaks_types(function, sent):
                found.unchecked += 1
                continue
            (found.differ if with_ else found.refused).append(f"{number}: {sent}: {without} -> {with_}")
    return found

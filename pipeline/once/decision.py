"""The decision: what becomes of a call, by what is known of its delivery and of calls that ask for the same.

It is the table of ONCE.md, as code. Two drivers ask it whether a call was asked before: the memory of this process
(`in_process`, `turn_guard`), and a store (`Ledger`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from ..engine.errors import Landed
    from ..tools.tool_options import Effect

Arrival: TypeAlias = Literal["runs", "ended", "lost", "undecided", "done", "beside", "new"]
Step: TypeAlias = Literal["run", "run with its key", "wait", "answer", "ask", "refuse"]

_COLUMNS: Final[tuple[Effect, ...]] = ("mutating", "keyed", "idempotent", "read")
_TABLE: Final[Mapping[Arrival, tuple[Step, Step, Step, Step]]] = {
    # the same delivery: its body runs; it has ended, and how is known; how is not known, or its owner died
    "runs": ("wait", "wait", "wait", "run"),
    "ended": ("answer", "answer", "answer", "run"),
    "lost": ("ask", "run with its key", "run", "run"),
    # another delivery of an equal intent: it is undecided; it succeeded, and successes are replayed; it runs
    "undecided": ("ask", "run with its key", "run", "run"),
    "done": ("answer", "answer", "answer", "run"),
    "beside": ("run", "run", "run", "run"),
    # all else: the ends of all equal calls are known
    "new": ("run", "run", "run", "run"),
}


def decide(
    arrives: Arrival,
    effect: Effect,
    *,
    is_equal: bool = True,
    found: Landed | None = None,
) -> Step:
    """What becomes of a call.

    Args:
        arrives: What is known of it.
        effect: The effect of its tool.
        is_equal: Whether the other call is strictly equal. One that is loosely equal gives no answer and no key.
        found: What ``verify=`` of the tool said, "maybe" where it cannot tell or there is none. Default: not asked yet.

    Returns:
        ``"ask"``: ask ``verify=``, and then this again. ``"run"``: the other call does not stand in its way.
    """
    step = _TABLE[arrives][_COLUMNS.index(effect)]
    if step == "run with its key" and not is_equal:
        step = "ask"
    if step != "ask" or found is None:
        return step
    if found == "maybe":
        return "refuse"
    return "answer" if found == "yes" and is_equal else "run"

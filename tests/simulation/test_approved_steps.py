"""An approved call at each step of its store: it dies there, fails there, or another process comes in between."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import attrs
import pytest
from returns.result import Success

from simulation.processes import many_processes
from simulation.program import Call, Decide, Fail, History, Program, Resume, Step
from simulation.virtual_time import virtual_time

ASK = Call("p", "wire", {"to": "a"}, "1")
USES: dict[str, Any] = {"as itself": ASK, "as an equal one": attrs.evolve(ASK, id="2"), "resumed": Resume("p")}
AGAIN: tuple[Any, ...] = tuple(attrs.evolve(each, process="q") for each in (ASK, *USES.values()))
ENDS = ["ok", "lost", *(pytest.param(each, marks=pytest.mark.long) for each in ("undone", "lost before", "fails"))]
TOLD = {"ok": "success", "undone": "transient", "fails": "execution"}  # the others say nothing of what they did


@pytest.fixture(autouse=True)
def processes() -> Generator[None]:
    with many_processes():
        yield


def run(*steps: Step, seed: int = 0) -> tuple[History, list[str]]:
    """A history in which all rules of the model hold, and what was told of each of its calls; "": nothing."""
    program = Program(seed, True, ("approve", "audit"), steps)
    with virtual_time() as loop:
        history = History(loop, program)
        broken = loop.run_until_complete(history.run())
    assert not broken, f"{program}\n{broken}"
    return history, [_tell(each.outcome) for each in history.model.arrivals]


def _tell(outcome: Any) -> str:
    if outcome is None:
        return ""
    return "success" if type(outcome) is Success else str(outcome.failure().kind)


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("how", ["killed before", "killed after", "before", "after"])
def test_a_fault_at_each_step_of_a_use(use: Any, end: str, how: str) -> None:
    """One effect at most; who comes again runs what did not begin, or is told of it; the audit has no gap."""
    at, is_reached = 0, True
    while is_reached:
        fault = Fail("p", (*("" for _ in range(at)), how))
        history, told = run(ASK, Decide("p"), fault, attrs.evolve(use, ends=(end,)), *AGAIN)
        bodies, again = history.model.bodies, told[2]
        assert sum(each.landed for each in bodies) <= 1
        known = {"success", "outcome_unknown", TOLD.get(end), "" if how.startswith("killed") else "unavailable"}
        assert again in known, (at, told)
        if not bodies:  # the process died, or lost its store, between the write that it begins and the body
            assert (again, _read_state(history)) == ("outcome_unknown", "begun"), (at, told)
        at, is_reached = at + 1, not history.all[0].faults
    assert at > len(AGAIN)


@pytest.mark.long
@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("end", ["ok", "undone", "lost"])
def test_another_process_at_each_moment_of_a_use(use: Any, end: str) -> None:
    """Whenever the second one comes: one effect, and both are told of it."""
    for ticks in range(0, 300, 5):
        for other in AGAIN[:3]:
            begun = attrs.evolve(use, ends=(end,), ticks=ticks)
            history, told = run(ASK, Decide("p"), begun, other, seed=ticks)
            bodies = history.model.bodies
            assert bodies
            assert sum(each.landed for each in bodies) <= 1
            assert not {"", "permission", "not_found"} & {*told[1:]}, (ticks, told)
            assert told[1:].count("awaiting_approval") <= 1, (ticks, told)  # the second is another wish by then


def _read_state(history: History) -> Any:
    assert history.shared is not None
    entry, _ = history.shared.held[f"ap/{history.model.requests[0].id}"]
    return json.loads(entry.value)["state"]

"""Random histories on virtual time, against a model of the table: nothing twice, no answer of another, all told."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

from simulation.faults import FAULTS
from simulation.processes import many_processes
from simulation.program import search

HISTORIES = int(os.environ.get("TOOLCALL_HISTORIES", "300"))  # as `make torture` sets it
SEED = int(os.environ.get("TOOLCALL_SEED", "0"))  # the first one
_PARTS = 4  # that may run beside each other


@pytest.fixture(autouse=True)
def processes() -> Generator[None]:
    with many_processes():
        yield


@pytest.mark.parametrize("part", range(_PARTS))
def test_no_history_breaks_a_rule(part: int) -> None:
    """Whatever is delivered again, lost, killed or late: no effect twice, no answer of another call, all is told.

    A history that breaks a rule is shown as a program, cut down to the steps that it needs.
    """
    found = search(range(SEED + part, SEED + HISTORIES, _PARTS))
    assert not found, "\n".join(f"{program}\n{'; '.join(broken)}" for program, broken in found)


@pytest.mark.long
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name: str) -> None:
    """Each fault that was put in on purpose is found within 10,000 histories, by a program of at most ten steps."""
    with FAULTS[name]():
        found = search(range(10_000))
    assert found, "no history noticed it"
    program, broken = found[0]
    assert len(program.steps) <= 10, f"{program}\n{broken[0]}"

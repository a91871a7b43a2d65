"""Processes that die at any moment, and those that get one delivery at once: nothing happens twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_kills import kill_processes, race

pytestmark = pytest.mark.long


@pytest.mark.parametrize("mode", ["plain", "verified"])
@pytest.mark.parametrize("workers", [1, 2])
def test_nothing_happens_twice_whoever_is_killed(tmp_path: Path, workers: int, mode: str) -> None:
    """50 kills at random moments, 8 calls at once; then all deliveries again, in another order, by another process."""
    kill_processes(f"sqlite:{tmp_path / 'ledger.db'}", tmp_path, kills=50, workers=workers, mode=mode)


@pytest.mark.parametrize("workers", [2, 4])
def test_one_delivery_in_several_processes_at_once(tmp_path: Path, workers: int) -> None:
    """1,000 deliveries, each to all processes at the same moment: one effect, and equal answers."""
    race(f"sqlite:{tmp_path / 'ledger.db'}", tmp_path, workers=workers)

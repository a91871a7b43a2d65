"""Processes that die at any moment, and those that get one delivery at once: nothing happens twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_kills import kill_processes, race

pytestmark = pytest.mark.long


# `make test-stores` kills as often over each server.
@pytest.mark.parametrize(
    ("workers", "mode", "kills"), [(1, "plain", 50), (2, "plain", 10), (1, "verified", 10), (2, "verified", 10)]
)
def test_nothing_happens_twice_whoever_is_killed(tmp_path: Path, workers: int, mode: str, kills: int) -> None:
    """Kills at random moments, 8 calls at once; then all deliveries again, in another order, by another process."""
    kill_processes(f"sqlite:{tmp_path / 'ledger.db'}", tmp_path, kills=kills, workers=workers, mode=mode)


@pytest.mark.parametrize(("workers", "count"), [(2, 1_000), (4, 300)])
def test_one_delivery_in_several_processes_at_once(tmp_path: Path, workers: int, count: int) -> None:
    """Each delivery to all processes at the same moment: one effect, and equal answers."""
    race(f"sqlite:{tmp_path / 'ledger.db'}", tmp_path, workers=workers, count=count)

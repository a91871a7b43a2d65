"""The soak, in its short form."""

from __future__ import annotations

import pytest

from benchmarks.soak import main


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_short_soak_holds(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Thousands of calls with random faults: one outcome each, counters that balance, nothing twice, nothing left."""
    assert main(["--calls", "2000", "--backend", backend]) == 0
    assert "2,000 calls in" in capsys.readouterr().out

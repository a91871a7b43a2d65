"""benchmarks.scale.soak: a short run."""

from __future__ import annotations

import pytest

from benchmarks.scale.soak import main


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_short_soak_breaks_no_rule(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of thousands of calls with random faults each has one outcome, and nothing happens twice or is left over."""
    assert main(["--calls", "2000", "--backend", backend]) == 0
    assert "2,000 calls in" in capsys.readouterr().out

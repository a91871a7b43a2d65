"""benchmarks.scale.exporting: a short run."""

from __future__ import annotations

import pytest

from benchmarks.scale.exporting import WAYS, main


def test_each_way_to_trace_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """There is a line with p50 and p99 for each way to trace, and no span is lost on its way to a real receiver."""
    assert main(["--calls", "20", "--pause", "0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:22].strip() for line in lines] == ["", *WAYS]
    assert all(0 < float(line.split()[-2]) <= float(line.split()[-1]) for line in lines[1:])
    assert "lost" not in "".join(lines)

"""The benchmark runs, and no budget is missed by far: machines that run tests are too busy for more than that."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import overhead
from benchmarks.timing import Result, Row, just

ROOT = Path(__file__).parent.parent
IN_RATIOS = tuple(
    row.what
    for group in overhead.GROUPS
    for row in group.rows
    if row.must is not None and row.unit not in ("ms", "modules", "bytes") and not row.what.startswith("one more")
)


def run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.overhead", "--quick", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = tmp_path_factory.mktemp("overhead") / "measured.json"
    done = run("--json", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


@pytest.fixture
def rows(measured: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["what"]: row for group in measured["groups"] for row in group["rows"]}


def test_a_quick_run_tells_every_row_with_all_its_rounds(rows: dict[str, dict[str, Any]]) -> None:
    """A quick run measures all that a full one does, and its JSON holds each round of it."""
    assert list(rows) == [row.what for group in overhead.GROUPS for row in group.rows]
    assert all(len(row["rounds"]) >= overhead.QUICK.processes for row in rows.values())


def test_the_json_says_what_was_measured_with_and_not_where(measured: dict[str, Any]) -> None:
    """Versions, interpreter and platform are in the JSON; no path and no host name is."""
    assert set(measured["versions"]) == set(overhead.DISTRIBUTIONS)
    assert "/" not in json.dumps([measured["python"], measured["platform"], measured["versions"]])
    assert set(measured) == {"python", "platform", "cores", "versions", "effort", "groups"}


@pytest.mark.parametrize("what", IN_RATIOS)
def test_no_ratio_is_twice_its_budget(rows: dict[str, dict[str, Any]], what: str) -> None:
    """What a call costs, in units of the same run, stays below twice its budget."""
    assert rows[what]["median"] <= 2 * rows[what]["must"]


def test_importing_brings_no_heavy_module_along(rows: dict[str, dict[str, Any]]) -> None:
    """Importing pipeline and middlewares imports no validator, no SDK, no scorer and no terminal library."""
    assert rows["heavy modules that came along"]["rounds"] == [0.0] * overhead.QUICK.processes


def test_a_call_in_flight_stays_small(rows: dict[str, dict[str, Any]]) -> None:
    """An unwatched call that waits for its tool holds less than twice its budget of memory."""
    assert rows["the call, beyond that"]["median"] <= 2 * rows["the call, beyond that"]["must"]


@pytest.mark.parametrize(
    ("median", "verdict", "fails"), [(4.0, "ok", False), (4.5, "over", False), (4.7, "over", True)]
)
def test_check_fails_beyond_the_noise_only(median: float, verdict: str, fails: bool) -> None:
    """``--check`` lets a budget be exceeded by 15 %, and no further."""
    result = Result(Row("it", "loops", just("it"), must=4.0), [median])
    assert (result.verdict, result.exceeds(overhead.NOISE)) == (verdict, fails)

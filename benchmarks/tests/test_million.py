"""benchmarks.scale.million and mixed_calls: the lines of CALLS, the faults found in RESULTS, and a short run."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

import pytest

from benchmarks.scale import million
from benchmarks.scale.million import Run, main, read_memory, run, tear_last_row
from benchmarks.scale.mixed_calls import CASES, check_rows, make_line, tools
from toolcall_pipeline import is_failure, render
from toolcall_pipeline.cli.run.calls_file import parse_line
from toolcall_pipeline.middlewares import standard

CALLS = 40
FIRST = {name: next(n for n in count(1) if make_line(n)[0] == name) for name in CASES}  # the first line of each case
GOOD = FIRST["nothing wrong"]
PIPELINE = standard(tools)


@pytest.mark.parametrize("case", CASES)
async def test_each_case_has_the_outcome_that_it_claims(case: str) -> None:
    """The row that a line must have is what the CLI's parser and the standard pipeline make of it."""
    number = FIRST[case]
    _, text, row = make_line(number)
    line = parse_line(number, text.encode())
    if line.call is None:
        assert row == {"line": number, "id": line.id, "name": line.name, "ok": False, "kind": "malformed_line"}
        return
    outcome = await PIPELINE(line.call)
    told = {"told": render(outcome)} if "told" in row else {}
    kind = outcome.failure().kind if is_failure(outcome) else None
    assert row == {"line": number, "id": line.id, "name": line.name, "ok": kind is None, "kind": kind, **told}


def test_the_lines_are_mixed_as_declared() -> None:
    """The cases add up to 100 percent, and each line has an id of its own, malformed ones too."""
    assert sum(case.percent for case in CASES.values()) == 100
    lines = [make_line(n) for n in range(1, 10_001)]
    assert len({text for _, text, _ in lines}) == 10_000
    for name, case in CASES.items():
        assert sum(each == name for each, _, _ in lines) == pytest.approx(100 * case.percent, rel=0.3)
    assert all(f'"call_{n}"' in text for n, (_, text, _) in enumerate(lines, 1))
    assert lines[:100] == [make_line(n) for n in range(1, 101)]


def as_row(row: dict[str, object]) -> bytes:
    return json.dumps(row).encode() + b"\n"


def rows(calls: int = CALLS) -> list[bytes]:
    """RESULTS without a fault, though not in the order of CALLS: the last row is that of GOOD."""
    return [as_row(make_line(n)[2]) for n in (*range(calls, GOOD, -1), *range(1, GOOD + 1))]


def changed(**to: object) -> list[bytes]:
    """The same with another last row."""
    return [*rows()[:-1], as_row({**make_line(GOOD)[2], **to})]


@pytest.mark.parametrize(
    ("doctored", "found"),
    [
        pytest.param(rows, [], id="nothing"),
        pytest.param(lambda: rows()[:-1], ["no row"], id="a missing row"),
        pytest.param(lambda: rows()[1:-1], ["no row", "no row"], id="two of them, one of the last line"),
        pytest.param(lambda: [*rows(), rows()[-1]], ["a second row"], id="a double row"),
        pytest.param(lambda: changed(id=f"call_{GOOD + 1}"), ["another id"], id="a wrong id"),
        pytest.param(lambda: changed(name="subtract"), ["another name"], id="a wrong name"),
        pytest.param(lambda: changed(ok=False, kind="internal"), ["another ok and kind"], id="a wrong kind"),
        pytest.param(lambda: changed(told=str(GOOD + 1)), ["another told"], id="the answer to another call"),
        pytest.param(
            lambda: [*rows()[:-1], as_row({"line": GOOD})], ["another id and name and ok and kind and told"], id="bare"
        ),
        pytest.param(lambda: [*rows(), rows()[0][:20]], ["a row"], id="a torn row"),
        pytest.param(lambda: changed(line=CALLS + 1), ["a row", "no row"], id="a line too many"),
        pytest.param(lambda: changed(line=True), ["a row", "no row"], id="no number"),
        pytest.param(lambda: [*rows(), b"[]\n"], ["a row"], id="no object"),
    ],
)
def test_faults_in_results_are_found(doctored: Callable[[], list[bytes]], found: list[str]) -> None:
    """Every row that is missing, double, or not that of its line is found, and nothing else."""
    assert [fault for _, fault in check_rows(doctored(), CALLS) if fault] == found


@pytest.mark.parametrize("end", [b"\n", b'{"line": 3, "id'])
def test_only_the_last_row_is_torn(tmp_path: Path, end: bytes) -> None:
    """A row that is torn already stays as it is, and no other row is touched."""
    results, whole = tmp_path / "results", b"".join(rows())
    results.write_bytes(whole + end.strip())
    assert tear_last_row(results) is (end != b"\n")
    left = results.read_bytes()
    assert left == whole + end if end != b"\n" else len(left) < len(whole) and whole.startswith(left)
    assert left.count(b"\n") == CALLS - (end == b"\n")


def test_a_short_run_breaks_no_rule(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Thousands of calls, killed half-way and resumed, have one right row for each line, and no file is left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["--calls", "3000", "--check"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("3,000 calls ")
    assert "broken" not in printed
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("results", "second", "left", "broken"),
    [
        pytest.param(rows(1000), Run(1, 1, 1.0, 50.0, 64.0), "output", "", id="nothing"),
        pytest.param(rows(1000)[1:], Run(1, 1, 1.0, 50.0, 0.0), "output", ": no row, 1 times", id="a missing row"),
        pytest.param(
            rows(1001), Run(1, 1, 1.0, 50.0, 0.0), "output", "no line of CALLS: a row, 1 times", id="one more"
        ),
        pytest.param(rows(1000), Run(1, 1, 1.0, 50.0, 64.1), "output", "run on: 64.1 MB", id="memory that grows"),
        pytest.param(rows(1000), Run(0, 1, 1.0, 50.0, 0.0), "output", "it ended with 0, stderr", id="an exit code"),
        pytest.param(rows(1000), Run(1, 1, 1.0, 50.0, 0.0), "more", "RESULTS: {'more'}", id="a file that is left"),
    ],
)
def test_broken_rules_are_printed(
    results: list[bytes],
    second: Run,
    left: str,
    broken: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each broken rule is printed, and fails with ``--check``, and only with it."""

    def pretended(_command: Sequence[str], path: Path, _rows: int, *, kill: bool) -> Run:
        for name in ("output", left):
            path.with_name(name).write_text("stderr")
        path.write_bytes(rows()[0] if kill else b"".join(results))
        return Run(-9, 1, 1.0, 50.0, 0.0) if kill else second

    monkeypatch.setattr(million, "run", pretended)
    assert main(["--calls", "1000", "--check"]) == (1 if broken else 0)
    printed = capsys.readouterr().out.splitlines()[-1]
    assert printed.startswith("broken: ") is bool(broken)
    assert printed.endswith(broken)
    assert main(["--calls", "1000"]) == 0


def test_a_command_that_refuses_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    """Its own output is printed."""
    assert main(["--calls", "1000", "--executor", "nowhere", "--check"]) == 1
    printed = capsys.readouterr().out.partition("broken: ")[2]
    assert printed.startswith("the first run must be killed: it ended with 2, ")
    assert "nowhere" in printed


@pytest.mark.parametrize(("held", "growth"), [((20.0, 95.0), 75.0), ((0.0, 0.0), 0.0)], ids=["/proc", "none"])
def test_a_run_has_its_rows_and_its_memory(
    held: tuple[float, float], growth: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A run is killed when it has added the rows; its growth is its peak less what it held after a tenth of them."""

    def held_memory(_pid: int) -> tuple[float, float]:
        return held

    monkeypatch.setattr(million, "read_memory", held_memory)
    results = tmp_path / "results"
    results.write_bytes(b"1\n2\n3")
    script = (
        "import signal, sys; print('\\n' + '4\\n' * 9, end='', file=open(sys.argv[1], 'a'), flush=True); signal.pause()"
    )
    done = run([sys.executable, "-c", script, str(results)], results, 10, kill=True)
    assert (done.code, done.rows, done.growth) == (-9, 10, growth)
    assert done.peak == held[1] or (not held[1] and done.peak > 1)


def test_memory_is_read_from_proc() -> None:
    """Memory is in MB, now and at its peak; zero without /proc, or without such a process."""
    resident, most = read_memory(os.getpid())
    assert 1 < resident <= most or not Path("/proc/self/status").exists()
    assert read_memory(2**30) == (0.0, 0.0)


def test_too_few_calls_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Fewer than 1,000 calls could end before they are killed."""
    with pytest.raises(SystemExit):
        main(["--calls", "999"])
    assert "--calls must be ≥ 1,000, not 999" in capsys.readouterr().err

"""The million, in its short form: what it puts into CALLS, what it finds wrong with RESULTS, and a run of it."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

import pytest

from benchmarks import million
from benchmarks.million import CASES, Run, judged, line_of, main, memory, run, tear, tools
from middlewares import standard
from pipeline import is_failure, render
from pipeline.cli.run.calls_file import parse_line

CALLS = 40
FIRST = {name: next(n for n in count(1) if line_of(n)[0] == name) for name in CASES}  # the first line of each case
GOOD = FIRST["nothing wrong"]
PIPELINE = standard(tools)


@pytest.mark.parametrize("case", CASES)
async def test_each_mistake_leads_to_the_kind_that_it_says(case: str) -> None:
    """And what a row has to say of the line is what the line itself, and the standard pipeline, make of it."""
    number = FIRST[case]
    _, text, row = line_of(number)
    line = parse_line(number, text.encode())
    if line.call is None:
        assert row == {"line": number, "id": line.id, "name": line.name, "ok": False, "kind": "malformed_line"}
        return
    outcome = await PIPELINE(line.call)
    told = {"told": render(outcome)} if "told" in row else {}
    kind = outcome.failure().kind if is_failure(outcome) else None
    assert row == {"line": number, "id": line.id, "name": line.name, "ok": kind is None, "kind": kind, **told}


def test_the_mix() -> None:
    """A few percent of each mistake, a hundred in all; each line with an id of its own, broken ones too."""
    assert sum(case.percent for case in CASES.values()) == 100
    lines = [line_of(n) for n in range(1, 10_001)]
    assert len({text for _, text, _ in lines}) == 10_000
    for name, case in CASES.items():
        assert sum(each == name for each, _, _ in lines) == pytest.approx(100 * case.percent, rel=0.3)
    assert all(f'"call_{n}"' in text for n, (_, text, _) in enumerate(lines, 1))
    assert lines[:100] == [line_of(n) for n in range(1, 101)]


def as_row(row: dict[str, object]) -> bytes:
    return json.dumps(row).encode() + b"\n"


def rows(calls: int = CALLS) -> list[bytes]:
    """RESULTS as they should be, though not in the order of CALLS: the last row is that of GOOD."""
    return [as_row(line_of(n)[2]) for n in (*range(calls, GOOD, -1), *range(1, GOOD + 1))]


def changed(**to: object) -> list[bytes]:
    """With another last row."""
    return [*rows()[:-1], as_row({**line_of(GOOD)[2], **to})]


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
def test_what_is_wrong_with_results_is_found(doctored: Callable[[], list[bytes]], found: list[str]) -> None:
    """Each row that is missing, double, or not that of its line; and where nothing is wrong, nothing is."""
    assert [fault for _, fault in judged(doctored(), CALLS) if fault] == found


@pytest.mark.parametrize("end", [b"\n", b'{"line": 3, "id'])
def test_the_last_row_is_torn(tmp_path: Path, end: bytes) -> None:
    """One that was torn already stays as it is, and no other row is touched."""
    results, whole = tmp_path / "results", b"".join(rows())
    results.write_bytes(whole + end.strip())
    assert tear(results) is (end != b"\n")
    left = results.read_bytes()
    assert left == whole + end if end != b"\n" else len(left) < len(whole) and whole.startswith(left)
    assert left.count(b"\n") == CALLS - (end == b"\n")


def test_a_short_one_holds(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Thousands of calls, killed half-way and resumed: one row for each line, as it should be, and no file is left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["--calls", "3000", "--check"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("3,000 calls ")
    assert "did not hold" not in printed
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("results", "second", "left", "told"),
    [
        pytest.param(rows(1000), Run(1, 1, 1.0, 50.0, 64.0), "said", "", id="nothing"),
        pytest.param(rows(1000)[1:], Run(1, 1, 1.0, 50.0, 0.0), "said", ": no row, 1 times", id="a missing row"),
        pytest.param(rows(1001), Run(1, 1, 1.0, 50.0, 0.0), "said", "no line of CALLS: a row, 1 times", id="one more"),
        pytest.param(rows(1000), Run(1, 1, 1.0, 50.0, 64.1), "said", "a run: 64.1 MB", id="memory that grows"),
        pytest.param(rows(1000), Run(0, 1, 1.0, 50.0, 0.0), "said", "it ended with 0, stderr", id="an exit code"),
        pytest.param(rows(1000), Run(1, 1, 1.0, 50.0, 0.0), "more", "RESULTS: {'more'}", id="a file that is left"),
    ],
)
def test_what_does_not_hold(
    results: list[bytes],
    second: Run,
    left: str,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is told, and with --check it fails; only with that."""

    def pretended(_command: Sequence[str], path: Path, _rows: int, *, kill: bool) -> Run:
        for name in ("said", left):
            path.with_name(name).write_text("stderr")
        path.write_bytes(rows()[0] if kill else b"".join(results))
        return Run(-9, 1, 1.0, 50.0, 0.0) if kill else second

    monkeypatch.setattr(million, "run", pretended)
    assert main(["--calls", "1000", "--check"]) == (1 if told else 0)
    printed = capsys.readouterr().out.splitlines()[-1]
    assert printed.startswith("did not hold: ") is bool(told)
    assert printed.endswith(told)
    assert main(["--calls", "1000"]) == 0


def test_a_command_that_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    """What it says is told."""
    assert main(["--calls", "1000", "--executor", "nowhere", "--check"]) == 1
    told = capsys.readouterr().out.partition("did not hold: ")[2]
    assert told.startswith("the first run is killed: it ended with 2, ")
    assert "nowhere" in told


@pytest.mark.parametrize(("held", "grown"), [((20.0, 95.0), 75.0), ((0.0, 0.0), 0.0)], ids=["/proc", "none"])
def test_what_a_run_is(
    held: tuple[float, float], grown: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Killed when there are so many rows more; its peak, and how far that is above what it held after a tenth."""

    def memory(_pid: int) -> tuple[float, float]:
        return held

    monkeypatch.setattr(million, "memory", memory)
    results = tmp_path / "results"
    results.write_bytes(b"1\n2\n3")
    script = (
        "import signal, sys; print('\\n' + '4\\n' * 9, end='', file=open(sys.argv[1], 'a'), flush=True); signal.pause()"
    )
    told = run([sys.executable, "-c", script, str(results)], results, 10, kill=True)
    assert (told.code, told.rows, told.grown) == (-9, 10, grown)
    assert told.peak == held[1] or (not held[1] and told.peak > 1)


def test_what_a_process_holds() -> None:
    """In MB, and the most that it held; nothing where there is no /proc, or no such process."""
    resident, most = memory(os.getpid())
    assert 1 < resident <= most or not Path("/proc/self/status").exists()
    assert memory(2**30) == (0.0, 0.0)


def test_fewer_cannot_be_killed_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    """They are refused."""
    with pytest.raises(SystemExit):
        main(["--calls", "999"])
    assert "at least 1,000" in capsys.readouterr().err

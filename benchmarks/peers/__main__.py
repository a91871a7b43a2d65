"""``python -m benchmarks.peers``: this pipeline beside the agent frameworks, each in an environment of its own.

The processes of all take turns, so that a bad minute of the machine hits no single one, and each measures its costs as
ratios to the same loop. `make bench-peers` makes the environments first.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.peers.catalogue import OURS, PEERS
from benchmarks.peers.chart import draw_chart
from benchmarks.peers.results import merge, to_json
from benchmarks.peers.table import write_table
from benchmarks.peers.timing import Effort

ROOT = Path(__file__).parent.parent.parent
_FULL, _QUICK = Effort(7, 0.003, 2), Effort(1, 0.0005, 1)
_LONGEST = 600  # seconds of one process; it then hangs


def main(arguments: Sequence[str]) -> int:
    """Measure, and write or print the results. Returns 1 if a subject could not be measured."""
    given = _parse(arguments)
    names = [OURS, *[each for each in given.only.split(",") if each != OURS]] if given.only else list(PEERS)
    found: dict[str, list[Any]] = {}
    absent: dict[str, str] = {}
    effort = _QUICK if given.quick else _FULL
    rounds = 1 if given.quick else given.rounds
    for turn in range(rounds):
        for name in names:
            if name in absent:
                continue
            print(f"round {turn + 1} of {rounds}: {PEERS[name].label}", file=sys.stderr, flush=True)
            python = Path(sys.executable) if name == OURS else given.environments / name / "bin" / "python"
            try:
                found.setdefault(name, []).append(measure(python, name, effort))
            except (OSError, subprocess.SubprocessError, RuntimeError) as exc:
                absent[name] = str(exc).strip().splitlines()[-1]
                del found[name]
    rows = merge(found)
    about = _describe(rounds)
    page = write_table(rows, about, absent)
    if given.results is None:
        print(page)
    else:
        _write(given.results, page, json.dumps(to_json(rows, about, absent), indent=1), draw_chart(rows, _title(about)))
    for name, reason in absent.items():
        print(f"{PEERS[name].label} could not be measured: {reason}", file=sys.stderr)
    return 1 if absent else 0


def measure(python: Path, name: str, effort: Effort) -> Any:
    """Run one subject in a fresh process. Raises RuntimeError with its stderr if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found.json"
        command = [str(python), "-m", "benchmarks.peers.process", name, json.dumps(effort), str(file)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(  # noqa: S603
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=_LONGEST
        )
        if done.returncode:
            raise RuntimeError(done.stderr or f"exit code {done.returncode}")
        return json.loads(file.read_text())


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--environments", type=Path, default=ROOT / ".venv-peers", help="has one for each framework")
    parser.add_argument("--only", default="", help="some of them, with commas; ours is always there")
    parser.add_argument("--rounds", type=int, default=3, help="processes for each; default 3")
    parser.add_argument("--quick", action="store_true", help="one round, short: to see that it runs")
    parser.add_argument("--results", type=Path, help="a folder for peers.md, peers.json and peers.svg")
    return parser.parse_args(arguments)


def _describe(rounds: int) -> Mapping[str, object]:
    return {
        "command": "make bench-peers",
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[1], 1),
        "rounds": rounds,
    }


def _title(about: Mapping[str, object]) -> str:
    return f"A tool call here and in agent frameworks, in hand-written loops ({about['command']}, {about['date']})"


def _write(folder: Path, page: str, data: str, picture: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("peers.md", page), ("peers.json", data + "\n"), ("peers.svg", picture)):
        (folder / name).write_text(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

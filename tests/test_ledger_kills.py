"""Processes that die at any moment, and those that get one delivery at once: nothing happens twice."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import cast

import pytest

from shop import list_deliveries

SUPPORT = Path(__file__).parent / "support"
pytestmark = pytest.mark.long


def start(spec: str, folder: Path, seed: int, count: int, mode: str) -> subprocess.Popen[str]:
    """Start a worker, and wait until its pipeline is open."""
    command = [sys.executable, str(SUPPORT / "ledger_worker.py"), spec, str(folder), str(seed), str(count), mode]
    root = SUPPORT.parent.parent
    there = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(SUPPORT)])}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=there)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def let_go(processes: list[subprocess.Popen[str]]) -> None:
    """Let workers go on, all at once."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()


def read_answers(file: Path) -> dict[str, list[tuple[str, str]]]:
    """By call id: kinds and texts."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for line in file.read_text().splitlines() if file.exists() else []:
        id_, kind, text = json.loads(line)
        found[id_].append((kind, text))
    return found


@pytest.mark.parametrize("mode", ["plain", "verified"])
@pytest.mark.parametrize("workers", [1, 2])
def test_nothing_happens_twice_whoever_is_killed(tmp_path: Path, workers: int, mode: str) -> None:
    """50 kills at random moments, 8 calls at once; then all deliveries again, in another order, by another process."""
    spec, count, dice = os.environ.get("LEDGER_STORE") or f"sqlite:{tmp_path / 'ledger.db'}", 400, random.Random(7)
    kills = 0
    while kills < 50:
        running = [start(spec, tmp_path, dice.randrange(10**6), count, mode) for _ in range(workers)]
        let_go(running)
        for process in running:
            time.sleep(dice.uniform(0.02, 0.25))
            process.kill()
            process.communicate()
            kills += 1
    early = read_answers(tmp_path / "answers")
    (tmp_path / "answers").unlink()
    last = [start(spec, tmp_path, dice.randrange(10**6), count, mode) for _ in range(workers)]
    let_go(last)
    for process in last:
        process.communicate(timeout=300)
    assert [process.returncode for process in last] == [0] * workers
    answers = read_answers(tmp_path / "answers")

    lines = [line.split() for line in (tmp_path / "effects").read_text().splitlines()]
    effects = Counter((tool, id_) for tool, id_, _ in lines)
    keys = defaultdict[str, set[str]](set)
    for tool, id_, key in lines:
        if tool == "charge":
            keys[id_].add(key)
    unknown: list[str] = []
    for call in list_deliveries(count):
        got = answers[call.id]
        assert len(got) == workers
        assert len(set(got)) == 1
        kind, text = got[0]
        if call.name == "pay":
            assert effects["pay", call.id] <= 1
            before = {each for each in early[call.id] if each[0] == "success"}
            assert before <= {got[0]}
        if kind == "outcome_unknown":
            assert call.name == "pay"
            unknown.append(call.id)
        else:
            assert kind == "success"
            asked = cast("dict[str, object]", call.arguments)
            assert call.name == "put" or str(asked["to"]) in text
    assert all(len(each) == 1 for each in keys.values())
    landed = sum(effects["pay", id_] for id_ in unknown)
    (tmp_path / "figures").write_text(f"{kills} kills, {len(lines)} effects, {len(unknown)} unknown, {landed} landed")
    assert mode == "plain" or not unknown


@pytest.mark.parametrize("workers", [2, 4])
def test_one_delivery_in_several_processes_at_once(tmp_path: Path, workers: int) -> None:
    """1,000 deliveries, each to all processes at the same moment: one effect, and equal answers."""
    spec, count = os.environ.get("LEDGER_STORE") or f"sqlite:{tmp_path / 'ledger.db'}", 1000
    running = [start(spec, tmp_path, seed, count, "race") for seed in range(workers)]
    let_go(running)
    for _ in range(count):
        let_go(running)
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "done\n"
    for process in running:
        process.communicate(timeout=60)
    assert [process.returncode for process in running] == [0] * workers
    effects = Counter(tuple(line.split()[:2]) for line in (tmp_path / "effects").read_text().splitlines())
    answers = [read_answers(tmp_path / f"answers{seed}") for seed in range(workers)]
    assert len(effects) == count
    assert set(effects.values()) == {1}
    assert all(each == answers[0] for each in answers)
    assert {kind for each in answers[0].values() for kind, _ in each} == {"success"}

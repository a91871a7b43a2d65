"""Kills and races of processes with one ledger, over whatever store: for the tests of each."""

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

import attrs

from database_servers import Server
from shop import list_deliveries
from support import PATIENT

SUPPORT = Path(__file__).parent
COUNT = 400  # deliveries
Answers = defaultdict[str, list[tuple[str, str]]]  # by call id: kinds and texts


def start(spec: str, folder: Path, seeds: list[int], count: int, mode: str) -> list[subprocess.Popen[str]]:
    """Start a worker for each seed, and wait until their pipelines are open."""
    root = SUPPORT.parent.parent
    there = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(SUPPORT)])}
    started: list[subprocess.Popen[str]] = []
    for seed in seeds:
        command = [sys.executable, str(SUPPORT / "ledger_worker.py"), spec, str(folder), str(seed), str(count), mode]
        started.append(subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=there))
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    return started


def let_go(processes: list[subprocess.Popen[str]]) -> None:
    """Let workers go on, all at once."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()


def read_answers(file: Path) -> Answers:
    """The answers that workers wrote."""
    found = Answers(list)
    for line in file.read_text().splitlines() if file.exists() else []:
        id_, kind, text = json.loads(line)
        found[id_].append((kind, text))
    return found


@attrs.frozen
class Tally:
    """What the last pass found, in which another process makes all deliveries again in another order."""

    effects: int
    unknown: int
    landed: int  # of the unknown ones
    forgotten: int  # unknown ones that were answered before: the store was away when they ended, and to the end

    def __str__(self) -> str:
        unknown = f"{self.unknown} unknown, {self.landed} of them landed"
        return f"{self.effects} effects, {unknown}, {self.forgotten} had been answered"


def kill_processes(spec: str, folder: Path, *, kills: int, workers: int = 1, mode: str = "plain") -> Tally:
    """Kill processes that make the deliveries, 8 at once, at random moments; then make all of them again."""
    dice = random.Random(7)
    for _ in range(-(-kills // workers)):
        running = start(spec, folder, [dice.randrange(10**6) for _ in range(workers)], COUNT, mode)
        let_go(running)
        for process in running:
            time.sleep(dice.uniform(0.02, 0.25))
            process.kill()
            process.communicate()
    tally = make_all_again(spec, folder, workers, mode)
    assert not tally.forgotten
    return tally


def kill_server(spec: str, folder: Path, server: Server, *, kills: int, mode: str = "plain") -> Tally:
    """Kill the server of the store at random moments while a process makes the deliveries; then make them again."""
    dice, done = random.Random(7), 0
    while done < kills:
        (process,) = start(spec, folder, [dice.randrange(10**6)], COUNT, mode)
        let_go([process])
        while process.poll() is None and done < kills:
            time.sleep(dice.uniform(0.05, 0.4))
            server.crash()
            time.sleep(dice.uniform(0, 0.2))
            server.start()
            done += 1
        process.communicate(timeout=300)
        assert process.returncode == 0
    return make_all_again(spec, folder, 1, mode)


def make_all_again(spec: str, folder: Path, workers: int, mode: str) -> Tally:
    """The last pass, with what must hold after it: no effect twice, no answer wrong, changed or missing."""
    early = read_answers(folder / "answers")
    (folder / "answers").unlink(missing_ok=True)
    last = start(spec, folder, [10**6 + seed for seed in range(workers)], COUNT, mode)
    let_go(last)
    for process in last:
        process.communicate(timeout=300)
    assert [process.returncode for process in last] == [0] * workers
    tally = check_answers(folder, early, read_answers(folder / "answers"), COUNT, workers)
    assert mode == "plain" or not tally.unknown
    sys.stderr.write(f"{spec.partition(':')[0]}, {workers} at once, {mode}: {tally}\n")  # with -s
    return tally


def check_answers(folder: Path, early: Answers, answers: Answers, count: int, workers: int = 1) -> Tally:
    """Check the answers and effects of a shop after the last pass, which nothing killed.

    Args:
        folder: Has the file of effects: tool, call id, key.
        early: The answers before the last pass.
        answers: Those of the last pass, one from each worker.
        count: Deliveries.
        workers: Workers of the last pass.
    """
    lines = [line.split()[:3] for line in (folder / "effects").read_text().splitlines()]
    effects = Counter((tool, id_) for tool, id_, _ in lines)
    keys = defaultdict[str, set[str]](set)
    for tool, id_, key in lines:
        if tool == "charge":
            keys[id_].add(key)
    unknown: list[str] = []
    forgotten = 0
    for call in list_deliveries(count):
        got = answers[call.id]
        assert len(got) == workers
        assert len(set(got)) == 1
        kind, text = got[0]
        if call.name == "pay":
            assert effects["pay", call.id] <= 1
            before = {each for each in early[call.id] if each[0] == "success"}
            forgotten += bool(before and kind == "outcome_unknown")
            assert before <= {got[0]} or kind == "outcome_unknown", (before, got[0])
        if kind == "outcome_unknown":
            assert call.name == "pay"
            unknown.append(call.id)
        else:
            assert kind == "success", (call.id, got)
            asked = cast("dict[str, object]", call.arguments)
            assert call.name == "put" or str(asked["to"]) in text
    assert all(len(each) == 1 for each in keys.values())
    return Tally(len(lines), len(unknown), sum(effects["pay", id_] for id_ in unknown), forgotten)


def race(spec: str, folder: Path, *, workers: int, count: int = 1000) -> None:
    """Give each delivery to all processes at the same moment: one effect, and equal answers."""
    running = start(spec, folder, list(range(workers)), count, "race")
    let_go(running)
    for _ in range(count):
        let_go(running)
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "done\n"
    for process in running:
        process.communicate(timeout=PATIENT)
    assert [process.returncode for process in running] == [0] * workers
    effects = Counter(tuple(line.split()[:2]) for line in (folder / "effects").read_text().splitlines())
    answers = [read_answers(folder / f"answers{seed}") for seed in range(workers)]
    assert len(effects) == count
    assert set(effects.values()) == {1}
    assert all(each == answers[0] for each in answers)
    assert {kind for each in answers[0].values() for kind, _ in each} == {"success"}

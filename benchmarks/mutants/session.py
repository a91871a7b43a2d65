"""One pytest session for all mutants: collect once, then fork for each mutant and run the tests that call it."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any, Literal, TypeAlias

import attrs
import pytest

from .operators import Mutant
from .patching import Key, Living, key_of

Verdict: TypeAlias = Literal["killed", "survived", "timed out", "no test"]

_NOTICED = 9  # how a process ends whose tests noticed the mutant
_LONGER_BY, _TIMES_LONGER = 20, 10  # a test with a mutant may take 20 s, and ten times its own time; then it hangs
_MEMORY = 6 << 30  # bytes of address space; a list that a mutant makes grow for ever ends there


def has_hypothesis() -> bool:
    """Look for hypothesis, without which no property runs. The environment of a framework lacks it."""
    return find_spec("hypothesis") is not None


@attrs.define
class Timed:
    """The behaviour of a test without mutation."""

    seconds: float  # on the clock: a test may wait for other processes
    calls: set[Key]


@attrs.define
class Result:
    """The result of a mutant."""

    mutant: Mutant
    room: str
    verdict: Verdict
    tests: int  # that call what is mutated
    seconds: float
    noticed_by: str = ""  # the test that failed


@attrs.define
class MutantSession:
    """A pytest plugin, in place of the loop that runs the tests.

    Args:
        root: The checkout.
        tests: The test files of each room.
        choose: The mutants of the sample with their rooms, of what is alive after the import.
        workers: How many processes at once.
        progress: Gets a line for each step.
    """

    root: Path
    tests: dict[str, list[str]]
    files: list[str]
    choose: Callable[[Living], list[tuple[str, Mutant]]]
    workers: int
    progress: Callable[[str], None]
    results: list[Result] = attrs.field(init=False, factory=list[Result])
    left_out: list[str] = attrs.field(init=False, factory=list[str])  # tests that fail without a mutant

    def pytest_configure(self) -> None:
        """No shrinking: that a test fails is enough. Nothing is read from earlier runs."""
        if not has_hypothesis():
            return
        from hypothesis import HealthCheck, Phase, settings  # pytest rewrites it, and has to be the first to import it

        settings.register_profile(
            "mutants",
            database=None,
            deadline=None,
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=list(HealthCheck),
        )
        settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """One of the two event loops."""
        items[:] = [each for each in items if "trio" not in each.name.partition("[")[2].strip("]").split("-")]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run all tests once as they are, then some for each mutant."""
        if session.testsfailed:
            raise session.Interrupted("the tests cannot be collected")
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no child is left behind
        items = {each.nodeid: each for each in session.items}
        living = Living.among(self.root, self.files)
        sample = self.choose(living)
        self.progress(f"{len(items)} tests, {len(sample)} mutants; first the tests without a mutant")
        timed = self._measure(items)
        with tempfile.TemporaryDirectory() as folder:
            self._run_all(items, living, sample, timed, Path(folder))
        return True

    def _measure(self, items: dict[str, pytest.Item]) -> dict[str, Timed]:
        shares = [list(items)[place :: self.workers] for place in range(self.workers)]
        timed: dict[str, Timed] = {}
        with tempfile.TemporaryDirectory() as folder:
            outputs = [Path(folder) / str(place) for place in range(self.workers)]
            children = [
                _fork(partial(_measure_share, [items[each] for each in share], self.root, out), Path(folder))
                for share, out in zip(shares, outputs, strict=True)
            ]
            try:
                for child in children:
                    os.waitpid(child, 0)
            except BaseException:
                _kill(children)
                raise
            for output in outputs:
                for name, (seconds, passed, calls) in json.loads(output.read_text(encoding="utf-8")).items():
                    if passed:
                        timed[name] = Timed(seconds, {(path, function, line) for path, function, line in calls})
                    else:
                        self.left_out.append(name)
        return timed

    def _run_all(
        self,
        items: dict[str, pytest.Item],
        living: Living,
        sample: Sequence[tuple[str, Mutant]],
        timed: dict[str, Timed],
        folder: Path,
    ) -> None:
        waiting = list(reversed(sample))
        running: dict[int, Result] = {}  # by process: what it decides
        try:
            self._work_through(items, living, waiting, timed, running, folder)
        finally:
            _kill(running)

    def _work_through(
        self,
        items: dict[str, pytest.Item],
        living: Living,
        waiting: list[tuple[str, Mutant]],
        timed: dict[str, Timed],
        running: dict[int, Result],
        folder: Path,
    ) -> None:
        while waiting or running:
            while waiting and len(running) < self.workers:
                room, mutant = waiting.pop()
                chosen = self._tests_of(room, mutant, living, timed)
                result = Result(mutant, room, "no test", len(chosen), 0.0)
                if not chosen:
                    self._note(result)
                    continue
                tests = [(items[each], timed[each].seconds) for each in chosen]
                child = _fork(partial(_decide, living, mutant, tests, folder), folder)
                result.seconds = -time.monotonic()
                running[child] = result
            self._wait(running, folder)

    def _tests_of(self, room: str, mutant: Mutant, living: Living, timed: dict[str, Timed]) -> list[str]:
        """The tests of the room that call what is mutated, quick ones first; then the others of their files.

        An object that one test makes lazily, such as the parser of a module's tool, is used by all tests of its file.
        """
        path, files = str(self.root / mutant.file), tuple(f"{each}::" for each in self.tests[room])
        if mutant.place == "body":
            wanted = set(living.changes(mutant) or ())

            def touches(calls: set[Key]) -> bool:
                return not wanted.isdisjoint(calls)
        elif mutant.place == "default":

            def touches(calls: set[Key]) -> bool:
                return any(each[0] == path and each[1] == mutant.function for each in calls)
        else:
            holders = living.holders(mutant)

            def touches(calls: set[Key]) -> bool:
                return any(each[0] in holders for each in calls)

        chosen = {name for name, each in timed.items() if name.startswith(files) and touches(each.calls)}
        near = tuple({f"{name.partition('::')[0]}::" for name in chosen})
        others = {name for name in timed if name.startswith(near)} - chosen
        return [*sorted(chosen, key=lambda name: timed[name].seconds), *sorted(others)]

    def _wait(self, running: dict[int, Result], folder: Path) -> None:
        time.sleep(0.01)
        for child, result in list(running.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            if not ended:
                continue
            _kill([child])
            del running[child]
            result.seconds += time.monotonic()
            by_time = os.WIFSIGNALED(status) and os.WTERMSIG(status) in {signal.SIGALRM, signal.SIGKILL}
            code = os.waitstatus_to_exitcode(status)
            if not by_time and code not in {0, _NOTICED}:
                raise RuntimeError(f"{result.mutant.key}: the process ended with {code}: {_read(folder / str(child))}")
            result.verdict = "timed out" if by_time else "killed" if code else "survived"
            result.noticed_by = _read(folder / str(child))
            self._note(result)

    def _note(self, result: Result) -> None:
        self.results.append(result)
        mutant = result.mutant
        self.progress(
            f"{len(self.results):4}  {result.verdict:9} {result.seconds:6.1f} s  {mutant.file}:{mutant.line} "
            f"{mutant.key[len(mutant.file) + 1 :]} {result.noticed_by and f'({result.noticed_by})'}"
        )


def _kill(children: Iterable[int]) -> None:
    """End processes, and what they started."""
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _fork(work: Callable[[], int], folder: Path) -> int:
    child = os.fork()
    if child:
        return child
    status = 70
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        status = work()
    except BaseException:  # noqa: BLE001  # the border of the process: who waits for it raises
        (folder / str(os.getpid())).write_text(traceback.format_exc(), encoding="utf-8")
    finally:
        os._exit(status)


def _decide(living: Living, mutant: Mutant, tests: Sequence[tuple[pytest.Item, float]], folder: Path) -> int:
    """Run tests, each with its seconds without a mutant; an alarm ends the process in one that hangs."""
    living.put_in(mutant)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    limits = {item: int(_LONGER_BY + _TIMES_LONGER * seconds) for item, seconds in tests}
    for item, passed in _run([item for item, _ in tests], lambda item: signal.alarm(limits[item])):
        if not passed:
            (folder / str(os.getpid())).write_text(item.nodeid, encoding="utf-8")
            return _NOTICED
    return 0


def _run(tests: Sequence[pytest.Item], before: Callable[[pytest.Item], object]) -> Iterator[tuple[pytest.Item, bool]]:
    following = [*tests[1:], None]
    for item, then in zip(tests, following, strict=True):
        failed = item.session.testsfailed
        before(item)
        item.ihook.pytest_runtest_protocol(item=item, nextitem=then)
        yield item, item.session.testsfailed == failed


def _measure_share(tests: Sequence[pytest.Item], root: Path, output: Path) -> int:
    """Run tests, and write down which functions of the source each of them calls."""
    inside = str(root / "toolcall_pipeline")
    calls: dict[int, Any] = {}  # by id, because equal codes are compared in full

    def follow(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            code = frame.f_code
            if id(code) not in calls and code.co_filename.startswith(inside):
                calls[id(code)] = code

    found: dict[str, Any] = {}
    threading.setprofile(follow)
    began = time.monotonic()
    for item, passed in _run(tests, lambda _item: sys.setprofile(follow)):  # each time: some tests take it away
        keys = sorted({key_of(each) for each in calls.values()})
        found[item.nodeid] = (time.monotonic() - began, passed, keys)
        calls.clear()
        began = time.monotonic()
    sys.setprofile(None)
    output.write_text(json.dumps(found), encoding="utf-8")
    return 0

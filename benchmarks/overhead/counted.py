"""Machine instructions of a call, counted by callgrind: the limits that ``make bench ARGS=--guard`` judges by.

A count is the same on every machine and under any load, to half a percent, so a limit can fail a build. It leaves out
what a processor hides or adds (caches, branches): times stay beside it, for people.

A process of its own runs under valgrind, which writes a dump before and after the calls of each row. Debian and most
other systems have a package of valgrind; Python needs no build of its own for it.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import itertools
import json
import logging
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import attrs
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from pydantic import TypeAdapter, ValidationError

from benchmarks.overhead.failing import CALLS as FAILING_CALLS
from benchmarks.overhead.importing import LOADING, ROOT
from benchmarks.overhead.kinds_of_tools import around_all, pass_on, with_own
from benchmarks.overhead.measure import Effort
from benchmarks.overhead.nobody_recording import IDLE_STAGES, OTHER, let_pass
from benchmarks.overhead.processes import run
from benchmarks.overhead.subjects import ADD, ARGUMENTS, ATTEMPTS, Add, add, around, boom, with_more
from benchmarks.overhead.whole_way import WAYS
from toolcall_pipeline import AwaitingApproval, Call, Pipeline
from toolcall_pipeline.middlewares import Approve, Ledger, Policy, Trace
from toolcall_pipeline.policies import PolicyRule, RuleSet
from toolcall_pipeline.stores import Memory, SQLite, Store

Run: TypeAlias = Callable[[], Awaitable[object]]

ONCE = Effort(rounds=1, slice=0.001, processes=1, spare=0, seconds=0, apart=False, patience=0.0)  # of counts
_CALLS = 100  # are counted
_WARM = 60  # calls of each row before the first count: what is made at first use is not part of a call
_AGAIN = 3  # calls of a row right before its own count
# The interpreter and the libraries that the limits were set with. Others are counted and not judged.
_LIMITS_HOLD_FOR = {
    "python": "3.11",
    "anyio": "4.16.0",
    "attrs": "26.1.0",
    "opentelemetry-api": "1.45.2",
    "opentelemetry-sdk": "1.45.2",
    "pydantic": "2.14.4",
    "returns": "0.30.0",
}


@attrs.frozen
class CountedRow:
    """A row of the table.

    Attributes:
        what: Its name.
        run: Makes one call; the calls of all rows run in one process.
        unit: The row whose count this one is divided by; None: the count itself is the figure.
        limit: Of the figure; None: it is printed and not judged.
        more: The figure is not the ratio, but what the row takes beyond its unit, in hand-written loops.
        calls: How many calls are counted; fewer where one takes long.
        opens: What is open meanwhile.
    """

    what: str
    run: Run
    unit: str | None = None
    limit: float | None = None
    more: bool = False
    calls: int = _CALLS
    opens: AbstractAsyncContextManager[object] | None = None

    def figure(self, counts: Mapping[str, int]) -> float:
        """The ratio to the unit, the loops beyond the unit, or the count."""
        if self.unit is None:
            return counts[self.what]
        if self.more:
            return (counts[self.what] - counts[self.unit]) / counts[LOOP]
        return counts[self.what] / counts[self.unit]


LOOP = "the hand-written loop"
_SEVEN = "seven stages"
_OWN = "behind a middleware of one's own"
_SPAN = "a bare span"
# LoopGuard compares arguments as ONCE.md says. Most of a time limit is the scope of anyio's that each call opens.
_MORE_OF = {"loop_guard": 1.1, "timeout": 11.2}


def make_rows(folder: Path = ROOT) -> list[CountedRow]:
    """Build the pipelines, and return the rows in counting order. The folder is for the files of stores."""
    pipeline = around(add, boom)
    kinds = around_all()
    own = with_own(kinds)
    sent = {tool: Call(tool, ARGUMENTS) for tool in ("read", "idempotent", "mutating", "context", "keyed")}
    return [
        CountedRow(LOOP, _by_hand),
        CountedRow(_SEVEN, _each(pipeline), LOOP, 7.2),
        CountedRow("seven stages, pipeline.call(name, arguments)", lambda: pipeline.call("add", ARGUMENTS), LOOP, 7.5),
        CountedRow("one more middleware", _each(with_more(pipeline, lambda: pass_on, 1)), _SEVEN, 0.45, more=True),
        CountedRow("one more check", _each(with_more(pipeline, lambda: let_pass, 1)), _SEVEN, 0.2, more=True),
        *(
            CountedRow(f"one more {name}", _each(with_more(pipeline, make, 1), ADD, OTHER), _SEVEN, limit, more=True)
            for name, make in IDLE_STAGES.items()
            for limit in (_MORE_OF.get(name, 0.8),)
        ),
        *(
            CountedRow(what, _each(pipeline, FAILING_CALLS[name][0]), LOOP, limit)
            for what, name, limit in (
                ("unknown name", "near", 4),
                ("missing parameter", "missing", 9),
                ("wrong type", "wrong", 9.8),
                ("raising tool", "raising", 9.6),
            )
        ),
        CountedRow("a read", _each(kinds, sent["read"])),
        CountedRow("an idempotent tool", _each(kinds, sent["idempotent"]), "a read", 1.8),
        CountedRow("a mutating tool", _each(kinds, sent["mutating"]), "a read", 1.8),
        CountedRow("a tool with a ToolContext", _each(kinds, sent["context"]), "a read", 3.2),
        CountedRow("a keyed tool", _each(kinds, sent["keyed"]), "a read", 5),
        CountedRow(f"a read, {_OWN}", _each(own, sent["read"])),
        CountedRow(f"a mutating tool, {_OWN}", _each(own, sent["mutating"]), f"a read, {_OWN}", 2.2),
        *_user_rows(sent["read"], sent["mutating"]),
        *_decided_rows(kinds, sent["read"]),
        *_kept_rows(kinds, sent["mutating"], Memory(), "memory"),
        *_kept_rows(kinds, sent["mutating"], SQLite(folder / "calls.db"), "SQLite"),
        *_traced_rows(pipeline),
        *(CountedRow(way.what, way.run, way.unit, way.limit, calls=way.calls) for way in WAYS),
    ]


def _user_rows(read: Call, write: Call) -> list[CountedRow]:
    """Rows of what users put around tools: a time limit, a conversation, both with a ledger as the README's agent."""
    limited = around_all(timeout=60)
    talk = around_all().with_(conversation="talk")
    agent = limited.before("retry", Ledger(repeats="replay")).with_(conversation="talk")
    number = itertools.count()

    def anew(run: Callable[[Call], Awaitable[object]], call: Call) -> Run:
        """Each with an id and a value of its own: a ledger that replays answers an equal call without the body."""
        return lambda: run(Call(call.name, ARGUMENTS | {"a": next(number)}, id=f"u{next(number)}"))

    return [
        CountedRow("a read, with a time limit", _each(limited, read), LOOP, 16),
        CountedRow("a mutating tool, with a time limit", _each(limited, write), LOOP, 18),
        CountedRow("a mutating tool, in a conversation", anew(talk, write), LOOP, 12),
        CountedRow("a read of the README's agent", anew(agent, read), LOOP, 18),
        CountedRow("a mutating tool of the README's agent", anew(agent, write), LOOP, 50),
    ]


def _decided_rows(pipeline: Pipeline, read: Call) -> list[CountedRow]:
    """A read beside what decides on other calls."""
    store = Memory()
    rules = RuleSet((PolicyRule("deny", "drop_*"), PolicyRule("allow", effect="read")))
    kept = pipeline.before("retry", Ledger(store))
    asked = kept.before("ledger", Approve(store, effects=["mutating"]))
    return [
        CountedRow(
            "a read that a policy allows",
            _each(pipeline.after("validate", Policy(rules)), read),
            "a read",
            0.3,
            more=True,
        ),
        CountedRow("a read beside a ledger", _each(kept, read), "a read", more=True),
        CountedRow("a read beside an approval", _each(asked, read), "a read beside a ledger", more=True),
    ]


def _kept_rows(pipeline: Pipeline, write: Call, store: Store, where: str) -> list[CountedRow]:
    """A call that a ledger keeps, and one that a person has approved as well."""
    asks = Approve(store, effects=["mutating"])
    kept = pipeline.before("retry", Ledger(store))
    asked = kept.before("ledger", asks)
    number = itertools.count()

    async def approve() -> None:
        """Send a call, approve it, and send it again."""
        waiting = (await asked(attrs.evolve(write, id=f"a{next(number)}"))).failure()
        assert isinstance(waiting, AwaitingApproval)
        await asks.approvals.approve(waiting.id, by="boss")
        await asked(attrs.evolve(write, id=f"a{next(number)}"))

    def keep() -> Awaitable[object]:
        return kept(attrs.evolve(write, id=f"k{next(number)}"))

    plain = f"a mutating tool, with a ledger in {where}"
    return [
        CountedRow(plain, keep, LOOP, opens=asked),
        CountedRow(f"a call that a person approves, in {where}", approve, plain, calls=20),
    ]


def _traced_rows(pipeline: Pipeline) -> list[CountedRow]:
    provider = TracerProvider()
    provider.add_span_processor(SpanProcessor())  # its methods do nothing
    tracer = provider.get_tracer("bare")
    meters = MeterProvider([InMemoryMetricReader()])

    async def bare() -> None:
        tracer.start_span("bare").end()

    def traced(**options: Any) -> Run:
        return _each(pipeline.replace("trace", Trace(tracer_provider=provider, **options)))

    return [
        CountedRow(_SPAN, bare),
        CountedRow("every stage a span, inline", traced(), _SPAN, 11.5),
        CountedRow("every stage a span, inline, with a meter", traced(meter_provider=meters), _SPAN, 12.7),
        CountedRow("notable stages only", traced(stages="notable"), _SPAN),
        CountedRow("call and attempt only", traced(stages=False), _SPAN),
    ]


def _each(run: Callable[[Call], Awaitable[object]], call: Call = ADD, other: Call | None = None) -> Run:
    if other is None:
        return functools.partial(run, call)
    turn = itertools.cycle((call, other))
    return lambda: run(next(turn))


_VALIDATE = TypeAdapter(Add).validator.validate_python
_TOOLS: dict[str, tuple[Callable[[object], Any], Callable[..., Awaitable[int]]]] = {"add": (_VALIDATE, add)}


async def _by_hand() -> tuple[str, object]:
    """Look up, validate, try, try again, return: the loop that people write, in its shortest form."""
    found = _TOOLS.get("add")
    if found is None:
        return "unknown", None
    validate, function = found
    try:
        params = validate(ARGUMENTS)
    except ValidationError as exc:
        return "invalid", exc
    last: Exception | None = None
    for _ in range(ATTEMPTS):
        try:
            return "ok", await function(**params)
        except Exception as exc:  # noqa: BLE001  # a tool may raise anything
            last = exc
    return "error", last


def count() -> dict[str, int]:
    """Count every row in a process under valgrind; return the instructions of one call, by the row's name.

    Raises:
        RuntimeError: valgrind is not installed, or the process failed.
    """
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise RuntimeError("valgrind is not installed (apt-get install valgrind): nothing is counted")
    with tempfile.TemporaryDirectory() as folder:
        command = [valgrind, "--tool=callgrind", "--dump-before=sched_yield", f"--callgrind-out-file={folder}/out"]
        fixed = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(  # noqa: S603  # valgrind, as found on the path
            [*command, sys.executable, "-m", "benchmarks.overhead.counted"],
            cwd=ROOT,
            env={**os.environ, **fixed},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"the process under valgrind failed: {done.stderr[-2000:]}")
        totals = [_read_total(dump) for dump in sorted(Path(folder).glob("out.*"), key=_number)]
    # The first dump ends what came before the first row; after it, one holds a row's calls and one what lies between.
    counted = zip(json.loads(done.stdout), totals[1::2], strict=True)
    return {what: total // calls for (what, calls), total in counted}


def _number(dump: Path) -> int:
    return int(dump.suffix[1:])


def _read_total(dump: Path) -> int:
    found = re.search(r"^totals: (\d+)", dump.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise RuntimeError("a dump of callgrind has no total")
    return int(found[1])


def judge(rows: Sequence[CountedRow], counts: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """Return the lines of the table, and the names of the rows that are over their limit."""
    lines = [f"  {'':50} {'instructions':>12} {'figure':>8} {'limit':>6}"]
    over: list[str] = []
    for row in rows:
        figure = row.figure(counts)
        shown = "" if row.unit is None else f"{figure:.2f}"
        limit = "" if row.limit is None else f"{row.limit:g}"
        lines.append(f"  {row.what:50} {counts[row.what]:>12,} {shown:>8} {limit:>6}".rstrip())
        if row.limit is not None and figure > row.limit:
            lines[-1] += "  over"
            over.append(row.what)
    return lines, over


def find_other_versions() -> list[str]:
    """The interpreter and libraries here that are not those that the limits were set with; empty: the limits hold."""
    here = {name: version(name) for name in _LIMITS_HOLD_FOR if name != "python"}
    here["python"] = ".".join(platform.python_version_tuple()[:2])
    if platform.python_implementation() != "CPython" or platform.machine() != "x86_64":
        return [f"{platform.python_implementation()} on {platform.machine()}"]
    return [f"{name} {here[name]} (limits: {known})" for name, known in _LIMITS_HOLD_FOR.items() if here[name] != known]


def judge_modules() -> tuple[list[str], list[str]]:
    """Count the modules that are loaded. Return the lines of the table, and the names of the rows over their budget."""
    results = run([LOADING], ONCE, lambda _: None)
    over = [each.row.what for each in results if each.row.budget is not None and each.median > each.row.budget]
    lines = [each.line() + ("  over" if each.row.what in over else "") for each in results]
    return lines, over


def guard() -> int:
    """Count, print the table, and return 1 if a row is over its limit.

    Instructions are judged on the versions that their limits were set with, and modules on all.
    """
    modules, over = judge_modules()
    print(*modules, sep="\n")
    try:
        counts = count()
    except RuntimeError as exc:
        print(exc)
        return int(bool(over) or shutil.which("valgrind") is not None)  # without it there is nothing else to judge by
    lines, too_many = judge(make_rows(), counts)
    print(*lines, sep="\n")
    if others := find_other_versions():
        print(f"not judged, for other versions count otherwise: {', '.join(others)}")
    else:
        over += too_many
    if over:
        print(f"over the limit: {', '.join(over)}")
    return int(bool(over))


async def _run_all(rows: Sequence[CountedRow]) -> None:
    async with AsyncExitStack() as stack:
        for opened in [row.opens for row in rows if row.opens is not None]:
            await stack.enter_async_context(opened)
        await _run_open(rows)


async def _run_open(rows: Sequence[CountedRow]) -> None:
    for row in rows:
        for _ in itertools.repeat(None, min(_WARM, 3 * row.calls)):
            await row.run()
    gc.collect()
    gc.freeze()
    for row in rows:
        for _ in itertools.repeat(None, _AGAIN):
            await row.run()
        os.sched_yield()  # callgrind writes a dump before each
        for _ in itertools.repeat(None, row.calls):
            await row.run()
        os.sched_yield()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # for both sides: the loop logs nothing at all
    with tempfile.TemporaryDirectory() as folder:
        rows = make_rows(Path(folder))
        asyncio.run(_run_all(rows))
    print(json.dumps([(row.what, row.calls) for row in rows]))

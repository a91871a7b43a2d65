"""``python -m benchmarks.scale.worst``: how long one call of n bytes can hold the event loop.

It tries calls that a model, or an attacker who writes through it, may send, and results and failures that a tool may
give back: hand-made families, and random calls. Each goes through the standard stages and Shape; what it takes is all
on the loop, since the tools do nothing: the name, the limits, the schema, repairs, advice, the text for the model, the
report's `undeclared`, and the text of the outcome in a record, without secrets. With ``--full`` each call is tried
twice more, of a tool that changes something: with all that keeps something around it (an audit with its contents, a
policy that judges arguments, a ledger, a journal, a wording), and with an approval that waits beside these. The
bound is 50 ms and 0.1 ms for each kB of the call and its result, in processor time of the loop's thread, as the machine
may have other work; the best of three runs counts. The memory that a hand-made case takes, at its peak and beside the
call and the result themselves, is bounded as well.
"""

from __future__ import annotations

import argparse
import gc
import heapq
import logging
import random
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import count
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from time import thread_time
from typing import Any, cast

import anyio
import attrs

from benchmarks.scale.worst_families import FAMILIES, TOOLS, fuzz
from benchmarks.scale.worst_results import ANSWER, RESULT_FAMILIES, RESULT_TOOLS
from benchmarks.scale.worst_schemas import SCHEMA_FAMILIES, SCHEMA_TOOLS
from toolcall_pipeline import Call, Pipeline, ToolRegistry, Wording, is_failure, render
from toolcall_pipeline.engine.report.content import render_outcome
from toolcall_pipeline.middlewares import Approve, Audit, Shape, standard
from toolcall_pipeline.policies import PolicyRule, RuleSet
from toolcall_pipeline.stores import Memory

_FIXED = 0.050  # seconds for any call
_PER_BYTE = 0.1e-3 / 1_000  # seconds
_MASKING = 4  # times the time, for the result of a tool with declared secrets
_MEMORY = 20  # times the size of the call and its result
_FREE_MEMORY = 5_000_000  # bytes for any call
_LARGE = 50_000  # bytes of a case whose memory is measured
_RUNS = 3  # the best of them counts
_MORE_RUNS = 30  # of a case that seems to break the bound, until one keeps it: another process may hold the machine
_SHOWN = 15
_RULES = tuple(
    PolicyRule(tool="*", action="deny", arguments={"required": [name], "properties": {name: form}})
    for name, form in (("none", {"const": 1}), ("n", {"contains": {"const": "none"}}))
)
ALL_TOOLS = (*TOOLS, *SCHEMA_TOOLS)


_numbers = count()


@attrs.frozen
class Case:
    """One call, and where it came from."""

    family: str
    tool: str
    arguments: object = attrs.field(repr=False)
    answer: Any = attrs.field(default=None, repr=False)  # of a tool that gives back what the case holds

    @property
    def size(self) -> int:
        """Bytes of the call and the result, as JSON text."""
        return len(self.tool.encode("utf-8", "surrogatepass")) + size_of(self.arguments) + size_of(self.answer)

    @property
    def is_call(self) -> bool:
        """Whether it is hostile by its arguments, and not by what the tool gives back."""
        return not self.tool.startswith("give")

    @property
    def allowed(self) -> float:
        """Seconds that it may take. Where a result is dense with escapes or dots, Python looks at each for secrets."""
        return _FIXED + self.size * _PER_BYTE * (_MASKING if self.tool == "give_secret" else 1)


def size_of(value: Any) -> int:
    """Count the bytes of a value as compact JSON text, without recursion."""
    total, pending, seen = 0, [value], set[int]()
    while pending:
        each: Any = pending.pop()
        if type(each) in (dict, list) and id(each) in seen:  # a part that occurs again counts once
            continue
        seen.add(id(each))
        if isinstance(each, str):
            total += len(each.encode("utf-8", "surrogatepass")) + 2
        elif isinstance(each, dict):
            held = cast("dict[Any, Any]", each)
            total += 2 + 2 * len(held)
            pending += [*held, *held.values()]
        elif isinstance(each, (list, tuple)):
            items = cast("list[Any]", each)
            total += 2 + len(items)
            pending += items
        elif isinstance(each, BaseExceptionGroup):
            pending += cast("BaseExceptionGroup[BaseException]", each).exceptions
        elif isinstance(each, BaseException):
            total += len(str(each))
            pending += [each.__cause__] if each.__cause__ is not None else []
        elif isinstance(each, set):
            total += sys.getsizeof(cast("object", each))
            pending += cast("set[Any]", each)
        elif attrs.has(
            kind := cast("Any", type(each))
        ):  # an object is as large as in memory: its text does not show it
            total += sys.getsizeof(each)
            pending += [getattr(each, field.name) for field in attrs.fields(kind)]
        else:
            total += len(str(each)) if not isinstance(each, int) else max(1, each.bit_length() // 4)
    return total


def make_pipeline() -> Pipeline:
    """A pipeline with all tools that cases are for."""
    registry = ToolRegistry()
    for tool in (*ALL_TOOLS, *RESULT_TOOLS):
        registry.register(tool)
    return standard(registry, attempts=1)


def make_full_pipeline(folder: Path, *, asks: bool) -> Pipeline:
    """A pipeline with all that keeps something around the tools of the calls, which change something here.

    Args:
        folder: A new folder for the journal.
        asks: Whether each call waits for an approval in the end.
    """
    registry = ToolRegistry()
    for tool in ALL_TOOLS:
        registry.register(attrs.evolve(tool, effect="mutating"))
    store = Memory()
    pipeline = standard(
        registry,
        attempts=1,
        store=store,
        policy=RuleSet(_RULES),
        journal=folder / f"journal_{asks}.db",
        wording=Wording(verbosity="full"),
    ).before("resolve", Audit(store, secret=b"of the audit", content=True))
    return pipeline.before("ledger", Approve(store, effects=["mutating"])) if asks else pipeline


@lru_cache(maxsize=4)
def _add_shape(pipeline: Pipeline) -> Pipeline:
    return pipeline.before("retry", Shape(neutralise=True))


@attrs.define
class Judge:
    """Sends cases and keeps the slowest, as shares of what is allowed."""

    pipeline: Pipeline = attrs.field(factory=make_pipeline)
    full: Sequence[Pipeline] = ()  # with all that keeps something, for the calls
    tried: int = 0
    slowest: list[tuple[float, int, float, Case, str, Pipeline]] = attrs.field(factory=lambda: cast("list[Any]", []))
    memory: list[tuple[float, str]] = attrs.field(factory=lambda: cast("list[Any]", []))
    _order: count[int] = attrs.field(factory=count)

    async def try_case(self, case: Case) -> None:
        """Time a case in each pipeline that it is for."""
        for pipeline in (self.pipeline, *(self.full if case.is_call else ())):
            await self._try_in(pipeline, case)

    async def _try_in(self, pipeline: Pipeline, case: Case) -> None:
        best, kind = 1e9, ""
        for _ in range(_RUNS):
            gc.collect(0)
            seconds, kind = await time_call(pipeline, case)
            best = min(best, seconds)
            if best < case.allowed / 4:
                break
        self.tried += 1
        share = best / case.allowed
        heapq.heappush(self.slowest, (share, next(self._order), best, case, kind, pipeline))
        if len(self.slowest) > _SHOWN:
            heapq.heappop(self.slowest)

    async def confirm(self) -> None:
        """Time the cases that seem to break the bound again, now that other ones have run in between."""
        for place, (share, number, best, case, kind, pipeline) in enumerate(self.slowest):
            if share > 1:
                for _ in range(_MORE_RUNS):
                    best = min(best, (await time_call(pipeline, case))[0])  # noqa: PLW2901
                    if best <= case.allowed:
                        break
                self.slowest[place] = (best / case.allowed, number, best, case, kind, pipeline)


async def time_call(pipeline: Pipeline, case: Case) -> tuple[float, str]:
    """Send a case and read its report and its text. Return the seconds and the kind of outcome."""
    ANSWER[0] = case.answer
    pipeline = _add_shape(pipeline) if case.tool == "give_shaped" else pipeline
    begun = thread_time()
    number = f"call {next(_numbers)}"
    call = Call(case.tool, case.arguments, id=number, principal="somebody", conversation=number)
    report = await pipeline.report(call)
    outcome = report.outcome
    assert outcome is not None
    len(report.undeclared)
    render_outcome(report) if case.tool == "give_secret" else render(outcome)
    kind = "ok"
    if is_failure(outcome):
        kind = outcome.failure().kind
    return thread_time() - begun, kind


def list_families() -> Sequence[tuple[str, Callable[[], Case]]]:
    """List the names of all hand-made cases, each with what makes it: all at once would take a gigabyte."""
    families = (*FAMILIES, *SCHEMA_FAMILIES)
    calls = [(f"{tool[:20]} {family}", partial(_make_call, family, tool, make)) for family, tool, make in families]
    return calls + [
        (f"{tool} {family}", partial(_make_result, family, tool, make, answer))
        for family, tool, make, answer in RESULT_FAMILIES
    ]


def _make_call(family: str, tool: str, make: Callable[[], object]) -> Case:
    return Case(family, tool, make())


def _make_result(family: str, tool: str, make: Callable[[], object], answer: Callable[[], object]) -> Case:
    return Case(family, tool, make(), answer())


async def measure_memory(pipeline: Pipeline, case: Case) -> float:
    """Return the share of the allowed memory that a case takes at its peak."""
    gc.collect()
    tracemalloc.start()
    try:
        await time_call(pipeline, case)
        return tracemalloc.get_traced_memory()[1] / (_FREE_MEMORY + _MEMORY * case.size)
    finally:
        tracemalloc.stop()


async def search(cases: int, seed: int, *, full: bool = False) -> Judge:
    """Try the hand-made cases, then so many random ones; see the option ``--full``."""
    if not full:
        judge = Judge()
        await _search(judge, cases, seed)
        return judge
    with TemporaryDirectory() as folder:
        async with (
            make_full_pipeline(Path(folder), asks=False) as acts,
            make_full_pipeline(Path(folder), asks=True) as asks,
        ):
            judge = Judge(full=(acts, asks))
            await _search(judge, cases, seed)
            return judge


async def _search(judge: Judge, cases: int, seed: int) -> None:
    for pipeline in (judge.pipeline, *judge.full):
        for warm in ALL_TOOLS:
            await time_call(pipeline, Case("warm", warm.name, {}))
    for _, make in list_families():
        case = make()
        await judge.try_case(case)
        if case.size > _LARGE:
            judge.memory.append((await measure_memory(judge.pipeline, case), f"{case.tool[:14]:14} {case.family}"))
    dice = random.Random(seed)  # noqa: S311  # no secret
    for _ in range(cases):
        family, tool, arguments = fuzz(dice)
        await judge.try_case(Case(family, tool, arguments))
    await judge.confirm()


def main(argv: Sequence[str] | None = None) -> int:
    """Print the slowest calls found. Returns 1 with ``--check`` if one took more than the bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="random ones (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the random cases (default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="exit 1 if a call takes longer than the bound")
    parser.add_argument("--full", action="store_true", help="also with all that keeps something around the calls")
    given = parser.parse_args(argv)
    logging.getLogger().addHandler(logging.NullHandler())
    judge = anyio.run(partial(search, given.cases, given.seed, full=given.full))
    print(f"{judge.tried} calls; the bound is {_FIXED * 1e3:.0f} ms and {_PER_BYTE * 1e6:.1f} ms per kB")
    print(f"{'of the bound':>12} {'ms':>8} {'bytes':>9}  {'tool':14} {'outcome':14} family")
    for share, _, seconds, case, kind, _ in sorted(judge.slowest, key=itemgetter(0), reverse=True):
        print(f"{share:>12.0%} {seconds * 1e3:>8.1f} {case.size:>9}  {case.tool[:14]:14} {kind:14} {case.family}")
    print(f"memory: the bound is {_MEMORY} times the call and its result, and {_FREE_MEMORY // 1_000_000} MB")
    largest = sorted(judge.memory, reverse=True)[:5]
    for share, name in largest:
        print(f"{share:>12.0%} {'':19} {name}")
    return int(given.check and (max(judge.slowest)[0] > 1 or largest[0][0] > 1))


if __name__ == "__main__":
    sys.exit(main())

"""The cost of failures, in units of the loop's success, and of a wrong name among many tools."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager

import anyio
from rapidfuzz import fuzz, process

from benchmarks.overhead.rows import Group, Row
from benchmarks.overhead.subjects import ARGUMENTS, add, around, boom, by_hand, calls, flaky, named, plain
from toolcall_pipeline import Call, Tool, ToolRegistry, is_failure
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.testing.overhead.slices import Measurable

# The call, and the kind of error that it ends in, or None.
CALLS: dict[str, tuple[Call, str | None]] = {
    "strange": (Call("zzzzzz", ARGUMENTS), "unknown_tool"),
    "near": (Call("boon", ARGUMENTS), "unknown_tool"),
    "missing": (Call("add", {"a": 2}), "validation"),
    "wrong": (Call("add", {"a": 2, "b": "three"}), "validation"),
    "raising": (Call("boom", ARGUMENTS), "internal"),
    "retried": (Call("flaky", ARGUMENTS), None),
}
_NEW = 600  # wrong names in turn: more than the 512 that Resolve remembers, so each of them is new to it
_VERBS = ("create", "delete", "fetch", "find", "list", "merge", "read", "search", "update", "write")
_NOUNS = ("account", "branch", "comment", "document", "event", "file", "invoice", "message", "order", "project")


def many_tools(count: int) -> ToolRegistry:
    """Make tools with names of the usual length: ``find_invoice_017``."""
    tools = ToolRegistry()
    for number, verb, noun in itertools.islice(itertools.product(range(count), _VERBS, _NOUNS), count):
        name = f"{verb}_{noun}_{number:03}"
        tools.register(Tool.from_schema(name=name, parameters=None, handler=add, effect="read"))
    return tools


def misspelt(names: Collection[str], count: int) -> list[str]:
    """Return that many different names, each one letter away from one of these."""
    known = list(names)
    wrong = (name[:1] + letter + name[2:] for letter in "abcdefghijklmnopqrstuvwxyz0123456789" for name in known)
    found = [name for name in dict.fromkeys(wrong) if name not in names]
    return random.Random(0).sample(found, count)  # noqa: S311  # the same in each run


@contextmanager
def _failing() -> Generator[Mapping[str, Measurable]]:
    pipeline, few = around(add, boom, flaky), many_tools(20)
    for what, (call, kind) in CALLS.items():
        outcome = anyio.run(pipeline, call)
        if kind != (outcome.failure().kind if is_failure(outcome) else None):
            raise RuntimeError(f"{what}: {outcome}")
    yield {
        "loop": calls(by_hand),
        "retried by hand": calls(by_hand, Call("flaky", ARGUMENTS)),
        **{what: calls(pipeline, call) for what, (call, _) in CALLS.items()},
        "strange, first": calls(standard(few), *named(f"q{number:07}" for number in range(_NEW))),
        "near, first": calls(standard(few), *named(misspelt(few.tools, _NEW))),
    }


FAILING = Group(
    "failing",
    "failures, in units of the loop's success",
    (
        Row("unknown name, nothing near", "loops", "strange", "loop", budget=4),
        Row("unknown name, with a suggestion", "loops", "near", "loop", budget=4),
        Row("bad parameter: missing", "loops", "missing", "loop", budget=7),
        Row("bad parameter: wrong type", "loops", "wrong", "loop", budget=7),
        Row("raising tool", "loops", "raising", "loop", budget=6.5),
        Row("new unknown name among 20, nothing near", "loops", "strange, first", "loop"),
        Row("new unknown name among 20, with a suggestion", "loops", "near, first", "loop"),
        Row("one retry, without its wait", "x by hand", "retried", "retried by hand"),
    ),
    _failing,
)


def _search(wrong: Iterator[str], names: Sequence[str]) -> None:
    """Look once for the names that are most like the next wrong one, with the library that the pipeline uses."""
    process.extract(next(wrong), names, scorer=fuzz.ratio, limit=3)


@contextmanager
def _among_many() -> Generator[Mapping[str, Measurable]]:
    found: dict[str, Measurable] = {"loop": calls(by_hand)}
    for count in (1_000, 10_000):
        tools = many_tools(count)
        wrong = misspelt(tools.tools, _NEW)
        names = named(wrong)
        found[f"{count} first"] = calls(standard(tools), *names)
        found[f"{count} again"] = calls(standard(tools), names[0])
        found[f"{count} searched"] = plain(_search, itertools.cycle(wrong), list(tools.tools))
    yield found


AMONG_MANY = Group(
    "names",
    "a wrong name among many tools",
    (
        Row("new wrong name among 1,000", "ms", "1000 first", count=1000, budget=0.8),
        Row("new wrong name among 10,000", "ms", "10000 first", count=1000, budget=8),
        Row("new wrong name among 1,000, in searches", "x search", "1000 first", "1000 searched", budget=16),
        Row("new wrong name among 10,000, in searches", "x search", "10000 first", "10000 searched", budget=7),
        Row("the same wrong name again among 1,000", "loops", "1000 again", "loop", budget=4),
        Row("the same wrong name again among 10,000", "loops", "10000 again", "loop", budget=4),
    ),
    _among_many,
)

"""The cost of a call, a wrong name and a list of tools in registries of more and more tools."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import cycle, islice
from time import thread_time_ns
from typing import Any

import attrs
from pydantic import TypeAdapter, ValidationError
from rapidfuzz import fuzz, process

from benchmarks.growth.charts import Chart, Subject
from benchmarks.overhead.subjects import ARGUMENTS, Add, add, calls, named
from toolcall_pipeline import Call, Failure, Tool, ToolRegistry
from toolcall_pipeline.adapters import openai
from toolcall_pipeline.middlewares import Resolve, standard
from toolcall_pipeline.testing.overhead.slices import Measurable, Scenario

SIZES = (10, 100, 1_000, 10_000, 100_000)
_VERBS = ("get", "list", "create", "update", "delete", "search", "send", "move", "read", "count")
_NOUNS = ("invoice", "calendar", "ticket", "customer", "channel", "document", "branch", "order", "payment", "folder")
_OWNERS = ("team", "project", "account", "region", "tenant", "vendor", "week", "device", "campus", "fleet")
_LAST = len(_VERBS) - 1
_SHOWN = 10  # tools of a view
_TOGETHER = 1_000  # tools in one slice, at least
_NEW = 2_000  # wrong names in turn: more than a stage remembers


def tool_names(size: int) -> list[str]:
    """So many names of the kind that tools have; every tenth holds a dot, which providers refuse."""
    return [
        f"{_VERBS[n % 10]}{'.' if n % 10 == _LAST else '_'}{_NOUNS[n // 10 % 10]}_{_OWNERS[n // 100 % 10]}_{n // 1000}"
        for n in range(size)
    ]


def make_tools(size: int) -> Iterator[Tool[..., Any]]:
    """So many tools; they share their function, and so what it was compiled to."""
    first: Tool[..., Any] = Tool("first", add, "read")
    first.compile()
    for name in tool_names(size):
        yield attrs.evolve(first, name=name, description=f"{name}.", aliases=(f"{name}_alias",))


@lru_cache(1)
def registry_of(size: int) -> ToolRegistry:
    """A registry of so many tools. Only the last size is kept."""
    registry = ToolRegistry()
    for tool in make_tools(size):
        registry.register(tool)
    return registry


def _called(rename: Callable[[str], str], *, canonical: bool = False, count: int = 100) -> Callable[[int], Measurable]:
    def make(size: int) -> Measurable:
        registry = registry_of(size)
        names = list(registry.tools)
        sent = [rename(names[n * len(names) // count]) for n in range(count)]
        return calls(standard(registry, canonical_names=canonical), *named(sent))

    return make


def _provider_names(size: int) -> Measurable:
    registry = registry_of(size)
    sent = registry.provider_names(64)
    changed = [name for own, name in islice(sent.items(), 1_000) if own != name]
    return calls(standard(registry), *named(changed))


def _read_reply(size: int) -> Measurable:
    """Read a call with such a name out of a reply."""
    registry = registry_of(size)
    changed = next(sent for own, sent in registry.provider_names(64).items() if own != sent)
    function = {"name": changed, "arguments": '{"a": 2, "b": 3}'}
    reply = {"tool_calls": [{"id": "call_1", "type": "function", "function": function}]}

    async def batch(times: int) -> None:
        for _ in range(times):
            openai.calls(reply, registry)

    return Scenario(batch)


def _canonical(size: int) -> Measurable:
    """Names that differ in case alone, each of them new."""
    registry = registry_of(size)
    resolve = Resolve(registry, canonical_names=True)
    names = list(registry.tools)
    turn = cycle([Call(names[n * len(names) // _NEW].upper(), ARGUMENTS) for n in range(_NEW)])

    async def batch(times: int) -> None:
        for call in islice(turn, times):
            resolve(attrs.evolve(call, name=_vary(call.name)))

    return Scenario(batch)


def _vary(name: Any) -> str:
    """The name in another mix of upper and lower case, so that no stage remembers it."""
    number = next(_NUMBERS)
    return "".join(c.lower() if number >> (n % 16) & 1 else c for n, c in enumerate(name))


_NUMBERS = cycle(range(1 << 16))


def _by_hand(size: int) -> Measurable:
    adapter = TypeAdapter(Add)
    tools = dict.fromkeys(tool_names(size), (adapter, add))

    async def run(call: Call) -> object:
        found = tools.get(call.name)
        if found is None:
            return "unknown"
        try:
            params = found[0].validate_python(call.arguments)
            return await found[1](**params)
        except ValidationError as exc:
            return str(exc)

    names = list(tools)
    return calls(run, *named(names[n * len(names) // 100] for n in range(100)))


BY_NAME = Chart(
    "tools",
    "A call that finds its tool",
    "tools in the registry",
    "µs of CPU for each call",
    SIZES,
    (
        Subject("its name", _called(str)),
        Subject("an alias", _called("{}_alias".format)),
        Subject("its name, with noise", _called("functions.{}".format)),
        Subject("its name as a provider accepts it", _provider_names),
        Subject("such a name in a reply, only read", _read_reply),
        Subject("its name in another case, a new one", _canonical),
        Subject("hand-written loop", _by_hand, reference=True),
    ),
)


def _wrong(count: int, *, change: bool = False) -> Callable[[int], Measurable]:
    def make(size: int) -> Measurable:
        registry = ToolRegistry()  # of its own: a change of it is none of the others'
        registry.merge(registry_of(size))
        resolve = Resolve(registry)
        turn = cycle([Call(f"fetch_invoices_of_{n}th_team", ARGUMENTS) for n in range(count)])

        async def batch(times: int) -> None:
            for call in islice(turn, times):
                if change:
                    registry.disable(_FIRST)
                    registry.enable(_FIRST)
                found: object = resolve(call)
                assert isinstance(found, Failure)

        return Scenario(batch)

    return make


_FIRST = tool_names(1)[0]


def _one_scan(size: int) -> Measurable:
    names = list(registry_of(size).tools)
    turn = cycle([f"fetch_invoices_of_{n}th_team" for n in range(_NEW)])

    async def batch(times: int) -> None:
        for name in islice(turn, times):
            process.extract(name, names, scorer=fuzz.ratio, limit=3, score_cutoff=70)

    return Scenario(batch)


WRONG_NAMES = Chart(
    "wrong_names",
    "A name that no tool has",
    "tools in the registry",
    "µs of CPU for each refusal",
    SIZES,
    (
        Subject("a new name", _wrong(_NEW)),
        Subject("a name of before", _wrong(1)),
        Subject("a new name, after a tool was closed and opened", _wrong(_NEW, change=True)),
        Subject("one scan of the names by rapidfuzz", _one_scan, reference=True),
    ),
)


@attrs.frozen
class _Shared:
    """Something that is done for many at once, as the cost of each of them.

    Args:
        function: Does it.
        count: For how many.
    """

    function: Callable[[], object]
    count: int

    async def prepare(self, seconds: float) -> None:  # noqa: ARG002  # for all of them at once, however long that takes
        """Do it once: what is made at first use is not part of the cost."""
        self.function()

    async def slice(self) -> float:
        """Microseconds of CPU for each of them."""
        gc.collect()
        times = -(-_TOGETHER // self.count)
        began = thread_time_ns()
        for _ in range(times):
            self.function()
        return (thread_time_ns() - began) / 1e3 / times / self.count


def _definitions(size: int) -> Measurable:
    return _Shared(registry_of(size).definitions, size)


def _for_openai(size: int) -> Measurable:
    registry = registry_of(size)
    return _Shared(lambda: openai.tools(registry), size)


def _view(size: int) -> Measurable:
    registry = registry_of(size)
    view = registry.view(list(registry.tools)[:_SHOWN])
    return _Shared(view.definitions, _SHOWN)


def _register(size: int) -> Measurable:
    tools = list(make_tools(size))

    def register() -> None:
        registry = ToolRegistry()
        for tool in tools:
            registry.register(tool)

    return _Shared(register, size)


def _close_and_open(size: int) -> Measurable:
    """Of a tenth of the tools, each by itself."""
    registry = ToolRegistry()
    for tool in make_tools(size):
        registry.register(tool)
    names = list(registry.tools)[: size // 10]

    def close_and_open() -> None:
        for name in names:
            registry.disable(name)
        for name in names:
            registry.enable(name)

    return _Shared(close_and_open, len(names))


def _copies(size: int) -> Measurable:
    definition = Tool("first", add, "read").definition()

    def copy() -> list[dict[str, Any]]:
        return [
            {**definition, "parameters": {**definition["parameters"], "properties": {"a": {}, "b": {}}}}
            for _ in range(size)
        ]

    return _Shared(copy, size)


OFFERED = Chart(
    "offered",
    "Tools that are registered, closed, and offered to a model",
    "tools in the registry",
    "µs of CPU for each tool that is told of",
    SIZES,
    (
        Subject("definitions()", _definitions),
        Subject("tools() for OpenAI", _for_openai),
        Subject(f"definitions() of a view of {_SHOWN} tools", _view),
        Subject("register()", _register),
        Subject("disable() and enable(), of a tenth of them", _close_and_open, most=10_000),
        Subject("dicts of that size, copied by hand", _copies, reference=True),
    ),
)

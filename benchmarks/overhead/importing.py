"""The start of a program, in fresh processes: imports, the first pipeline, the first call, and the command."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import anyio
import attrs

from benchmarks.overhead.rows import Group, Row
from toolcall_pipeline.testing.overhead.slices import Measurable

ROOT = Path(__file__).parent.parent.parent
_HEAVY = (
    "click",
    "griffe",
    "jsonschema_rs",
    "opentelemetry.sdk",
    "pydantic",
    "pydantic_core",
    "rapidfuzz",
    "ray",
    "rich",
)
_OURS = "import toolcall_pipeline.middlewares"
_BUILT = (
    "from toolcall_pipeline import Call, ToolRegistry; from toolcall_pipeline.middlewares import standard; "
    "standard(ToolRegistry())"
)
_FOUNDATION = "import asyncio, attrs, anyio, returns.result, opentelemetry.trace"  # printed above the rows
_TIMED = "import time; began = time.process_time(); {}; print((time.process_time() - began))"
_COUNTED = "{}; import sys; print(sum(name in sys.modules for name in " + str(_HEAVY) + "))"
_OWN = "{}; import sys; print(sum(name.partition('.')[0] == 'toolcall_pipeline' for name in sys.modules))"


@attrs.frozen
class Program:
    """A program that prints one number, run in a fresh process for each slice.

    Args:
        code: of the program.
        cache: the folder for its byte code; whatever the environment says, the second run finds it compiled.
    """

    code: str
    cache: str

    async def prepare(self, seconds: float) -> None:  # noqa: ARG002  # one import, however long that takes
        """Run once, so that all is compiled."""
        await self.slice()

    async def slice(self) -> float:
        """Return the number."""
        return float((await anyio.run_process([sys.executable, "-c", self.code], cwd=ROOT, env=self._env())).stdout)

    def _env(self) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        env["PYTHONPYCACHEPREFIX"] = self.cache
        return env


@contextmanager
def _importing() -> Generator[Mapping[str, Measurable]]:
    with tempfile.TemporaryDirectory() as cache:
        yield {
            "ours": Program(_TIMED.format(_OURS), cache),
            "built": Program(_TIMED.format(f"{_FOUNDATION}; {_BUILT}"), cache),
            "foundation": Program(_TIMED.format(_FOUNDATION), cache),
        }


IMPORTING = Group(
    "import",
    "import of the package and its stages, in units of asyncio, attrs, anyio, returns.result and opentelemetry.trace",
    (
        Row("import", "x foundation", "ours", "foundation", budget=1.3),
        Row("import, and a pipeline built", "x foundation", "built", "foundation"),
    ),
    _importing,
    rounds=3,
)


@contextmanager
def _loading() -> Generator[Mapping[str, Measurable]]:
    with tempfile.TemporaryDirectory() as cache:
        yield {
            "heavy": Program(_COUNTED.format(_BUILT), cache),
            "import": Program(_OWN.format(_OURS), cache),
            "built": Program(_OWN.format(_BUILT), cache),
        }


LOADING = Group(
    "modules",
    "modules that are loaded: a count, which no load of the machine changes",
    (
        Row("own modules that an import loads", "modules", "import", budget=6),
        Row("own modules that a pipeline loads", "modules", "built", budget=110),
        Row("heavy modules that a pipeline loads", "modules", "heavy", budget=0),
    ),
    _loading,
    rounds=1,
)


_TOOLS = """
import time
count = {count}
exec("".join(f'''
async def tool_{{n}}(path: str, start: int = 1, tags: list[str] | None = None) -> str:
    "Read a file."
    return path
''' for n in range(count)))
functions = [globals()[f"tool_{{n}}"] for n in range(count)]
"""
_PIPELINE = """
from toolcall_pipeline import Call, ToolRegistry
from toolcall_pipeline.middlewares import standard
import anyio
tools = ToolRegistry()
async def main():
    began = time.process_time()
    for function in functions:
        tools.tool(effect="read")(function)
    pipeline = standard(tools)
    built = time.process_time()
    {calls}
"""
_PRINT_BUILT = "print(built - began)\nanyio.run(main)"
_PRINT_FIRST = """await pipeline(Call("tool_0", '{"path": "a"}'))
    print(time.process_time() - built)
anyio.run(main)"""
_PRINT_SECOND = """await pipeline(Call("tool_0", '{"path": "a"}'))
    first = time.process_time()
    await pipeline(Call("tool_0", '{"path": "a"}'))
    print(time.process_time() - first)
anyio.run(main)"""
_ADAPTERS = """
from pydantic import TypeAdapter
began = time.process_time()
made = [TypeAdapter(function) for function in functions]
print(time.process_time() - began)
"""
_HELP = """
import sys, time
from toolcall_pipeline.cli import main
sys.argv = ["toolcall", "--help"]
sys.stdout = open("/dev/null", "w")
try:
    main()
except SystemExit:
    sys.stdout = sys.__stdout__
    print(time.process_time())
"""


@contextmanager
def _starting() -> Generator[Mapping[str, Measurable]]:
    with tempfile.TemporaryDirectory() as cache:
        built = _PIPELINE.format(calls=_PRINT_BUILT)
        yield {
            **{f"{count}": Program(_TOOLS.format(count=count) + built, cache) for count in (1, 100, 1_000)},
            "adapters": Program(_TOOLS.format(count=1_000) + _ADAPTERS, cache),
            "first": Program(_TOOLS.format(count=1) + _PIPELINE.format(calls=_PRINT_FIRST), cache),
            "second": Program(_TOOLS.format(count=1) + _PIPELINE.format(calls=_PRINT_SECOND), cache),
            "foundation": Program(_TIMED.format(_FOUNDATION), cache),
            "ours": Program(_TIMED.format(_OURS), cache),
            "help": Program(_HELP, cache),
            "click": Program("import time, click; print(time.process_time())", cache),
        }


_MS = 0.001  # a program prints seconds
STARTING = Group(
    "start",
    "the start of a program: CPU time in fresh processes, byte code compiled before",
    (
        Row("import of what it stands on", "ms", "foundation", count=_MS),
        Row("import of both, libraries included", "ms", "ours", count=_MS),
        Row("the first pipeline, with 1 tool", "ms", "1", count=_MS),
        Row("the first pipeline, with 100 tools", "ms", "100", count=_MS),
        Row("the first pipeline, with 1,000 tools", "ms", "1000", count=_MS),
        Row("pydantic, a TypeAdapter for each of 1,000", "ms", "adapters", count=_MS),
        Row("1,000 tools, in TypeAdapters for them", "x pydantic", "1000", "adapters", budget=2),
        Row("the first call", "ms", "first", count=_MS),
        Row("the second call", "ms", "second", count=_MS),
        Row("a process of click that does nothing", "ms", "click", count=_MS),
        Row("toolcall --help, the whole process", "ms", "help", count=_MS),
    ),
    _starting,
    rounds=3,
)

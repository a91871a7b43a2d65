"""The cost of importing the two packages, in fresh processes."""

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
        Row("own modules that a pipeline loads", "modules", "built", budget=160),
        Row("heavy modules that a pipeline loads", "modules", "heavy", budget=0),
    ),
    _loading,
    rounds=1,
)

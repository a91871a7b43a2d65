"""``python -m benchmarks.peers.process NAME EFFORT FILE``: one subject in one fresh process, in its own environment.

It judges and measures every scenario, first without recording, then with a provider and one exporter.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import platform
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from benchmarks.peers.exporting import Recorder
from benchmarks.peers.functions import Ran, by_hand
from benchmarks.peers.judging import judge
from benchmarks.peers.scenarios import BY_KEY, SCENARIOS, Scenario, Sent
from benchmarks.peers.timing import Effort, compare

Send = Callable[[], Awaitable[Sequence[str]]]
Prepare = Callable[[Sequence[Sent]], Send]


class Subject(Protocol):
    """The members of a module ``in_NAME``."""

    VARIANTS: Mapping[str, str]  # the entry point and the configuration of each
    PACKAGES: Sequence[str]  # whose versions are recorded

    def serve(self, variant: str, recorder: Recorder | None) -> AbstractAsyncContextManager[Prepare]:
        """Set the tools up.

        The context gives a function of calls. That returns a function which sends them and returns the texts for the
        model; an exception from it ends the run of an agent.

        Args:
            variant: One of `VARIANTS`.
            recorder: The recorder of the provider, or None without one.
        """
        ...


async def measure_all(subject: Subject, effort: Effort) -> AsyncIterator[tuple[str, str, dict[str, Any]]]:
    """Judge and measure each variant in each scenario."""
    recorder = Recorder()
    for traced in (False, True):
        if traced:
            recorder.install()
        for variant in subject.VARIANTS:
            keys = getattr(subject, "ONLY", {}).get(variant, BY_KEY)
            for scenario in SCENARIOS:
                if scenario.traced is traced and scenario.key in keys:
                    # anew for each: what a failure leaves behind, such as a count, is not part of the next one
                    async with subject.serve(variant, recorder if traced else None) as prepare:
                        yield variant, scenario.key, await _measure(scenario, prepare(scenario.calls), recorder, effort)


async def _measure(scenario: Scenario, send: Send, recorder: Recorder, effort: Effort) -> dict[str, Any]:
    if scenario.refused:
        send = _refuse_once(send)
    recorder.keeps = True
    verdict = await judge(scenario, send, recorder.take)
    recorder.keeps = False
    logging.disable(logging.CRITICAL)  # for all alike: what a log costs depends on its handlers
    arguments = {"a": 2, "b": 3}
    batch = len(scenario.calls) > 1

    async def loop() -> object:
        return await by_hand("add", arguments)

    async def loops() -> object:
        return await asyncio.gather(*[by_hand("wait", arguments) for _ in scenario.calls])

    cost = await compare(send, loops if batch else loop, effort, recorder.flush, batch=batch)
    logging.disable(logging.NOTSET)
    return {**verdict._asdict(), "cost": round(cost, 3)}


def _refuse_once(send: Send) -> Send:
    async def send_refused() -> Sequence[str]:
        Ran.refused = True
        return await send()

    return send_refused


async def run(name: str, effort: Effort) -> dict[str, Any]:
    """Return what was found."""
    subject: Any = importlib.import_module(f"benchmarks.peers.in_{name}")
    found: dict[str, dict[str, Any]] = {variant: {} for variant in subject.VARIANTS}
    async for variant, key, result in measure_all(subject, effort):
        found[variant][key] = result
    versions = {package: version(package) for package in (*subject.PACKAGES, "pydantic", "opentelemetry-sdk")}
    about = {"python": platform.python_version(), "versions": versions, "paths": dict(subject.VARIANTS)}
    return {**about, "variants": found}


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # the frameworks' own business
    results = asyncio.run(run(sys.argv[1], Effort(*json.loads(sys.argv[2]))))
    Path(sys.argv[3]).write_text(json.dumps(results))

"""watch_store: what waits in a store for a person, as OpenTelemetry metrics. API only."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import TYPE_CHECKING

import anyio
import attrs
from opentelemetry import metrics

from ..base import semconv, timing
from ..base.event_loops import get_event_loop
from ..base.forking import register_after_fork
from ..base.options import check_number
from ..once.dead_owners import find_undecided
from ..privacy import get_logger
from ..stores import Store
from .approvals import Approvals

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation

_GAUGES = {
    semconv.PENDING_METRIC: ("{approval}", "Calls that wait for the decision of a person"),
    semconv.PENDING_AGE_METRIC: ("s", "How long the oldest of them has waited; 0: none waits"),
    semconv.UNDECIDED_METRIC: ("{call}", "Calls that may have taken effect, and nobody has said what became of them"),
    semconv.UNDECIDED_AGE_METRIC: ("s", "How long ago the oldest of them began; 0: there is none"),
}
_COUNTS = (semconv.PENDING_METRIC, semconv.UNDECIDED_METRIC)
_CLOSING = 5.0  # seconds that the end of the block waits for a look that goes on though it is cancelled
_logger = get_logger()


@attrs.define(eq=False)
class _Watch:
    """One store that is looked at, and what the last look has found: the value of each metric."""

    store: Store
    every: float
    found: dict[str, float] = attrs.field(factory=dict[str, float])  # replaced, never changed: another thread reads it
    scope: anyio.CancelScope = attrs.field(factory=anyio.CancelScope)
    ended: anyio.Event = attrs.field(factory=anyio.Event)
    failing: bool = False

    def __attrs_post_init__(self) -> None:
        register_after_fork(self._forget)

    async def look(self) -> None:
        """Look once. A store that gives no answer before the next look is due leaves nothing to show."""
        found: dict[str, float] = {}
        try:
            with timing.move_on_after(self.every):
                pending = [each.at for each in await Approvals(self.store).pending()]
                undecided = [each.at for each in await find_undecided(self.store)]
                found = {
                    semconv.PENDING_METRIC: len(pending),
                    semconv.PENDING_AGE_METRIC: _age(pending),
                    semconv.UNDECIDED_METRIC: len(undecided),
                    semconv.UNDECIDED_AGE_METRIC: _age(undecided),
                }
        except Exception:  # of any store: the next look may succeed
            if not self.failing:
                _logger.warning("watch_store: %r gave no answer", self.store, exc_info=True)
        self.found, self.failing = found, not found

    async def keep_looking(self) -> None:
        try:
            with self.scope:
                while True:
                    await timing.sleep(self.every)
                    await self.look()
        finally:
            self.ended.set()

    def _forget(self) -> None:
        """In the child of a fork: the loop that looks is in the parent."""
        self.found = {}


_watches: list[_Watch] = []


@asynccontextmanager
async def watch_store(store: Store, *, every: float = 30.0) -> AsyncGenerator[None]:
    """Export how many calls wait in a store for a person, and for how long, to the global meter provider.

    In the block, a task of this event loop reads the pending approvals and the undecided calls at once and then
    periodically; the metrics have what it found last. Each look reads all records of both, so one process of a fleet
    should do it. The store is opened for the block. While it gives no answer the metrics have no value, and the log
    says so once.

    Args:
        store: The store of `Approve` and `Ledger`, see `toolcall_pipeline.stores`.
        every: Seconds from the end of one look to the next one, > 0. Default 30.

    Raises:
        SetupError: This cannot be a store, or ``every`` is no such number.
    """
    check_number("watch_store", "every", every, above=0, unit="seconds")
    async with store:
        watch = _Watch(store, every)
        await watch.look()
        get_event_loop().start(watch.keep_looking)
        _watches.append(watch)
        try:
            make_gauges()
            yield
        finally:
            _watches.remove(watch)
            watch.scope.cancel()
            with anyio.move_on_after(_CLOSING, shield=True):
                await watch.ended.wait()


@cache
def make_gauges() -> None:
    """Make the instruments, once. A provider that is set later gets them, too."""
    meter = metrics.get_meter_provider().get_meter(semconv.SCOPE, semconv.VERSION, semconv.SCHEMA_URL)
    for name, (unit, text) in _GAUGES.items():
        meter.create_observable_gauge(name, [partial(_observe, name)], unit, text)


def _observe(metric: str, _options: CallbackOptions) -> Iterable[Observation]:
    """What was found last, by the class of the store: the sum of the counts, and the greatest age."""
    from opentelemetry.metrics import Observation

    values: dict[str, list[float]] = {}
    for watch in _watches.copy():
        if metric in watch.found:
            values.setdefault(type(watch.store).__name__, []).append(watch.found[metric])
    combine = sum if metric in _COUNTS else max
    return [Observation(combine(found), {semconv.STORE: store}) for store, found in values.items()]


def _age(began: list[float]) -> float:
    return max(0.0, timing.wall_time() - min(began)) if began else 0.0

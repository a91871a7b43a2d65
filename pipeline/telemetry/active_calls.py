"""ActiveCalls: the calls that run now, counted without a lock and read when metrics are collected."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

from .. import semconv
from ..forking import register_after_fork
from .queues import measure_queues

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation

Running: TypeAlias = "deque[None]"  # one entry for each call; to append and to pop is atomic, += is not
_MAX_TOOLS = 10_000  # tools to remember; an application may register new ones without end


class ActiveCalls:
    """The calls of each tool that run now."""

    def __init__(self) -> None:
        self._running: dict[str, Running] = {}
        register_after_fork(self._forget)

    def begin(self, name: str) -> Running:
        """Count a call that begins; the caller pops one entry of what it gets when the call ends."""
        try:
            running = self._running[name]
        except KeyError:
            running = self._add(name)
        running.append(None)
        return running

    def observe(self, _options: CallbackOptions) -> Iterable[Observation]:
        """The callback of the instrument. What waits to be measured is measured first, or this collection lacks it."""
        from opentelemetry.metrics import Observation

        measure_queues()
        return [Observation(len(running), {semconv.TOOL_NAME: name}) for name, running in list(self._running.items())]

    def _add(self, name: str) -> Running:
        if len(self._running) >= _MAX_TOOLS:
            self._running = {each: running for each, running in list(self._running.items()) if running}
        return self._running.setdefault(name, deque())

    def _forget(self) -> None:
        """After a fork: the calls run in the parent."""
        self._running = {}


_of_providers: WeakKeyDictionary[Any, ActiveCalls] = WeakKeyDictionary()


def find_active_calls(provider: object, meter: Meter) -> ActiveCalls:
    """The calls that are counted for a meter provider: one instrument, however many pipelines report to it."""
    try:
        found = _of_providers.get(provider)
        if found is None:
            found = _of_providers.setdefault(provider, ActiveCalls())
            _make_instrument(meter, found)
    except TypeError:  # a provider of which there can be no weak reference, or no hash
        found = ActiveCalls()
        _make_instrument(meter, found)
    return found


def _make_instrument(meter: Meter, active: ActiveCalls) -> None:
    meter.create_observable_up_down_counter(semconv.ACTIVE_METRIC, [active.observe], "{call}", "Calls that run now")

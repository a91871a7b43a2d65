"""The progress of the jobs of an actor, for callers that ask for it again and again while they wait for the reply.

An actor cannot call the process that has sent it a job. So that process asks for the next steps, and is answered as
soon as there is one. Progress between two questions comes with one answer, or is left out if it is much: so no
flood of steps gets into the cluster.
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import count

from ...engine.report import Progress
from ..remote_progress import Step, number_step

_MAX_STEPS = 100  # of one job that wait, and that one answer has; beyond them the oldest go
_RATE = 100.0  # steps a second, after so many
_MAX_ENDED = 1000  # jobs that are known to have ended; a question is milliseconds on its way
_PATIENCE = 5.0  # seconds until a question is answered with no steps: its job may never come
_PAUSE = 0.01  # seconds between two answers


class PolledSteps:
    """The steps of one job that its caller may not have heard yet."""

    def __init__(self, owner: StepsByToken, token: str, loop: asyncio.AbstractEventLoop) -> None:
        self._owner, self._token, self._loop = owner, token, loop
        self._steps: deque[Step] = deque(maxlen=_MAX_STEPS)
        self._numbers = count(1)
        self._told = asyncio.Event()
        self._answered = 0.0  # when a question was answered, by the clock of the loop
        self._allowed = float(_MAX_STEPS)
        self._closed = False
        self.begun = False

    def __call__(self, step: Progress, /) -> None:
        """Keep it until the caller has heard it. From any thread."""
        if not self._closed:
            self._steps.append(number_step(next(self._numbers), step))
            self._loop.call_soon_threadsafe(self._told.set)

    def close(self) -> list[Step]:
        """The steps that the caller may not have heard. From the thread of the job."""
        self._closed = True
        self._loop.call_soon_threadsafe(self._owner.forget, self._token)
        self._loop.call_soon_threadsafe(self._told.set)
        return list(self._steps)

    async def wait(self, after: int) -> list[Step] | None:
        """Wait for steps after that number; the caller has heard the others. None once the job has ended."""
        await asyncio.sleep(self._answered + _PAUSE - self._loop.time())
        while not self._closed:
            while self._steps and self._steps[0][0] <= after:
                self._steps.popleft()
            self._told.clear()
            if self._steps:
                return self._take_newest()
            await self._told.wait()
        return None

    def _take_newest(self) -> list[Step]:
        """As many steps as the caller is to hear now, the newest ones."""
        now = self._loop.time()
        self._allowed = min(self._allowed + (now - self._answered) * _RATE, _MAX_STEPS)
        self._answered = now
        steps = list(self._steps)[-max(int(self._allowed), 1) :]
        self._allowed -= len(steps)
        return steps


class StepsByToken:
    """The steps of all jobs of an actor that have a listener. A question may come before its job, or after it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._running: dict[str, PolledSteps] = {}
        self._ended: deque[str] = deque(maxlen=_MAX_ENDED)

    def open(self, token: str) -> PolledSteps:
        """The steps of a job that begins. From any thread."""
        steps = self._find(token)
        steps.begun = True
        return steps

    async def wait(self, token: str, after: int) -> list[Step] | None:
        """As `PolledSteps.wait`, of the job with this token; no steps if there are none for some seconds."""
        if token in self._ended:
            return None
        steps = self._find(token)
        try:
            async with asyncio.timeout(_PATIENCE):
                return await steps.wait(after)
        except TimeoutError:
            if not steps.begun:
                self._running.pop(token, None)
            return []

    def forget(self, token: str) -> None:
        """The job has ended."""
        self._running.pop(token, None)
        self._ended.append(token)

    def _find(self, token: str) -> PolledSteps:
        return self._running.setdefault(token, PolledSteps(self, token, self._loop))

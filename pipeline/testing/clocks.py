"""FakeClock: time that passes only when a test says so."""

from __future__ import annotations


class FakeClock:
    """A clock that stands still until it is moved. Pass it as ``clock=``, and its `sleep` as ``sleep=``.

    Calling it returns ``now``, which a test may also set.

    Args:
        now: Seconds at first. Default 1000, so that code which takes 0 for "never" does not work by accident.
    """

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.slept: list[float] = []  # seconds, one entry for each call of `sleep`

    def __call__(self) -> float:
        """The time, in seconds."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Move the time forward; a negative number moves it back."""
        self.now += seconds

    async def sleep(self, seconds: float) -> None:
        """Move the time forward at once, and note the seconds in ``slept``. Other tasks get no turn."""
        self.slept.append(seconds)
        self.now += seconds

"""CallWindow: counts the calls and failures of the last seconds."""

from __future__ import annotations

_BUCKETS = 10  # of a window


class CallWindow:
    """Counts calls and failures of the last seconds, in buckets; the oldest is dropped when a new one begins."""

    def __init__(self, seconds: float, now: float) -> None:
        self._bucket_seconds = seconds / _BUCKETS
        self.clear(now)

    def clear(self, now: float) -> None:
        """Begin anew."""
        self._bucket_ends = now + self._bucket_seconds
        self._buckets = [[0, 0]]  # calls and failures of each; a deque would take 600 bytes more

    def add(self, now: float, *, failed: bool) -> None:
        """Count a call that has ended."""
        new = int((now - self._bucket_ends) // self._bucket_seconds) + 1
        if new > 0:
            self._bucket_ends += new * self._bucket_seconds
            self._buckets.extend([0, 0] for _ in range(min(new, _BUCKETS)))
            del self._buckets[:-_BUCKETS]
        self._buckets[-1][0] += 1
        self._buckets[-1][1] += failed

    def add_success(self, now: float) -> bool:
        """Count a success without a lock, unless a new bucket begins. Two threads at once may lose one of theirs."""
        if now >= self._bucket_ends:
            return False
        self._buckets[-1][0] += 1
        return True

    def failure_ratio(self, min_calls: int) -> float:
        """The share of failures in the calls of the window; 0 for fewer than ``min_calls`` calls."""
        calls, failures = (sum(column) for column in zip(*self._buckets, strict=True))
        return failures / calls if calls >= min_calls else 0.0

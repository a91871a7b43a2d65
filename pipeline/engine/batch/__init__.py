"""Many calls at once: `gather` and `gather_sync`."""

from .gathering import Runnable, find_twins, gather, gather_sync, run_batch

__all__ = ["Runnable", "find_twins", "gather", "gather_sync", "run_batch"]

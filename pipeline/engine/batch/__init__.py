"""Many calls at once: `gather` and `gather_sync`."""

from .gathering import Runnable, gather, gather_sync, run_batch, without_twins

__all__ = ["Runnable", "gather", "gather_sync", "run_batch", "without_twins"]

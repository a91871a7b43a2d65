"""Many calls at once: `gather` and `gather_sync`."""

from .gathering import Runnable, gather, gather_sync, run_batch
from .twins import find_twins

__all__ = ["Runnable", "find_twins", "gather", "gather_sync", "run_batch"]

"""What of a call may be recorded. Each report, span, event, row and log record is made from what this lets through."""

from .recorded import Mask, Recorded, Recording, find_guard, make_mask, mask_error

__all__ = ["Mask", "Recorded", "Recording", "find_guard", "make_mask", "mask_error"]

"""The parts of the stage `Ledger`: owners that prove that they live, answers as JSON, and the records in the store."""

from .kept_outcomes import read_outcome, write_outcome
from .owners import Owner, lives
from .records import Claim, Delivery, Intent, Known, Names, Records

__all__ = [
    "Claim",
    "Delivery",
    "Intent",
    "Known",
    "Names",
    "Owner",
    "Records",
    "lives",
    "read_outcome",
    "write_outcome",
]

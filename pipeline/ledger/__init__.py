"""The parts of the stage `Ledger`: owners that prove that they live, answers as JSON, and the records in the store."""

from .kept_outcomes import read_outcome, write_outcome
from .ledger_records import Claim, Delivery, Intent, Known, Names, Records
from .owners import Owner, lives

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

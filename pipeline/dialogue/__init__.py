"""Asks the model again for the calls that it can fix: `run_turn`."""

from .records import Answered, Rate, Rates, Record, Turn, success_rates
from .turn import Model, run_turn
from .turn_state import Hints

__all__ = ["Answered", "Hints", "Model", "Rate", "Rates", "Record", "Turn", "run_turn", "success_rates"]

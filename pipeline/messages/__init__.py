"""What a model is told: `say` for an error, `tell` for an outcome, and `raise_for_error` for whoever wants to raise."""

from .default import say
from .edge import ToolCallError, raise_for_error
from .values import tell

__all__ = ["ToolCallError", "raise_for_error", "say", "tell"]

"""Texts for the model: `render`, `Conversation` and profiles; and `raise_for_error` for callers who want exceptions."""

from .conversation import Conversation
from .exceptions import ToolCallError, raise_for_error
from .profile import Profile
from .rendering import render
from .rewriting import enhance

__all__ = ["Conversation", "Profile", "ToolCallError", "enhance", "raise_for_error", "render"]

"""Texts for the model: `render`, `Conversation`, profiles, parts of a result; and `raise_for_error` for callers."""

import typing

from .. import lazy_names
from .conversation import Conversation
from .rendering import ToolCallError, raise_for_error, render
from .rewriting import enhance
from .style import Profile

if typing.TYPE_CHECKING:
    from .parts import Audio, File, Image, Link

__all__ = [
    "Audio",
    "Conversation",
    "File",
    "Image",
    "Link",
    "Profile",
    "ToolCallError",
    "enhance",
    "raise_for_error",
    "render",
]
_NAMES = {"parts": "Audio File Image Link"}  # most tools return text
__getattr__ = lazy_names.import_at_first_use(__name__, _NAMES)

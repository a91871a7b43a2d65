"""Texts for the model: `render`, `Conversation`, profiles, parts of a result; and `raise_for_error` for callers."""

import typing

from .conversation import Conversation
from .exceptions import ToolCallError, raise_for_error
from .profile import Profile
from .rendering import render
from .rewriting import enhance

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


def __getattr__(name: str) -> typing.Any:
    if name not in ("Audio", "File", "Image", "Link"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import parts  # when it is first used: most tools return text

    return getattr(parts, name)

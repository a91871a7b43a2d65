"""What a model is told: `say` for an error, `tell` for an outcome, and `raise_for_error` for whoever wants to raise."""

from .conversation import Conversation
from .edge import ToolCallError, raise_for_error
from .foreign import enhance
from .outcomes import tell
from .profile import PROFILES, Profile
from .saying import say

__all__ = [  # noqa: RUF022  # as sorted() does it
    "Conversation",
    "PROFILES",
    "Profile",
    "ToolCallError",
    "enhance",
    "raise_for_error",
    "say",
    "tell",
]

"""Once: which delivery a call is, which intent it has, and what a pipeline does with one that came before."""

from .digests import NotPlainError, canonical, digest, join_digest
from .in_process import InScope, once_per_intent
from .intents import DELIVERY, delivery_of, intent_of, params_digest, written_digest
from .undecided import CONVERSATIONS, Conversation, Conversations, Lost

__all__ = [
    "CONVERSATIONS",
    "DELIVERY",
    "Conversation",
    "Conversations",
    "InScope",
    "Lost",
    "NotPlainError",
    "canonical",
    "delivery_of",
    "digest",
    "intent_of",
    "join_digest",
    "once_per_intent",
    "params_digest",
    "written_digest",
]

"""Once: which delivery a call is, which intent it has, and what a pipeline does with one that came before."""

from .digests import NotPlainError, digest, join_digest
from .in_process import InScope, once_per_intent
from .intents import DELIVERY, are_alike, are_written_alike, delivery_of, intent_of, read_asked, write_arguments
from .undecided import CONVERSATIONS, Conversation, Conversations, Lost

__all__ = [
    "CONVERSATIONS",
    "DELIVERY",
    "Conversation",
    "Conversations",
    "InScope",
    "Lost",
    "NotPlainError",
    "are_alike",
    "are_written_alike",
    "delivery_of",
    "digest",
    "intent_of",
    "join_digest",
    "once_per_intent",
    "read_asked",
    "write_arguments",
]

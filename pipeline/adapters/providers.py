"""The model providers: how a reply of each is recognised, and how long a name of a tool may be there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

import attrs

from ..base import provider_names
from ..base.setup_error import SetupError
from .common import find_field, get_field, list_items, text_or_empty

BEDROCK_ERRORS = (  # events of a stream
    "internalServerException",
    "modelStreamErrorException",
    "serviceUnavailableException",
    "throttlingException",
    "validationException",
)
_BEDROCK_EVENTS = ("messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop")
_ANTHROPIC_EVENTS = frozenset((
    "message_start", "message_delta", "message_stop", "content_block_start", "content_block_delta",
    "content_block_stop",
))  # fmt: skip
_ANTHROPIC_REASONS = frozenset((
    "end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", "model_context_window_exceeded",
))  # fmt: skip


@attrs.frozen
class Provider:
    """A model provider."""

    name: str  # as an error has it; in lower case that of its adapter
    longest: int  # characters of the name of a tool, see `provider_names`
    fields: tuple[str, ...]  # one is in each reply, each event of a stream, and each item of a list
    owns: Callable[[object], bool]  # whether a reply, or an event, is certainly of this provider

    def has_field(self, thing: object) -> bool:
        """Whether there is anything in it that a reply of this provider has."""
        return any(
            (value := get_field(thing, name)) is not None and not (name == "message" and isinstance(value, str))
            for name in self.fields
        )

    def refuse_others(self, reply: object, events: Iterable[object]) -> None:
        """Raise SetupError for a reply of another provider: it would have no calls here."""
        for each in (reply, *events):
            theirs = next((provider for provider in _ALL if provider.owns(each)), self)
            if theirs.owns is not self.owns:  # Mistral's format is read as OpenAI's
                adapter = f"toolcall_pipeline.adapters.{theirs.name.lower()}"
                raise SetupError(
                    f"calls() reads replies of {self.name}, and this is a reply of {theirs.name}: use {adapter}"
                )


def _is_chat(reply: object) -> bool:
    return isinstance(get_field(reply, "choices"), (list, tuple)) or bool(get_field(reply, "tool_calls"))


def _is_response(reply: object) -> bool:
    kind = text_or_empty(get_field(reply, "type"))
    return kind.startswith("response.") or get_field(reply, "object") == "response" or kind == "function_call"


def _is_anthropic(reply: object) -> bool:
    kind, content = text_or_empty(get_field(reply, "type")), get_field(reply, "content")
    if kind in _ANTHROPIC_EVENTS or kind == "tool_use":
        return True
    if not isinstance(content, (list, tuple)):
        return False
    is_stopped = text_or_empty(get_field(reply, "stop_reason")) in _ANTHROPIC_REASONS
    blocks = list_items(cast("object", content))
    return is_stopped or any(get_field(block, "type") == "tool_use" for block in blocks)


def _is_bedrock(reply: object) -> bool:
    return get_field(reply, "stopReason") is not None or find_field(reply, *_BEDROCK_EVENTS) is not None


def _is_ollama(reply: object) -> bool:
    return type(get_field(reply, "done")) is bool and get_field(reply, "message") is not None


OPENAI = Provider(
    "OpenAI",
    provider_names.OPENAI,
    ("choices", "output", "message", "role", "type", "object", "error", "function", "custom", "delta"),
    lambda reply: _is_chat(reply) or _is_response(reply),
)
ANTHROPIC = Provider(
    "Anthropic", provider_names.ANTHROPIC, ("content", "type", "role", "error", "delta"), _is_anthropic
)
GEMINI = Provider(
    "Gemini",
    provider_names.GEMINI,
    (
        "candidates", "prompt_feedback", "promptFeedback", "usage_metadata", "usageMetadata", "parts", "function_call",
        "functionCall", "args", "error",
    ),
    lambda reply: isinstance(get_field(reply, "candidates"), (list, tuple)),
)  # fmt: skip
BEDROCK = Provider(
    "Bedrock",
    provider_names.BEDROCK,
    ("output", "stream", "role", "toolUse", "error", "metadata", *_BEDROCK_EVENTS, *BEDROCK_ERRORS),
    _is_bedrock,
)
OLLAMA = Provider("Ollama", provider_names.OPENAI, ("message", "role", "function", "error"), _is_ollama)
_ALL = (OPENAI, ANTHROPIC, GEMINI, BEDROCK, OLLAMA)  # the first that owns a reply


def is_reply(thing: object) -> bool:
    """Whether it is certainly a reply, or an event of a stream, of some provider."""
    return any(provider.owns(thing) for provider in _ALL)

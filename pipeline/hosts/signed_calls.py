"""Calls signed with a caller and a conversation, run by a pipeline among the spans of a framework."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeAlias

import attrs
from returns.result import Failure

from ..base.options import check_function
from ..engine.call import Call, Outcome, is_failure
from ..engine.compose import Pipeline
from ..engine.errors import Crashed
from .framework_spans import among_the_frameworks_spans, mark_failed

# Finds a principal or a conversation in what a framework hands to its hooks; None or "": there is none.
Find: TypeAlias = Callable[[Any], str | None]


@attrs.frozen
class Signer:
    """The user's functions that say who asks, and what the conversation is. They stand above what the adapter finds."""

    where: str  # the function that takes them as options, for errors
    principal: Find | None = None
    conversation: Find | None = None

    def __attrs_post_init__(self) -> None:
        for option, find in (("principal", self.principal), ("conversation", self.conversation)):
            if find is not None:
                check_function(self.where, option, find)

    async def run(
        self, pipeline: Pipeline, call: Call, context: object = None, *, counts_inside: bool = False
    ) -> Outcome:
        """Run a call with the principal and the conversation that the functions find in the context.

        Returns:
            The outcome; a Failure if a function raises: without its principal a call must not meet another one's
            answers.
        """
        try:
            signed = self.sign(call, context)
        except Exception as exc:  # noqa: BLE001  # of the user's function
            return Failure(Crashed(exc))
        with _told(counts_inside=counts_inside) as told:
            told[:] = [await pipeline(signed)]
        return told[0]

    def run_sync(self, pipeline: Pipeline, call: Call, context: object = None) -> Outcome:
        """As `run`, without an event loop, by `Pipeline.call_sync`."""
        try:
            signed = self.sign(call, context)
        except Exception as exc:  # noqa: BLE001  # as above
            return Failure(Crashed(exc))
        sent: Any = signed.arguments
        who: Any = {"principal": signed.principal, "conversation": signed.conversation, "deps": signed.deps}
        with _told() as told:
            told[:] = [pipeline.call_sync(signed.name, sent, id=signed.id, **who)]
        return told[0]

    def sign(self, call: Call, context: object) -> Call:
        """Return the call with the principal and the conversation that the functions find in the context."""
        principal = call.principal if self.principal is None else self.principal(context) or ""
        conversation = call.conversation if self.conversation is None else self.conversation(context) or ""
        if (principal, conversation) == (call.principal, call.conversation):
            return call
        return attrs.evolve(call, principal=str(principal), conversation=str(conversation))


@contextmanager
def _told(*, counts_inside: bool = False) -> Generator[list[Outcome], None, None]:
    """Yields a list for the outcome of the block, which marks the framework's span around it if it is a failure."""
    with among_the_frameworks_spans(counts_inside=counts_inside) as span:
        told: list[Outcome] = []
        yield told
        if told and is_failure(told[0]):
            mark_failed(span, told[0].failure().kind)

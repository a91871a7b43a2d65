"""RepeatedRefusals: counts the refused calls that a model sends again as they were, for each conversation."""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Final, TypeAlias, cast

from returns.result import Failure

from ...base.foreign_values import or_default
from ..call import Call, Outcome
from ..errors import InvalidParams, MalformedCall, UnknownTool

_COUNTED: Final = frozenset((UnknownTool, MalformedCall, InvalidParams))  # no time makes such a call right
_FROM: Final = 3  # the first call that is told that it is one of several
_CONVERSATIONS = 1024  # that are remembered, the last ones
_CALLS = 64  # of one conversation, the last ones
_Counts: TypeAlias = OrderedDict[bytes, int]


class RepeatedRefusals:
    """Counts equal refusals: of one conversation, one kind, one name and the same arguments.

    What is paused, busy, denied or waits for a person is not counted: the model cannot mend it, and it may end by
    itself. A digest of each call is kept, with a key of this object. Threads may share it; of equal calls that end
    at the same time one may not be counted.
    """

    def __init__(self) -> None:
        self._key = os.urandom(16)
        self._counts: OrderedDict[tuple[str, str], _Counts] = OrderedDict()

    def tell(self, call: Call, outcome: Outcome) -> Outcome:
        """The failed outcome of a call in a conversation; from the third equal one on its error says how many."""
        error: Any = cast("Failure[Any]", outcome).failure()
        if type(error) not in _COUNTED or (text := _write(call, error.kind)) is None:
            return outcome
        times = self._count((call.principal, call.conversation), blake2b(text, key=self._key, digest_size=16).digest())
        return outcome if times < _FROM else Failure(error.sent_again(times))

    def _count(self, asker: tuple[str, str], call: bytes) -> int:
        counts = self._counts.setdefault(asker, OrderedDict())
        times = counts[call] = counts.get(call, 0) + 1
        with suppress(KeyError):  # another thread has removed it
            counts.move_to_end(call)
            self._counts.move_to_end(asker)
            if len(counts) > _CALLS:
                counts.popitem(last=False)
            if len(self._counts) > _CONVERSATIONS:
                self._counts.popitem(last=False)
        return times


@or_default(None)  # arguments that a program made may hold anything
def _write(call: Call, kind: str) -> bytes | None:
    given: Any = call.arguments
    arguments = (
        given if isinstance(given, str) else json.dumps(dict(cast("Mapping[str, Any]", given or {})), sort_keys=True)
    )
    return json.dumps([kind, call.name, arguments]).encode()

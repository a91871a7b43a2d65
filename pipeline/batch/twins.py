"""Twins: calls of one reply that are one delivery, as after a stream that was sent again. One of them runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ..call import Call
from ..identity import written_digest


def find_twins(calls: Sequence[Call]) -> dict[int, int]:
    """For each call that is the same delivery as an earlier one of the reply, the index of the first of them.

    The same delivery has the same id, name and arguments, and the same caller. Equal calls with different ids, or
    without one, are several calls: the model wants that many.
    """
    ids = [call.id for call in calls if call.id]
    if all(type(each) is str for each in ids) and len(set(ids)) == len(ids):
        return {}
    firsts: dict[tuple[str, ...], int] = {}
    twins: dict[int, int] = {}
    for index, call in enumerate(calls):
        if type(call.id) is not str or not call.id or not isinstance(cast("object", call.name), str):
            continue
        key = call.id, str.__str__(call.name), call.principal, call.conversation, call.reply, written_digest(call)
        first = firsts.setdefault(key, index)
        if first != index:
            twins[index] = first
    return twins

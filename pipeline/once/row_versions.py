"""Row versions: a ledger goes on with the rows of the release before, and stops at those of a later one.

A store has one mark, which the first process of a release writes that opens it: the version of its rows, and when rows
of the release before were last seen in it. Those have no version of their own, and are looked for until none is left.
"""

from __future__ import annotations

import json
from typing import Any, Final

from ..base import timing
from ..base.setup_error import SetupError
from ..stores import Change, Memory, Store, StoreError
from .owners import lives

VERSION: Final = 2
_MARK = "v/ledger"
_LOOK_AGAIN = 86400.0  # seconds


class NewerRowError(StoreError):
    """A row is of a later release."""


def check_version(row: dict[str, Any]) -> dict[str, Any]:
    """A row as it is.

    Raises:
        NewerRowError: A later release wrote it.
    """
    if row.get("v", 1) > VERSION:
        raise NewerRowError("a later release of toolcall-pipeline has written to the ledger: this one cannot go on")
    return row


async def read_mark(store: Store) -> bool:
    """Whether a store may hold rows of the release before.

    Raises:
        StoreError: The store gave no answer.
        SetupError: The rows are of a later release, or a process of the release before still uses them.
    """
    for key, lease in [each async for each in store.scan("o/")]:  # to its end: an iterator has no other close
        if not lease.value and await lives(store, key[2:], ""):
            raise SetupError(
                "Ledger: a process of an earlier release uses this store, and would not see what this one keeps: stop "
                f"all of them first ({key[2:]!r})"
            )
    entry = await store.get(_MARK)
    mark = {"v": 1} if entry is None else json.loads(entry.value)
    try:
        check_version(mark)
    except NewerRowError as exc:
        raise SetupError(f"Ledger: {exc}") from exc
    seen, now = mark.get("old", 0.0), timing.wall_time()
    if mark["v"] == VERSION and (not seen or now - seen < _LOOK_AGAIN):
        return bool(seen)
    is_old = await _has_old_rows(store)
    if isinstance(store, Memory):  # no other process opens it
        return is_old
    value = json.dumps({"v": VERSION, "old": now if is_old else 0.0}).encode()
    await store.write(Change(_MARK, value, None if entry is None else entry.version))
    return is_old


async def _has_old_rows(store: Store) -> bool:
    found = False
    for kind in ("i/", "d/", "r/"):
        async for _, entry in store.scan(kind):  # to its end, as above
            found = found or json.loads(entry.value).get("v", 1) < VERSION
    return found

"""AuditLog: a chain of rows in a store. Each row holds the digest of the row before, and the head seals the last one.

Rows stand under numbers without a gap. The head has the number and the digest of the last row, so a chain that lost
its end does not fit its head. With a secret the digests are keyed: who cannot read the secret can neither change a row
nor make a head. An old copy of the whole store is a true chain as well; a number and digest that were noted elsewhere
(a span, a ticket) prove that it is one.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import attrs

from ..base import timing
from ..base.nesting import refuse_deep
from ..base.options import check_secret, refuse
from ..once import join_digest
from ..stage_state.shared_values import SharedValues
from ..stores import Change, Entry, Store, StoreError

Row: TypeAlias = dict[str, Any]
HEAD, _PREFIX = "audit-head", "audit/"
_WIDTH, _PAGE = 15, 3  # digits of a number in a key, and those of them within one page of a list
_LONGEST_SECRET = 64  # bytes, as of a key of BLAKE2b
_STUCK = 50  # writes of one head that a row under the next number refuses
_SHOWN = 20  # faults


class Verdict(NamedTuple):
    """The result of a verification.

    Attributes:
        rows: How many rows the head names.
        head: The number and digest of the last row, as ``42:9f86d0…``; "" without a row.
        faults: The faults in words, at most 20. Empty: the chain is whole.
    """

    rows: int
    head: str
    faults: tuple[str, ...]


class _Head(NamedTuple):
    number: int
    digest: str
    seal: str
    keyed: bool


@attrs.define(eq=False)
class AuditLog:
    """The audit rows of one store. It only appends, and offers nothing that changes or removes a row.

    Writers of several processes and machines keep one chain. Open the store first.

    Args:
        store: Where the rows are kept. They have no time after which they are gone.
        secret: The key of the digests, at most 64 bytes; all writers of a store need the same. Default ``b""``: none.

    Raises:
        SetupError: An option is of another type or too long.
    """

    store: Store
    secret: bytes = attrs.field(default=b"", repr=False)
    _values: SharedValues[str, tuple[int, str, str]] = attrs.field(init=False, repr=False)
    _tried: tuple[bytes | None, int] = attrs.field(init=False, default=(None, 0), repr=False)
    _has_begun: bool = attrs.field(init=False, default=False, repr=False)  # there was a head

    def __attrs_post_init__(self) -> None:
        if isinstance(self.store, type) or not callable(getattr(self.store, "write", None)):
            refuse("Audit", "store", "a store, such as stores.SQLite(path)", self.store)
        check_secret("Audit", self.secret, _LONGEST_SECRET)
        self._values = SharedValues(self.store, self._extend, beside=_list_changes)

    async def begin(self) -> None:
        """Write the head of a chain without rows, if there is no head.

        Raises:
            StoreError: The store gave no answer.
        """
        if await self.store.get(HEAD) is None:
            await self.store.write(Change(HEAD, json.dumps(self._seal(0, "")).encode(), None))
        self._has_begun = True

    async def has_begun(self) -> bool:
        """Whether the store holds a chain, with this secret or another one.

        Raises:
            StoreError: The store gave no answer.
        """
        return await self.store.get(HEAD) is not None

    async def append(self, row: Row) -> str:
        """Append a row: JSON values. It gets ``number``, ``before`` and, if it has none, ``at``.

        Returns:
            Its number and digest, as ``42:9f86d0…``.

        Raises:
            StoreError: The store gave no answer, or its rows do not follow on its head.
        """
        text = _to_text(row)
        try:
            number, digest, _ = await self._values.ask(HEAD, text)
        except StoreError:
            self._tried = (None, 0)
            raise
        return f"{number}:{digest}"

    async def changes_for(self, row: Row) -> Sequence[Change]:
        """The changes that append a row, for a write together with others. Empty without a chain to append to.

        Such a write fails if another row came first.

        Raises:
            StoreError: The store gave no answer.
        """
        return self.changes_after(await self.store.get(HEAD), row)

    def changes_after(self, entry: Entry | None, row: Row) -> Sequence[Change]:
        """As `changes_for`, after what the key of the head holds."""
        head = None if entry is None else _read_head(entry.value)
        if entry is None or head is None or head != self._seal(head.number, head.digest):  # it has another secret
            return ()
        text = _to_text(row)
        value, _, answers = self._extend(entry.value, [text])
        return (Change(HEAD, value, entry.version), *_list_changes([text], answers))

    async def read(self) -> AsyncIterator[Row]:
        """The rows, oldest first, each with its ``digest``.

        Raises:
            StoreError: The store gave no answer.
        """
        head = await self._find_head()
        for page in range((0 if head is None else head.number) // 10**_PAGE + 1):
            prefix = f"{_PREFIX}{page:0{_WIDTH - _PAGE}d}"
            found = {key: entry async for key, entry in self.store.scan(prefix)}
            for _, entry in sorted(found.items()):
                row = _read_row(entry)
                if row is not None:
                    yield {**row, "digest": self._digest(entry.value)}

    async def verify(self, expect: str = "") -> Verdict:
        """Check that no row was changed, removed or inserted.

        Args:
            expect: A number and digest as `append` returned them, which the chain must hold. Default "": none.

        Raises:
            StoreError: The store gave no answer.
        """
        head = await self._find_head()
        found: dict[int, tuple[str, str]] = {}  # by number: the digest, and that of the row before
        faults: list[str] = []
        async for key, entry in self.store.scan(_PREFIX):
            row = _read_row(entry)
            number = int(digits) if (digits := key.removeprefix(_PREFIX)).isdecimal() else 0
            if row is None or row.get("number") != number or _name(number) != key:
                faults.append(f"row {number or key}: it is not a row that was written here")
            found[number] = self._digest(entry.value), str((row or {}).get("before"))
        last = 0 if head is None else head.number
        now = await self._find_head()  # writers go on meanwhile
        faults += [
            f"row {number}: it was inserted after the head, which names {last} rows"
            for number in sorted(found)
            if number > max(last, 0 if now is None else now.number)
        ]
        faults += self._follow(head, found, last)
        if expect:
            place, _, digest = expect.partition(":")
            held = found.get(int(place)) if place.isdecimal() else None
            if held is None or held[0] != digest:
                faults.append(f"row {place}: the chain does not hold the expected digest {digest}")
        shown = tuple(faults[:_SHOWN])
        if len(faults) > _SHOWN:
            shown = (*shown[:-1], f"… and {len(faults) - _SHOWN + 1} more")
        return Verdict(last, "" if head is None or not last else f"{last}:{head.digest}", shown)

    def _follow(self, head: _Head | None, found: dict[int, tuple[str, str]], last: int) -> list[str]:
        """The faults along the chain, from its first row to its head."""
        if head is None:
            return ["the head is missing: nobody has opened an audit here, or the head was removed"]
        faults: list[str] = []
        if head.keyed != bool(self.secret):
            return [f"the rows were written {'with' if head.keyed else 'without'} a secret"]
        if head != self._seal(head.number, head.digest):
            faults.append("the head was not written by a holder of the secret")
        before = ""
        for number in range(1, last + 1):
            if number not in found:
                if number - 1 in found or number == 1:
                    end = next((each for each in range(number, last + 1) if each in found), last + 1) - 1
                    faults.append(f"row {number}: removed" if end == number else f"rows {number} to {end}: removed")
                before = "?"
                continue
            digest, named = found[number]
            if before not in ("?", named):
                faults.append(f"row {number - 1}: changed, or row {number} is not the one that followed it")
            before = digest
        if before not in ("?", head.digest) and last:
            faults.append(f"row {last}: changed, the head has another digest")
        return faults

    async def _find_head(self) -> _Head | None:
        entry = await self.store.get(HEAD)
        return None if entry is None else _read_head(entry.value)

    def _extend(
        self, value: bytes | None, texts: Sequence[str]
    ) -> tuple[bytes | None, None, list[tuple[int, str, str]]]:
        """The head after some more rows, and the rows: number, digest and text of each."""
        self._tried = (value, self._tried[1] + 1 if self._tried[0] == value else 0)
        head = None if value is None else _read_head(value)
        was_removed = value is None and self._has_begun
        self._has_begun = True
        if was_removed or self._tried[1] > _STUCK or (value is not None and head is None):
            raise StoreError("the rows of the audit do not follow on its head: see `toolcall audit STORE verify`")
        if head is not None and head.keyed != bool(self.secret):
            raise StoreError(f"the audit in this store is written {'with' if head.keyed else 'without'} a secret")
        number, digest = (0, "") if head is None else (head.number, head.digest)
        rows: list[tuple[int, str, str]] = []
        for text in texts:
            number += 1
            row = {"number": number, "before": digest, **json.loads(text)}
            written = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
            digest = self._digest(written.encode("utf-8", "surrogatepass"))
            rows.append((number, digest, written))
        return json.dumps(self._seal(number, digest)).encode(), None, rows

    def _digest(self, row: bytes) -> str:
        text = row.decode("latin-1") if type(row) is bytes else repr(row)  # another hand may have put in anything
        return join_digest(text, secret=self.secret)

    def _seal(self, number: int, digest: str) -> _Head:
        seal = join_digest("head", str(number), digest, secret=self.secret)
        return _Head(number, digest, seal, bool(self.secret))


def _list_changes(_texts: Sequence[str], rows: Sequence[tuple[int, str, str]]) -> list[Change]:
    """The rows as changes that fail if there is a row of that number."""
    return [Change(_name(number), text.encode("utf-8", "surrogatepass"), None) for number, _, text in rows]


def _to_text(row: Row) -> str:
    """A row as JSON. What JSON cannot hold, such as an integer of thousands of digits, is left out by name."""
    row = {"at": timing.wall_time(), **row}
    try:
        return json.dumps(row, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        plain = {name: value for name, value in row.items() if isinstance(value, str | float | bool)}
        return json.dumps({**plain, "left_out": sorted(row.keys() - plain.keys())}, ensure_ascii=False)


def _name(number: int) -> str:
    return f"{_PREFIX}{number:0{_WIDTH}d}"


def _read_head(value: bytes) -> _Head | None:
    try:
        return _Head(*json.loads(value))
    except (ValueError, TypeError):
        return None


def _read_row(entry: Entry) -> Row | None:
    try:
        row: Any = json.loads(refuse_deep(str(entry.value, "utf-8")))  # a TypeError, if the value is a number
    except (ValueError, TypeError):
        return None
    return cast("Row", row) if isinstance(row, dict) else None

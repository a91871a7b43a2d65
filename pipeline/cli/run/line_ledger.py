"""LineLedger: the ledger of a run, in a file beside RESULTS. Each line of CALLS is one delivery.

A line that began is kept before its tool may change something, and its answer when it has ended; with its result in
RESULTS it is forgotten. So after a kill a line has a result, or an answer here, or may have taken effect.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import attrs
from returns.result import Failure

from ...base.foreign_values import or_default
from ...base.setup_error import SetupError
from ...engine.call import Call, Outcome, ResolvedCall, ValidCall, make_uuid
from ...engine.call_state import StateKey
from ...engine.compose import Handler, Placement
from ...engine.compose.pipeline import Pipeline
from ...engine.errors import OutcomeUnknown
from ...identity import intent_of, join_digest
from ...ledger import Delivery, Names, lives
from ...messages.text import format_count
from ...middlewares import Ledger
from ...stores import Change, Entry, SQLite, StoreError
from ...tools.definition import Tool
from ..terminal_text import CommandError
from .results_file import ResultsFile, is_named

LINE: StateKey[tuple[int, str]] = StateKey("toolcall-pipeline.run.line")  # its number and its digest
_SUFFIX = ".ledger"
_BESIDE = ("", "-wal", "-shm")  # the files of SQLite
_RUN = "run"  # the key of the run that writes to it
_RESULTS = "results"  # the key of the files of results that the ledger belongs to, by their inodes
_REPEATABLE = ("read", "idempotent")
_FOR_EVER = 1e9  # seconds
_TAG = "{run}"
_NO_TOOL = "?"  # in a pipeline that does not look for tools
_FORGOTTEN_AT_ONCE = 200  # lines with a result, in one write
_MOVED = "RESULTS was renamed, replaced or removed during the run, which wrote its results to the file that it was"


@attrs.define(eq=False)
class KeptLine:
    """A line that may change something, from its begin to its result.

    Attributes:
        id: Of its delivery.
        is_refused: It could not be kept that it begins, so it has not begun.
        tool: It was not run, since an earlier run had begun it with this tool ("": none). None: it was run.
        is_unknown: Its effect is unknown then.
    """

    id: str
    is_refused: bool = False
    tool: str | None = None
    is_unknown: bool = False


@attrs.define(eq=False)
class LineLedger(Ledger):
    """Keeps the lines whose tools may change something. Lines of one conversation know of each other, others do not.

    Attributes:
        path: The file.
        results: RESULTS.
        complete: Whether the run came to its end, so that each line has a result. `remove` then removes the file.
        failure: Why lines cannot be kept any more, so that the run has to stop.
    """

    path: Path = attrs.field(kw_only=True)
    results: ResultsFile = attrs.field(kw_only=True)
    complete: bool = attrs.field(init=False, default=False)
    failure: CommandError | None = attrs.field(init=False, default=None)
    _ids: dict[int, str] = attrs.field(init=False, factory=dict[int, str])  # of lines that an earlier run had begun
    _kept: dict[int, KeptLine] = attrs.field(init=False, factory=dict[int, Any])  # those that run
    _written: list[str] = attrs.field(init=False, factory=list[str])
    _status: os.stat_result | None = attrs.field(init=False, default=None)

    @classmethod
    def beside(cls, results: ResultsFile) -> LineLedger | None:
        """The ledger of a file of results. None if RESULTS is a pipe or a device, without a place.

        Raises:
            CommandError: A link stands there: who has put it there would have another file written.
        """
        home = results.find_home()
        if home is None:
            return None
        path = home.with_name(home.name + _SUFFIX)
        if path.is_symlink():
            raise CommandError(f"{path} is a link: remove it")
        return cls(SQLite(path), keep=_FOR_EVER, path=path, results=results)

    def add_to(self, pipeline: Pipeline) -> Pipeline:
        """The pipeline, with this as a stage right outside of what may run the body, or outermost if that is not known.

        Args:
            pipeline: Any. A stage that does not say when a body begins may do the work itself.
        """
        wraps = [stage for stage in pipeline.entries if stage.role == "wrap"]
        tells = all(stage.placement.announces_body for stage in (*wraps, pipeline.entries[-1]))
        if tells and any(stage.role == "check" and stage.placement.kind == "validate" for stage in pipeline.entries):
            retry = next((stage for stage in wraps if stage.placement.repeats), pipeline.entries[-1])
            with suppress(SetupError):  # its own order leaves no such place
                return pipeline.before(retry.name, self, name="line_ledger")
        first = next(stage for stage in pipeline.entries if stage.role != "observe")
        return pipeline.before(first.name, _Outermost(self, pipeline), name="line_ledger")

    def __call__(self, call: ValidCall, call_next: Handler[ValidCall]) -> Awaitable[Outcome]:
        """See `Ledger`. A call without a line is made by a tool, whose own line stands for it."""
        if call.tool.effect in _REPEATABLE or call.get_state(LINE, None) is None:
            return call_next(call)
        return self._run(call, call_next)

    def _name(self, call: ValidCall) -> Names:
        number, _ = call.get_state(LINE)
        id_ = self._kept[number].id
        if not call.conversation:  # it has no equal
            return Names(id_, f"d/{id_}", f"i/{id_}", f"r/{id_}", "", "")
        who = f"{_TAG}{join_digest(call.principal, call.conversation)}"
        asked = f"{who}{intent_of(call, call.params)}"
        return Names(id_, f"d/{id_}", f"i/{asked}", f"r/{asked}", f"s/{who}", join_digest(call.tool.name))

    async def _run(self, call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
        number, _ = call.get_state(LINE)
        if number in self._kept:  # a stage outside runs it again
            return await super()._run(call, call_next)
        self._kept[number] = KeptLine(self._ids.pop(number, "") or f"{_TAG}{make_uuid()}")
        if self.failure is None and not self.results.is_in_place():
            self.failure = CommandError(_MOVED)
        if self.failure is None and not self._is_in_place():
            self.failure = CommandError(f"{self.path} was renamed, replaced or removed during the run")
        if self.failure is not None:
            return self._refuse(call, "the run has to stop")
        return await super()._run(call, call_next)

    def _refuse(self, call: ValidCall, reason: str, cause: StoreError | None = None) -> Outcome:
        if self.failure is None:
            self.failure = CommandError(f"{self.path}: {reason if cause is None else cause}")
        self._kept[call.get_state(LINE)[0]].is_refused = True
        return super()._refuse(call, reason, cause)

    def _describe(self, call: ValidCall) -> Delivery:
        number, digest = call.get_state(LINE)
        return {**super()._describe(call), "line": number, "call": digest}

    async def _come_again(self, call: ValidCall, names: Names, entry: Entry, kept: Delivery) -> Outcome | None:
        answer = await super()._come_again(call, names, entry, kept)
        if answer is not None:
            line = self._kept[call.get_state(LINE)[0]]
            line.tool = "" if call.tool.name == _NO_TOOL else call.tool.name
            line.is_unknown = type(answer) is Failure and isinstance(answer.failure(), OutcomeUnknown)
        return answer

    def end(self, number: int) -> KeptLine | None:
        """The call of a line has ended, and its result is to be written. None: the line was not kept.

        Raises:
            CommandError: It was refused, for the file could not be written; so it has no result yet.
        """
        line = self._kept.pop(number, None)
        if line is not None and line.is_refused:
            raise self.failure or CommandError(_MOVED)
        return line

    async def forget(self, line: KeptLine) -> None:
        """The result of a line is written."""
        self._written.append(f"d/{line.id}")
        if len(self._written) >= _FORGOTTEN_AT_ONCE:
            written, self._written = self._written, []
            with suppress(StoreError):  # they stay, and do no harm
                await self._forget(written)

    async def _forget(self, keys: list[str]) -> None:
        if keys:
            await self.store.write(*(Change(key, None) for key in keys))

    async def begin(self, *, resume: bool, rerun_unknown: bool) -> dict[int, str]:
        """Check that this is the ledger of RESULTS. To be called once the pipeline is open.

        Returns:
            The digests of the lines that had begun and have no result, by number.

        Raises:
            CommandError: It is not; or without ``resume``, lines have begun; or the file cannot be read or written.
        """
        try:
            await self._refuse_second_run()
            entry = await self.store.get(_RESULTS)
            owners = set[str]() if entry is None else set(entry.value.decode().split())
            inode = str(self.results.status.st_ino)
            if entry is None and self.results.finished.unmatched:
                await self._refuse_renamed(inode)
            begun, ended = await self._read_lines()
            if begun and not resume:
                have = f"{format_count(len(begun), 'call')} of an earlier run"
                raise CommandError(f"{self.path} has {have}: continue that run with --resume, or remove the file")
            await self._forget(ended)
            if rerun_unknown:
                for each in await self.undecided():
                    await self.resolve(each.id, landed=False, by="--rerun-unknown")
            await self.store.write(Change(_RESULTS, " ".join({*owners, inode}).encode()))
        except StoreError as exc:
            raise CommandError(f"{self.path}: {exc}") from None
        return begun

    async def _read_lines(self) -> tuple[dict[int, str], list[str]]:
        """The lines that had begun and have no result, and the keys of those that have one."""
        begun, ended = dict[int, str](), list[str]()
        async for key, kept in self._records.list("d/"):
            number, digest = kept["line"], kept["call"]
            if self.results.finished.is_result_of(number, digest):
                ended.append(key)
            else:
                begun[number] = digest
                self._ids[number] = key.removeprefix("d/")
        return begun, ended

    async def renumber(self, numbers: Mapping[int, int]) -> None:
        """Give lines that had begun the new numbers of their places in CALLS.

        Raises:
            CommandError: The file cannot be written.
        """
        changes = list[Change]()
        for old, new in numbers.items():
            entry, kept = await self._records.read(f"d/{self._ids[old]}")
            if entry is not None:
                value = json.dumps({**kept, "line": new}).encode()
                changes.append(Change(f"d/{self._ids[old]}", value, entry.version))
        ids = {numbers.get(old, old): id_ for old, id_ in self._ids.items()}
        try:
            await self.store.write(*changes)
        except StoreError as exc:
            raise CommandError(f"{self.path}: {exc}") from None
        self._ids = ids

    async def _refuse_second_run(self) -> None:
        """Raise CommandError if another run writes to it: of RESULTS, which was renamed since."""
        while True:
            entry = await self.store.get(_RUN)
            if entry is not None and await lives(self.store, name := entry.value.decode(), ""):
                raise CommandError(f"{self.path}: another run is writing to it: process {name.split('|')[1]}")
            if self._owner is None:
                return
            ours = Change(_RUN, self._owner.name.encode(), None if entry is None else entry.version)
            if await self.store.write(ours) is not None:  # else another run came first
                return

    async def _refuse_renamed(self, inode: str) -> None:
        """Raise CommandError if another ledger in this directory belongs to this file of results."""
        for other in sorted(self.path.parent.glob(f"*{_SUFFIX}")):
            with suppress(SetupError, StoreError):  # not ours to read
                if other != self.path and inode in await _read_owners(other):
                    raise CommandError(
                        f"RESULTS was renamed, and {other} has its calls: rename it to {self.path.name}, or remove it "
                        "if it belongs to another file"
                    )

    def check_end(self) -> None:
        """Check at the end of a run that a later one will find RESULTS.

        Raises:
            CommandError: It was moved.
        """
        if not self.results.is_in_place():
            raise CommandError(_MOVED)

    def remove(self) -> None:
        """Remove the file, once it is closed, if each line has its result."""
        if self.complete and self.failure is None and self.results.is_in_place():
            for suffix in _BESIDE:
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)

    def _is_in_place(self) -> bool:
        if self._status is None:
            with suppress(OSError):
                self._status = self.path.stat()
        return self._status is not None and is_named(self.path, self._status)


@attrs.frozen(eq=False)
class _Outermost:
    """The ledger around all other stages: of a call that has no params there, and perhaps no tool.

    A line stands for itself then, and what began is never run again: the key of its body is lost.
    """

    placement: ClassVar[Placement] = Placement(
        announces_body=True, reason="around stages that may do the work themselves"
    )

    ledger: LineLedger
    pipeline: Pipeline

    @property
    def resources(self) -> tuple[Any, ...]:
        """The store and the ledger, which are opened before this stage."""
        return (*self.ledger.resources, self.ledger)

    def __call__(self, call: Call, call_next: Handler[Call]) -> Awaitable[Outcome]:
        """See `Ledger`."""
        tool = _find_tool(self.pipeline, call)
        if tool is not None and tool.effect in _REPEATABLE:
            return call_next(call)
        known = _NO_TOOL if tool is None else tool.name, None if tool is None else tool.verify_with
        if call.get_state(LINE, None) is None:
            return call_next(call)
        whole = attrs.evolve(call, conversation="").resolved(_stand_in(*known)).validated({})
        return self.ledger(whole, lambda inner: call_next(call.under(inner.report, inner.guards)))


@lru_cache
def _stand_in(name: str, verify_with: str | None) -> Tool[..., Any]:
    return Tool.from_schema(name=name, parameters=None, handler=_do_nothing, effect="mutating", verify_with=verify_with)


def _do_nothing(**_arguments: object) -> None: ...


@or_default(None)
def _find_tool(pipeline: Pipeline, call: Call) -> Tool[..., Any] | None:
    """The tool of a call that has not gone through the pipeline yet, or None."""
    found = pipeline.resolve(call)
    return found.tool if isinstance(found, ResolvedCall) else None


async def _read_owners(path: Path) -> list[str]:
    async with SQLite(path) as store:
        entry = await store.get(_RESULTS)
    return [] if entry is None else entry.value.decode().split()

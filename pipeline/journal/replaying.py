"""replay: recorded calls against a changed pipeline. No body runs: each answer is the recorded one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, Final

import attrs
from returns.result import Failure, Success

from ..engine.call import Call, Outcome, ValidCall
from ..engine.call_state import StateKey
from ..engine.compose import Pipeline
from ..engine.errors import NotExecuted, TimedOut, Transient
from ..engine.report.json_form import Form, is_replayable, read_form
from ..engine.report.report_rows import kind_of
from ..messages import render
from ..once.digests import digest
from ..stores import Memory
from ..testing import FakeClock
from .recovery import NO_TOOL

NO_RECORD: Final = "no record"  # what a call comes to that would run, and did not run then
SUCCESS: Final = "success"
_FORM: Final[StateKey[Any]] = StateKey("toolcall-pipeline.journal-form")
_MOST_EXAMPLES: Final = 20  # changed calls of one tool that are named
_UNKNOWN: Final = "not in the record"


@attrs.frozen
class Change:
    """One call that comes to something else."""

    id: str
    name: str  # as the model wrote it
    before: str  # the kind of its failure, or "success"
    after: str  # the same now, or "no record": it would run, and no equal call ran then
    told: str  # the text for the model now


@attrs.define
class ToolChanges:
    """The calls of one tool."""

    calls: int = 0  # that were replayed
    changes: Counter[tuple[str, str]] = attrs.field(factory=Counter[tuple[str, str]])
    texts: int = 0  # failures of the same kind as before whose text for the model is another one
    examples: list[Change] = attrs.field(factory=list[Change])  # the first that changed


@attrs.define
class Replay:
    """The outcomes of recorded calls in another pipeline.

    Attributes:
        calls: All recorded calls.
        replayed: Those that were replayed.
        not_replayable: The others, by the reason: ``masked``, ``cut``, ``no content``, ``cancelled``.
        unmatched: Those that would run now, and did not run then.
        ran: Reads that ran for want of a record, because that was asked for.
        left_out: The stages of the pipeline that were left out, since they would record.
        tools: By the name of the tool then; ``"?"`` for names that no tool has.
    """

    calls: int = 0
    replayed: int = 0
    not_replayable: Counter[str] = attrs.field(factory=Counter[str])
    unmatched: int = 0
    ran: int = 0
    left_out: tuple[str, ...] = ()
    tools: defaultdict[str, ToolChanges] = attrs.field(factory=lambda: defaultdict[str, ToolChanges](ToolChanges))

    @property
    def changed(self) -> int:
        """Number of calls with another outcome."""
        return sum(tool.changes.total() for tool in self.tools.values())

    def as_json(self) -> dict[str, Any]:
        """The result as JSON data."""
        return {
            "calls": self.calls,
            "replayed": self.replayed,
            "changed": self.changed,
            "unmatched": self.unmatched,
            "ran": self.ran,
            "not_replayable": dict(self.not_replayable),
            "left_out": list(self.left_out),
            "tools": {
                name: {
                    "calls": tool.calls,
                    "changed": tool.changes.total(),
                    "texts": tool.texts,
                    "changes": [
                        {"before": before, "after": after, "calls": count}
                        for (before, after), count in tool.changes.most_common()
                    ],
                    "examples": [attrs.asdict(each) for each in tool.examples],
                }
                for name, tool in sorted(self.tools.items(), key=lambda each: (-each[1].changes.total(), each[0]))
            },
        }


class RecordedEnd:
    """The end of a pipeline whose bodies do not run: it answers with what is recorded.

    A call that ran is answered by its own record, attempt by attempt. Another one is answered by the record of an equal
    intent: the same tool and params, for the same principal in the same conversation.
    """

    def __init__(self, pipeline: Pipeline, *, run_reads: bool = False) -> None:
        end = pipeline.entries[-1]
        self._run, self.placement = end.run, end.placement
        self._run_reads = run_reads
        self._ran: dict[tuple[str, str, str, str], Form] = {}  # by intent
        self.missed = False  # the call that runs now has no record
        self.is_last = False  # no later call can be the record
        self.ran = 0

    async def __call__(self, call: ValidCall) -> Outcome:
        """Answer for the body."""
        form: Form = call.get_state(_FORM)
        intent = call.principal, call.conversation, call.tool.name, digest(dict(call.params))
        ran = [each for each in form["attempts"] if each[1]]
        if ran and form["tool"] == call.tool.name:
            self._ran[intent] = form
            return _answer(form, ran, call.attempt)
        found = self._ran.get(intent)
        if found is not None:
            return _answer(found, [each for each in found["attempts"] if each[1]], call.attempt)
        if self.is_last and self._run_reads and call.tool.effect == "read":
            self.ran += 1
            outcome: Outcome = await self._run(call)
            return outcome
        self.missed = True
        return Failure(NotExecuted(_UNKNOWN))


async def replay(pipeline: Pipeline, forms: Iterable[Form], *, run_reads: bool = False) -> Replay:
    """Run recorded calls through a pipeline, in their order and by their times, and say what changes.

    Stages that record, as `Trace` and `Ledger` do, are left out, and those with a ``store`` get one in memory: the
    application's own is not written to.
    Time does not pass but from call to call, so no retry waits.

    Args:
        pipeline: The changed one.
        forms: The calls of a journal.
        run_reads: Whether a body that only reads runs for want of a record. Default False.
    """
    quiet, left_out = _leave_out(pipeline)
    end = RecordedEnd(quiet, run_reads=run_reads)
    changed = quiet.replace(quiet.stages[-1], end)
    found = Replay(left_out=left_out)
    waiting: list[Form] = []  # those without a record, which a later call may have
    first: int | None = None
    with FakeClock() as clock:
        begun = clock.now
        async with changed:
            for form in forms:
                found.calls += 1
                if (reason := _find_hindrance(form)) is not None:
                    found.not_replayable[reason] += 1
                    continue
                first = form["at"] if first is None else first
                clock.now = max(clock.now, begun + (form["at"] - first) / 1e9)
                await _replay_one(changed, end, found, form, waiting)
            end.is_last = True
            for form in waiting:
                await _replay_one(changed, end, found, form, None)
    found.ran = end.ran
    return found


async def _replay_one(
    pipeline: Pipeline, end: RecordedEnd, found: Replay, form: Form, waiting: list[Form] | None
) -> None:
    """Replay a call; one without a record is put off until the others are known, if ``waiting`` is a list."""
    end.missed = False
    state: Any = {_FORM: form}
    call = Call(
        form["name"],
        form["arguments"],
        form["id"],
        form["principal"],
        conversation=form["conversation"],
        reply=form["reply"],
        state=state,
    )
    outcome = await pipeline(call)
    if end.missed and waiting is not None:
        waiting.append(form)
        return
    found.replayed += 1
    before = SUCCESS if form["outcome"] == "success" else str(form["kind"])
    after = NO_RECORD if end.missed else kind_of(outcome) or SUCCESS
    told = str(render(outcome, call=call))
    found.unmatched += end.missed
    tool = found.tools[NO_TOOL if form["tool"] is None else form["tool"]]
    tool.calls += 1
    if before != after:
        tool.changes[before, after] += 1
        if len(tool.examples) < _MOST_EXAMPLES:
            tool.examples.append(Change(form["id"], form["name"], before, after, told))
    elif before != SUCCESS and not any(each[1] for each in form["attempts"]) and told != form["told"]:
        tool.texts += 1


def _find_hindrance(form: Form) -> str | None:
    """The reason why a call cannot be replayed; None: it can."""
    if "arguments" not in form:
        return "no content"
    if form["outcome"] == "cancelled":
        return "cancelled"
    return None if is_replayable(form) else "masked" if form["masked"] else "cut" if form["cut"] else "no name"


def _leave_out(pipeline: Pipeline) -> tuple[Pipeline, tuple[str, ...]]:
    """The pipeline without the stages that record, and their names. Those with a store get one in memory.

    The ledger is left out, unless approvals need it: it would ask the ``verify`` of a tool, which is the application's.
    """
    left_out: list[str] = []
    pipeline = pipeline.bind_alike(Pipeline(pipeline.entries, pipeline.wording))  # without its journal
    kinds = {stage.placement.kind for stage in pipeline.entries}
    for stage in pipeline.entries[:-1]:
        if stage.role == "observe" or (stage.placement.kind == "ledger" and "approve" not in kinds):
            left_out.append(stage.name)
            pipeline = pipeline.without(stage.name)
        elif getattr(stage.obj, "store", None) is not None:
            pipeline = pipeline.replace(stage.name, attrs.evolve(stage.obj, store=Memory()))
    return pipeline, tuple(left_out)


def _answer(form: Form, ran: list[Any], attempt: int) -> Outcome:
    """The outcome of an attempt of a recorded call; beyond the last one, that attempt's."""
    verdict, landed = ran[min(attempt, len(ran)) - 1][5:7]
    if attempt < len(ran) and verdict is not None:
        return Failure(TimedOut(landed=landed) if verdict == "timeout" else Transient(None, landed=landed))
    outcome = read_form(form).outcome
    return Success(None) if outcome is None else outcome

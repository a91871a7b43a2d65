"""CallReport: what happened to one call. Spans, metrics, logs and results are computed from it, so they agree."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import attrs
from returns.result import Failure, Success

from ..errors import NAME_KEPT, Repair, ToolError
from .report_rows import (
    NO_EXECUTOR,
    Attempt,
    AttemptRow,
    Progress,
    RetryDecision,
    StageRecord,
    StageRow,
    find_decider,
    find_decision,
)

if TYPE_CHECKING:
    from ...privacy import RedactedCall
    from ...tools.definition import Tool
    from ..call import Call, Outcome


@attrs.define(eq=False, repr=False)
class CallReport:
    """All that happened to one call, as far as it may be recorded.

    Secrets that the tool declares are left out of the arguments, and each value is the one that the ``redact`` of
    `Trace` returned. Everything made from a report keeps to this, its pickle too. In memory the value of a success is
    the one that the tool returned.

    Attributes:
        call: The call as it was sent, without what may not be recorded.
        tool: The tool that the call was resolved to, or None.
        started: When the call started (ns, ``perf_counter_ns``).
        ended: When the call ended (ns, same clock).
        started_at: When the call started (ns since the epoch).
        outcome: The outcome; None only if the call was cancelled.
        repairs: The repairs of the name and the arguments.
        decisions: The decisions about retries, in order.
        progress: The progress that the tool reported, in order.
        replayed: The outcome is that of an earlier call, or of a twin: no body ran for this one.
        rows: `stages` as plain tuples.
        attempt_rows: `attempts` as plain tuples, and the runs that were refused before the body, whose executor is "".
    """

    call: Call
    tool: Tool[..., Any] | None = None
    started: int = 0
    ended: int = 0
    started_at: int = 0
    outcome: Outcome | None = None
    repairs: tuple[Repair, ...] = ()
    decisions: list[RetryDecision] = attrs.field(factory=list[RetryDecision])
    progress: list[Progress] = attrs.field(factory=list[Progress])
    rows: list[StageRow] = attrs.field(factory=list[StageRow], repr=False)
    attempt_rows: list[AttemptRow] = attrs.field(factory=list[AttemptRow], repr=False)
    _redacted: RedactedCall | None = attrs.field(default=None, repr=False)
    replayed: bool = attrs.field(default=False, kw_only=True)
    _form: dict[str, Any] | None = attrs.field(default=None, repr=False, kw_only=True)  # that it was read from

    @property
    def stages(self) -> tuple[StageRecord, ...]:
        """Each run of each stage, in the order of their ends."""
        return tuple(StageRecord(*row) for row in self.rows)

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Each run of the tool, the first one included."""
        return tuple(Attempt(*row) for row in self.attempt_rows if row[1] != NO_EXECUTOR)

    @property
    def seconds(self) -> float:
        """Duration of the whole call."""
        return (self.ended - self.started) / 1e9

    @property
    def undeclared(self) -> tuple[str, ...]:
        """Arguments that the tool accepted although its schema, which allows others, does not declare them."""
        if self.tool is None or getattr(self.error, "category", "") == "parameter":
            return ()
        repaired = {repair.path for repair in self.repairs if repair.rule != NAME_KEPT}
        found = self.tool.parameters.find_undeclared(self.call.arguments)
        return tuple(name for name in found if name not in repaired)

    @property
    def error(self) -> ToolError | None:
        """The error of a failed call; None for a success and for a cancelled call."""
        return self.outcome.failure() if type(self.outcome) is Failure else None

    @property
    def decided_by(self) -> str:
        """The name of the stage that decided a failure, such as ``loop_guard``; "" for a call without one."""
        error = self.error
        return find_decider(self.rows, None if error is None else error.kind)

    @property
    def reason(self) -> str:
        """The reason of a failure, beside its kind: the one in its error, a note of the deciding stage, or who refused.

        "": nothing more is known, or the call did not fail.
        """
        error: Any = self.error
        if error is None:
            return ""
        row = find_decision(self.rows, error.kind)
        note = "" if row is None else row[5]
        return str(getattr(error, "reason", "") or note or getattr(error, "by", ""))

    @property
    def waited(self) -> float:
        """Seconds that the call waited between its attempts."""
        return sum(row[4] for row in self.attempt_rows)

    @property
    def redacted(self) -> RedactedCall | None:
        """The call without its secrets, and the way to take them out of a text. None: the call has none."""
        return self._redacted

    def to_json(self) -> str:
        """The report as a JSON object: the form in which a `Journal` keeps it. It has no secrets and no deps."""
        from .json_form import write_form

        return json.dumps(write_form(self) if self._form is None else self._form, ensure_ascii=False)

    @staticmethod
    def from_json(text: str | bytes, tool: Tool[..., Any] | None = None) -> CallReport:
        """Return the report that `to_json` wrote.

        Args:
            text: The JSON.
            tool: The tool of the call. Default None: the report has none.

        Raises:
            ValueError: It is other JSON, or of a later release.
        """
        from .json_form import read_form

        form: Any = json.loads(text)
        if not isinstance(form, dict):
            raise ValueError("no report: not an object")  # noqa: TRY004  # as for any other text
        report = read_form(cast("dict[str, Any]", form), tool)
        report._form = form  # noqa: SLF001  # a report itself
        return report

    def __repr__(self) -> str:
        redacted = self.redacted
        shown = {field.name: repr(getattr(self, field.name)) for field in attrs.fields(type(self)) if field.repr}
        if redacted is not None and type(self.outcome) is Success and (redacted.hook or redacted.mask) is not None:
            shown["outcome"] = "<Success>"  # its value is redacted only when it is rendered
        elif redacted is not None and redacted.mask is not None and self.outcome is not None:
            from .content import mask_outcome

            shown["outcome"] = repr(mask_outcome(self.outcome, redacted.mask))
        shown |= {name: repr(why) for name in ("decided_by", "reason") if (why := getattr(self, name))}
        text = f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in shown.items())})"
        return text if redacted is None else redacted.hide(text)

    def __getstate__(self) -> dict[str, Any]:
        # A report is a record: it leaves out the caller's own objects, because most do not pickle.
        state = {field.name: getattr(self, field.name) for field in attrs.fields(CallReport)}
        redacted = self.redacted  # it holds the secrets, so it is left out
        call, repairs = (self.call, self.repairs) if redacted is None else (redacted.call, redacted.repairs)
        progress, outcome = self.progress, self.outcome
        if redacted is not None and redacted.mask is not None and outcome is not None:
            from .content import mask_outcome

            outcome = mask_outcome(outcome, redacted.mask)
        if redacted is not None and (redacted.mask is not None or redacted.hook is not None):
            progress = [attrs.evolve(step, message=redacted.show(step.read()[2], "progress")) for step in progress]
        return state | {
            "progress": progress,
            "outcome": outcome,
            "call": attrs.evolve(call, deps=None, state=None, report=None, guards=None),
            "repairs": repairs,
            "_redacted": None,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

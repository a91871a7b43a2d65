"""A report as a JSON object, and back. `CallReport.to_json` and the rows of a journal are this one form.

Nothing in it may not be recorded: the arguments and the repairs are the redacted ones, and the secrets of the call are
taken out of the result and of the error. Nothing is pickled: to read a row runs no code of its writer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import attrs
from returns.result import Failure, Success

from ...messages import render
from ...messages.values import as_json, to_data
from ...privacy import REDACTED, RemoteCause, approved, says_landed
from ..call import Call
from ..errors import (
    ERROR_TYPES,
    Denied,
    ExecutionFailed,
    FailureDetails,
    Problem,
    Repair,
    ToolError,
    Unavailable,
    UnknownTool,
)
from .call_report import CallReport
from .content import find_value, render_outcome
from .report_rows import Progress, RetryDecision, kind_of

if TYPE_CHECKING:
    from ...tools.definition import Tool

Form: TypeAlias = dict[str, Any]
VERSION: Final = 1  # of this form
MOST_TEXT: Final = 1_000_000  # characters of arguments, of a result, or of another text; what is longer is cut
_LONGEST_NAME: Final = 100  # characters of a reason, or of who refused
_MOST_STEPS: Final = 100  # of progress: the last ones
_DEPTH: Final = 32
_SCALARS = (type(None), bool, int, float, str)
_FIXED = frozenset(_SCALARS)
_ALL_TEXT = frozenset((str,)).issuperset
_FEW: Final = 100  # members of an object that are looked at one by one
_CLASSES: Final[Mapping[str, type[Any]]] = {
    each.__name__: each for each in (*ERROR_TYPES, Problem, Repair, FailureDetails)
}


class Dumped(str):
    """A value as JSON, as it was when it was written."""

    __slots__ = ()


def snapshot(report: CallReport) -> tuple[object, object, int]:
    """The arguments and the value of a success as they are now, for the caller may change them later; and their size.

    Immutable values stay as they are, and an object or a list of such values is copied: that takes a twentieth of the
    time of writing it as JSON, and another thread can do that. Anything else is `Dumped`.
    """
    redacted = report.redacted
    arguments, sent_size = _freeze(report.call.arguments if redacted is None else redacted.call.arguments, to_data)
    if type(report.outcome) is not Success:
        return arguments, None, sent_size
    value, size = _freeze(find_value(report), _dump_value)
    return arguments, value, sent_size + size


def _freeze(value: Any, dump: Callable[[Any], Any]) -> tuple[object, int]:
    kind: type[Any] = type(cast("object", value))
    if kind in _FIXED:
        return value, len(value) if kind is str else 8
    if (kind is dict or kind is list) and len(value) <= _FEW:
        items = list(value.values()) if kind is dict else value
        size = 8 * len(items)
        for each in items:
            if type(each) is str:
                size += len(each)
            elif type(each) not in _FIXED:
                break
        else:
            if kind is list or _ALL_TEXT(map(type, value)):
                return value.copy(), size
    text = Dumped(dump(value)[1])
    return text, len(text)


def _dump_value(value: Any) -> tuple[None, str]:
    return None, as_json(value)


def _dump(kept: object, write: Callable[[Any], str]) -> str | None:
    return None if kept is None else kept if type(kept) is Dumped else write(kept)


def write_form(report: CallReport, kept: tuple[object, object, int] | None = None, *, content: bool = True) -> Form:
    """Return the report as JSON data."""
    call, tool, error = report.call, report.tool, report.error
    requested: Any = call.name
    wording: Any = None if call.wording is None else call.wording.profile
    form: Form = {
        "form": VERSION,
        "id": str(call.id),
        "name": requested[:MOST_TEXT] if isinstance(requested, str) else None,
        "tool": None if tool is None else tool.name,
        "effect": None if tool is None else tool.effect,
        "principal": str(call.principal),
        "conversation": str(call.conversation),
        "reply": str(call.reply),
        "at": report.started_at,
        "seconds": report.seconds,
        "outcome": "cancelled" if report.outcome is None else "success" if error is None else "failure",
        "kind": kind_of(report.outcome),
        "decided_by": report.decided_by,
        "wording": "default" if wording is None else wording if isinstance(wording, str) else type(wording).__name__,
        "replayed": report.replayed,
        "stages": [_from_start(report, row) for row in report.rows],
        "attempts": [_from_start_of_attempt(report, row) for row in report.attempt_rows],
        "decisions": [list(each) for each in report.decisions],
        "repairs": [_write_repair(each, content=content) for each in _list_repairs(report)],
    }
    if error is not None:
        form["error"] = _write_error(report, error, content=content)
    if content:
        form |= _write_content(report, snapshot(report) if kept is None else kept)
    return form


def read_form(form: Mapping[str, Any], tool: Tool[..., Any] | None = None) -> CallReport:
    """Return the report that was written. Parts that it left out stay away: deps, secrets, causes but for their class.

    Raises:
        ValueError: It is something else, or of a later version.
    """
    try:
        if form["form"] > VERSION:
            raise ValueError(f"a report of the form {form['form']}, and this release reads up to {VERSION}")
        return _read_form(form, tool)
    except (KeyError, TypeError, IndexError, AttributeError) as exc:
        raise ValueError(f"no report: {type(exc).__name__} {exc}") from exc


def is_replayable(form: Form) -> bool:
    """Whether its arguments are whole: with none of them masked, cut or left out."""
    return "arguments" in form and not form["masked"] and not form["cut"] and form["name"] is not None


def _write_content(report: CallReport, kept: tuple[object, object, int]) -> Form:
    sent = _dump(kept[0], lambda arguments: to_data(arguments)[1])
    value = (_dump(kept[1], as_json) or "null") if type(report.outcome) is Success else None
    # Of a success it is made of what was kept: the value itself may be another one by now.
    told = render_outcome(report) if value is None else str(render(Success(_load(value)), call=report.call))
    cut = any(text is not None and len(text) > MOST_TEXT for text in (sent, value, told))
    form: Form = {
        "arguments": _load(sent),
        "masked": sent is not None and REDACTED in sent,
        "cut": cut,
        "told": told[:MOST_TEXT],
        "progress": [[*_read_step(report, each)] for each in report.progress[-_MOST_STEPS:]],
    }
    if value is not None:
        form["value"] = _load(value)
    return form


def _load(text: str | None) -> Any:
    """The data of a JSON text; the beginning of the text itself, if it is too long or secrets were cut out of it."""
    if text is None:
        return None
    if len(text) > MOST_TEXT:
        return text[:MOST_TEXT]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _read_step(report: CallReport, step: Progress) -> tuple[float | None, float | None, str]:
    done, total, message = step.read()
    return done, total, (message if report.redacted is None else report.redacted.show(message, "progress"))[:1_000]


def _from_start(report: CallReport, row: Any) -> list[Any]:
    name, start, end, verdict, attempt, note, own = row
    note = str(note) if report.redacted is None else report.redacted.hide(str(note))
    return [name, start - report.started, end - report.started, verdict, attempt, note[:1_000], own]


def _from_start_of_attempt(report: CallReport, row: Any) -> list[Any]:
    number, executor, start, end, wait, verdict, landed = row
    return [number, executor, start - report.started, end - report.started, wait, verdict, landed]


def _list_repairs(report: CallReport) -> tuple[Repair, ...]:
    return report.repairs if report.redacted is None else report.redacted.repairs


def _write_repair(repair: Repair, *, content: bool) -> list[Any]:
    if not content:
        return ["", repair.rule, None, None]
    return [repair.path, repair.rule, _to_plain(repair.before), _to_plain(repair.after)]


def _to_plain(value: object) -> Any:
    return _load(to_data(value)[1])


def _write_error(report: CallReport, error: ToolError, *, content: bool) -> Form:
    if not content:
        return _write_bare(error)
    redacted = report.redacted
    shown: Any = error if redacted is None or redacted.mask is None else redacted.mask.error(error)
    if redacted is not None and redacted.hook is not None:  # it has judged the text, and not each field
        return _write_bare(error)
    written: Form = dump_error(shown)
    return written


def _write_bare(error: ToolError) -> Form:
    """An error without content: the names of tools that were suggested, the reason, and who refused are none."""
    bare: ToolError | None = None
    if isinstance(error, UnknownTool):
        bare = UnknownTool(error.requested, error.suggestions)
    elif isinstance(error, Unavailable) and _is_name(error.reason):
        bare = Unavailable(error.tool, error.reason, error.retry_after)
    elif isinstance(error, Denied) and _is_name(error.by):
        bare = Denied(error.by)
    written: Form = {"class": type(error).__name__} if bare is None else dump_error(bare)
    return written


def _is_name(given: object) -> bool:
    """Whether it is a name as one writes it in code, and no text of a stage."""
    return isinstance(given, str) and len(given) <= _LONGEST_NAME and given.isidentifier()


def dump_error(value: Any, depth: int = _DEPTH) -> Any:
    """Return an error, or a value in one of its fields, as JSON data. Of a cause the name of its class is kept.

    And whether it says that the call has taken effect: a model that asks again must read that again.
    """
    if type(value) in _SCALARS:
        return value if type(value) is not float or value - value == 0 else str(value)  # finite
    if isinstance(value, str):
        return str.__str__(value)[:MOST_TEXT]
    if isinstance(value, BaseException):
        name = value.type_name if isinstance(value, RemoteCause) else type(value).__name__
        return {"cause": name, "landed": "yes"} if says_landed(value) else {"cause": name}
    kind: type[Any] = type(cast("object", value))
    if depth and _CLASSES.get(kind.__name__) is kind:
        held = ((field, getattr(value, field.name)) for field in attrs.fields(kind))
        # A private field may hold what the model sent, or a schema: of these only errors and causes are kept.
        kept = {
            field.name: dump_error(each, depth - 1)
            for field, each in held
            if not field.metadata or isinstance(each, BaseException) or type(each) in _CLASSES.values()
        }
        return {"class": kind.__name__, "fields": kept}
    if depth and isinstance(value, (list, tuple)):
        return [dump_error(each, depth - 1) for each in cast("Any", value)]
    if depth and isinstance(value, Mapping):
        return {"map": {str(name): dump_error(each, depth - 1) for name, each in cast("Any", value).items()}}
    return _to_plain(value) if depth else None


def _read_form(form: Mapping[str, Any], tool: Tool[..., Any] | None) -> CallReport:
    call = Call(
        form["name"],
        form.get("arguments"),
        form["id"],
        form["principal"],
        conversation=form["conversation"],
        reply=form["reply"],
    )
    outcome: Any = None
    if form["outcome"] == "failure":
        outcome = Failure(_read_error(form["error"], form["kind"]))
    elif form["outcome"] == "success":
        outcome = Success(form.get("value"))
    report = CallReport(
        call,
        tool,
        0,
        round(form["seconds"] * 1e9),
        form["at"],
        outcome,
        tuple(Repair(*each) for each in form["repairs"]),
        [RetryDecision(*each) for each in form["decisions"]],
        [Progress(*each) for each in form.get("progress", ())],
        replayed=form["replayed"],
    )
    rows: Any = [tuple(each) for each in form["stages"]]
    attempts: Any = [tuple(each) for each in form["attempts"]]
    report.rows, report.attempt_rows = rows, attempts
    return report


def _read_error(written: Mapping[str, Any], kind: str) -> Any:
    """The error; one of its kind without fields, where they were left out or another release wrote them."""
    try:
        if "fields" in written:
            return load_error(written)
    except TypeError:
        pass
    made: Any = next((each for each in ERROR_TYPES if each.kind == kind), ExecutionFailed)
    empty: dict[str, Any] = {"str": "", "Public": "", "float": 0.0}
    return made(*(empty.get(str(field.type), ()) for field in attrs.fields(made) if field.default is attrs.NOTHING))


def load_error(kept: Any) -> Any:
    """Return what `dump_error` wrote; a list comes back as a tuple."""
    if isinstance(kept, str):
        return approved(kept)  # it was approved when it was written
    if isinstance(kept, list):
        return tuple(load_error(each) for each in cast("list[Any]", kept))
    if not isinstance(kept, dict):
        return kept
    found = cast("dict[str, Any]", kept)
    if "cause" in found:
        return RemoteCause(found["cause"], has_landed=found.get("landed") == "yes")
    if "class" in found and "fields" in found:
        return _CLASSES[found["class"]](**{name: load_error(each) for name, each in found["fields"].items()})
    if "map" in found:
        return {name: load_error(each) for name, each in found["map"].items()}
    return found

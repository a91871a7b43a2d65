"""The closed union of errors: one table of facts, frozen values, and causes that stay at home."""

from __future__ import annotations

import copy
import pickle
from typing import Any, get_args

import attrs
import pytest
from returns.result import Failure, Success

from pipeline import (
    Crashed,
    Denied,
    ExecutionFailed,
    FailureDetails,
    InvalidParams,
    MalformedCall,
    NeedsSetup,
    NeedsUserInput,
    NotExecuted,
    Outcome,
    OutcomeUnknown,
    Problem,
    RemoteCause,
    Repair,
    ResourceNotFound,
    SetupError,
    TimedOut,
    ToolError,
    Transient,
    Unavailable,
    UnknownTool,
    errors,
)


class Secret(Exception):
    """A cause whose text is nobody's business."""


CAUSE = Secret("password=hunter2")
TABLE: list[tuple[str, ToolError, str, str, str, str]] = [
    ("unknown_tool", UnknownTool("raed", ("read",), ("read",)), "model", "availability", "not_found", "warning"),
    ("unavailable", Unavailable("read", "paused", 3.0), "runtime", "availability", "permission", "warning"),
    ("not_executed", NotExecuted("plan mode"), "runtime", "availability", "execution", "info"),
    ("malformed_call", MalformedCall("trailing comma", (1, 8)), "model", "parameter", "validation", "warning"),
    (
        "validation",
        InvalidParams((Problem("n", "type", "an integer", "true"),), (Repair("n", "whole", 3.0, 3),)),
        "model",
        "parameter",
        "validation",
        "warning",
    ),
    ("needs_input", NeedsUserInput("To whom?", "to"), "human", "parameter", "validation", "info"),
    (
        "not_found",
        ResourceNotFound("gone", FailureDetails("path"), cause=CAUSE),
        "model",
        "execution",
        "not_found",
        "error",
    ),
    ("permission", Denied("policy", "no", cause=CAUSE), "human", "execution", "permission", "warning"),
    ("configuration", NeedsSetup("mail", "no", cause=CAUSE), "operator", "execution", "permission", "error"),
    ("timeout", TimedOut(3.0, cause=CAUSE), "runtime", "execution", "timeout", "error"),
    ("transient", Transient(CAUSE, 3.0, "no"), "runtime", "execution", "execution", "error"),
    (
        "execution",
        ExecutionFailed("no", FailureDetails("a", "b"), cause=CAUSE),
        "model",
        "execution",
        "execution",
        "error",
    ),
    ("outcome_unknown", OutcomeUnknown(Transient(CAUSE), "look"), "model", "execution", "execution", "error"),
    ("internal", Crashed(CAUSE), "nobody", "internal", "execution", "error"),
]
ERRORS = [pytest.param(row[1], id=row[0]) for row in TABLE]
CAUSED = [pytest.param(row[1], id=row[0]) for row in TABLE if hasattr(row[1], "cause")]


@pytest.mark.parametrize(
    ("kind", "error", "fixable_by", "category", "error_type", "log"), TABLE, ids=[row[0] for row in TABLE]
)
def test_each_kind_has_its_row_of_facts(
    kind: str, error: ToolError, fixable_by: str, category: str, error_type: str, log: str
) -> None:
    """Who can mend it, its category, its type on the wire and its log level are facts of the class."""
    cls = type(error)
    assert (cls.kind, cls.fixable_by, cls.category, cls.error_type, cls.log) == (
        kind,
        fixable_by,
        category,
        error_type,
        log,
    )


def test_the_union_is_closed() -> None:
    """There are fourteen kinds, each of one class, and the union names them all."""
    classes = {type(row[1]) for row in TABLE}
    assert len(TABLE) == len(classes) == 14
    assert classes == set(get_args(ToolError)) == errors.KINDS


def test_the_drawn_table_tells_the_truth() -> None:
    """The table on top of the module holds what the classes say, row by row."""
    lines = (errors.__doc__ or "").splitlines()
    drawn = [tuple(line.replace("``", "").split()) for line in lines if line.startswith("``")]
    classes: tuple[type[ToolError], ...] = get_args(ToolError)
    assert drawn == [(cls.kind, cls.__name__, cls.fixable_by, cls.category, cls.error_type, cls.log) for cls in classes]


@pytest.mark.parametrize("error", [*ERRORS, Problem("a", "type", "b"), Repair("a", "b", 1, 2), FailureDetails()])
def test_errors_are_frozen(error: ToolError) -> None:
    """No field can be set, and none be added."""
    for name in [field.name for field in attrs.fields(type(error))] + ["other"]:
        with pytest.raises((attrs.exceptions.FrozenInstanceError, AttributeError)):
            setattr(error, name, "changed")


@pytest.mark.parametrize("error", CAUSED)
def test_a_cause_is_no_part_of_equality(error: Any) -> None:
    """Two errors of one content are equal, and hash alike, whatever caused them."""
    other = attrs.evolve(error, cause=None)
    if not isinstance(error, OutcomeUnknown):  # whose cause is an error too
        assert error == other
        assert hash(error) == hash(other)
    assert error == pickle.loads(pickle.dumps(error))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Transient(retry_after=1), Transient(retry_after=2)),
        (Transient(), TimedOut()),
        (Denied("a"), Denied("b")),
        (OutcomeUnknown(Transient()), OutcomeUnknown(TimedOut())),
        (InvalidParams((Problem("a", "type", "b"),)), InvalidParams((Problem("b", "type", "b"),))),
    ],
)
def test_all_else_is_part_of_equality(one: ToolError, other: ToolError) -> None:
    """Errors that differ in anything but their private cause differ."""
    assert one != other


@pytest.mark.parametrize("error", ERRORS)
def test_a_cause_is_in_no_repr(error: ToolError) -> None:
    """Neither the text nor the type of a private cause is in what an error looks like."""
    shown = repr(error) + str(error) + repr(Failure(error))
    assert "hunter2" not in shown
    assert "Secret" not in shown
    assert type(error).__name__ in shown


def causes(error: object) -> list[BaseException]:
    cause = getattr(error, "cause", None)
    return [cause] if isinstance(cause, BaseException) else [] if cause is None else causes(cause)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_errors_pickle_without_their_secrets(error: ToolError, protocol: int) -> None:
    """An error travels whole, but for its cause: of that go the type's name and the length of its text."""
    sent = pickle.dumps(Failure(error), protocol)
    assert b"hunter2" not in sent
    received = pickle.loads(sent)
    assert received == Failure(error)
    assert type(received.failure()) is type(error)
    for cause in causes(received.failure()):
        assert isinstance(cause, RemoteCause)
        assert (cause.type_name, cause.withheld) == ("Secret", len("password=hunter2"))
        assert str(cause) == "Secret (16 characters withheld)"
    assert len(causes(received.failure())) == len(causes(error))


def test_a_cause_that_travels_on_stays_what_it_was() -> None:
    """A second pickle of a received error says the same as the first."""
    once = pickle.loads(pickle.dumps(Crashed(CAUSE)))
    twice = pickle.loads(pickle.dumps(once))
    assert str(twice.cause) == str(once.cause)


def test_any_cause_can_travel() -> None:
    """A cause that cannot be pickled, nor even be shown, is no reason to lose the error."""

    class Local(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    received = pickle.loads(pickle.dumps(Crashed(Local(lambda: 1))))
    assert str(received.cause) == "Local (0 characters withheld)"


@pytest.mark.parametrize("outcome", [Success({"a": [1, None]}), Success(None), Failure(Crashed())])
def test_outcomes_pickle(outcome: Outcome) -> None:
    """What a pipeline gives can be sent to another process, and compares there."""
    assert pickle.loads(pickle.dumps(outcome)) == outcome


@pytest.mark.parametrize("error", ERRORS)
def test_errors_can_be_copied(error: ToolError) -> None:
    """Copies are equal, deep ones too."""
    assert copy.copy(error) == copy.deepcopy(error) == error


def test_a_setup_error_is_caught_as_either() -> None:
    """A stage out of place is a kind of TypeError and a taken name a kind of ValueError: one class is both."""
    assert issubclass(SetupError, TypeError)
    assert issubclass(SetupError, ValueError)

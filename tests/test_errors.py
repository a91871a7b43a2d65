"""The closed union of errors: one table of facts, frozen values, and causes that stay private."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import anyio
import attrs
import pytest
from returns.result import Failure, Success

from error_cases import EACH_KIND, SECRET
from support import a_call
from toolcall_pipeline import (
    Crashed,
    Denied,
    ExecutionFailed,
    FailureDetails,
    InvalidParams,
    NotExecuted,
    Outcome,
    OutcomeUnknown,
    Problem,
    RemoteCause,
    Repair,
    SetupError,
    TimedOut,
    ToolError,
    Transient,
    ValidCall,
    Wording,
    render,
)
from toolcall_pipeline.engine.error_kind import ErrorKind
from toolcall_pipeline.engine.errors import ERROR_TYPES
from toolcall_pipeline.engine.guards import as_not_landed, denies_effect
from toolcall_pipeline.engine.guards.one_effect import as_maybe_landed
from toolcall_pipeline.messages.shaping import map_texts
from toolcall_pipeline.middlewares import Redact, Reword
from toolcall_pipeline.privacy import public_fields
from toolcall_pipeline.privacy.masking import Mask, SecretValues

GUIDE = Path(__file__).parent.parent / "pipeline" / "messages" / "KINDS.md"
ERRORS = [pytest.param(error, id=error.kind) for error in EACH_KIND]
CAUSED = [pytest.param(error, id=error.kind) for error in EACH_KIND if hasattr(error, "cause")]


def behind(stage: Any) -> Callable[[Any], Any]:
    """What an error becomes behind a stage."""

    def change(error: ToolError) -> Any:
        async def answer(_: ValidCall) -> Outcome:
            return Failure(error)

        return anyio.run(stage.__call__, a_call(), answer).failure()

    return change


CHANGES: dict[str, Callable[[Any], Any]] = {
    "Redact": behind(Redact(patterns=["."])),
    "Reword": behind(Reword(lambda text, tool: f"{tool}: {text}")),
    "map_texts": lambda error: map_texts(error, lambda text: f"{text}!"),
    "a mask": Mask(lambda: SecretValues({"2"}, is_full=True)).error,
    "as_not_landed": as_not_landed,
    "as_maybe_landed": lambda error: as_maybe_landed(error) if hasattr(error, "landed") else error,
    "changed": lambda error: error.changed(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_who_changes_an_error_keeps_what_is_no_field_of_it(change: Callable[[Any], Any]) -> None:
    """Its maker, its wording, how often it was sent and what changed: of each kind, and of an error inside of it."""
    stage, wording = object(), Wording(verbosity="terse")
    kept = (stage, wording, 3, "It changed.")
    others = 0
    for error in EACH_KIND:
        marked: Any = error.made_by(stage).worded(wording).sent_again(3).since_last("It changed.")
        if isinstance(getattr(marked, "cause", None), ErrorKind):
            marked = marked.changed(cause=marked.cause.made_by(stage).worded(wording).sent_again(3).since_last(kept[3]))
        found = change(marked)
        others += found is not marked
        for each in (found, getattr(found, "cause", None)):
            if isinstance(each, ErrorKind):
                assert (each.maker, each.wording, each.times, each.change) == kept
    assert others > 0


def test_the_union_is_closed() -> None:
    """Each class of the union has a kind of its own, and `ERROR_TYPES` has them all."""
    assert ERROR_TYPES == set(get_args(ToolError)) == {type(error) for error in EACH_KIND}
    assert len({each.kind for each in ERROR_TYPES}) == len(ERROR_TYPES)


def test_the_table_of_the_guide_has_the_facts_of_each_kind() -> None:
    """The table in the guide shows what the arguments of each class say, in the order of the union."""
    rows = [line for line in GUIDE.read_text().splitlines() if line.startswith("| `") and line.count("|") == 9]
    shown = [tuple(cell.strip().replace("`", "") for cell in row.strip("|").split("|")) for row in rows]
    classes: tuple[type[ToolError], ...] = get_args(ToolError)
    assert shown == [
        (
            each.kind,
            each.__name__,
            each.fixable_by,
            each.category,
            each.error_type,
            each.log_level,
            each.breaker,
            ", ".join(each.template_fields),
        )
        for each in classes
    ]


def test_what_a_kind_says_of_the_body() -> None:
    """A kind that ends a call before its body, a denial and an open approval say that nothing ran; two, that it did."""
    refused = {each.kind for each in ERROR_TYPES if each.body == "refused"}
    ran = {each.kind for each in ERROR_TYPES if each.body == "ran"}
    before_the_body = {each.kind for each in ERROR_TYPES if each.category in ("availability", "parameter")}
    assert refused == before_the_body | {"permission", "awaiting_approval"}
    assert ran == {"execution", "outcome_unknown"}


def test_the_fields_for_a_model_are_found_by_their_type() -> None:
    """`public_fields` finds position and name of each field of the type `Public`."""
    assert public_fields(Denied) == ((1, "message"),)
    assert public_fields(FailureDetails) == ((1, "suggestion"), (2, "constraint"))
    assert public_fields(Crashed) == ()


@pytest.mark.parametrize("error", [*ERRORS, Problem("a", "type", "b"), Repair("a", "b", 1, 2), FailureDetails()])
def test_errors_are_frozen(error: ToolError) -> None:
    """No field of an error can be set or added."""
    for name in [field.name for field in attrs.fields(type(error))] + ["other"]:
        with pytest.raises((attrs.exceptions.FrozenInstanceError, AttributeError)):
            setattr(error, name, "changed")


@pytest.mark.parametrize("error", CAUSED)
def test_a_private_cause_does_not_count_for_equality(error: Any) -> None:
    """Errors that differ only in their private cause are equal and have the same hash."""
    other = attrs.evolve(error, cause=None)
    if not isinstance(error, OutcomeUnknown):  # its cause is an error, and public
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
def test_everything_else_counts_for_equality(one: ToolError, other: ToolError) -> None:
    """Errors that differ in anything but their private cause are not equal."""
    assert one != other


@pytest.mark.parametrize("error", ERRORS)
def test_a_cause_is_in_no_repr(error: ToolError) -> None:
    """The ``repr`` of an error has not the text of its private cause; that of a crash alone has its type."""
    shown = repr(error) + str(error) + repr(Failure(error))
    assert "hunter2" not in shown
    assert ("ValueError" in shown) is isinstance(error, Crashed)
    assert type(error).__name__ in shown


def causes(error: object) -> list[BaseException]:
    cause = getattr(error, "cause", None)
    return [cause] if isinstance(cause, BaseException) else [] if cause is None else causes(cause)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_errors_pickle_without_their_secrets(error: ToolError, protocol: int) -> None:
    """A pickle has all of an error, but of its cause only the name of the type and the length of the text."""
    sent = pickle.dumps(Failure(error), protocol)
    assert b"hunter2" not in sent
    received = pickle.loads(sent)
    assert received == Failure(error)
    assert type(received.failure()) is type(error)
    for cause in causes(received.failure()):
        assert isinstance(cause, RemoteCause)
        assert (cause.type_name, cause.withheld) == ("ValueError", len("password=hunter2"))
        assert str(cause) == "ValueError (16 characters withheld)"
    assert len(causes(received.failure())) == len(causes(error))


def test_a_remote_cause_can_be_pickled_again() -> None:
    """The second pickle of an error says the same about its cause as the first."""
    once = pickle.loads(pickle.dumps(Crashed(SECRET)))
    twice = pickle.loads(pickle.dumps(once))
    assert str(twice.cause) == str(once.cause)


def test_an_error_can_be_pickled_with_any_cause() -> None:
    """A cause that cannot be pickled or shown does not keep its error from being pickled."""

    class Local(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    received = pickle.loads(pickle.dumps(Crashed(Local(lambda: 1))))
    assert str(received.cause) == "Local (0 characters withheld)"


@pytest.mark.parametrize("outcome", [Success({"a": [1, None]}), Success(None), Failure(Crashed())])
def test_outcomes_can_be_pickled(outcome: Outcome) -> None:
    """A pickled outcome is equal to the original."""
    assert pickle.loads(pickle.dumps(outcome)) == outcome


@pytest.mark.parametrize("error", ERRORS)
def test_errors_can_be_copied(error: ToolError) -> None:
    """Copies and deep copies of an error are equal to it."""
    assert copy.copy(error) == copy.deepcopy(error) == error


def test_a_setup_error_is_caught_as_either() -> None:
    """SetupError is both a TypeError and a ValueError."""
    assert issubclass(SetupError, TypeError)
    assert issubclass(SetupError, ValueError)


@pytest.mark.parametrize("kind", get_args(ToolError))
def test_each_kind_has_an_example(kind: Any) -> None:
    """`make_example` makes an error of the kind that lint, benchmarks and tests can render."""
    example = kind.make_example()
    assert type(example) is kind
    assert example == kind.make_example()
    assert render(example)


def test_the_facts_of_a_class_are_honoured() -> None:
    """A new kind of error says by its fact alone whether its body ran: the guards read no list of kinds."""

    class Ran(
        ErrorKind,
        fixable_by="human",
        category="execution",
        error_type="execution",
        log_level="error",
        example={},
        body="ran",
    ):
        kind = "new"

    class Refused(
        ErrorKind,
        fixable_by="human",
        category="execution",
        error_type="execution",
        log_level="error",
        example={},
        body="refused",
    ):
        kind = "new"

    assert not denies_effect(Ran())
    assert denies_effect(Refused())
    assert denies_effect(NotExecuted("x"))
    assert not denies_effect(ExecutionFailed())

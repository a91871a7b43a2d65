"""Values of other types than declared, in each field of each error: nothing raises."""

from __future__ import annotations

import pickle
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from error_cases import EACH_KIND, PROFILES, VERBOSITIES
from support import a_tool
from toolcall_pipeline import (
    Call,
    Crashed,
    Failure,
    FailureDetails,
    MalformedCall,
    Problem,
    SetupError,
    TimedOut,
    ToolFailed,
    ToolRegistry,
    Transient,
    UnknownTool,
    approved,
    render,
)
from toolcall_pipeline.engine.errors import ERROR_TYPES
from toolcall_pipeline.middlewares import Retry, standard


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError("str")

    __repr__ = __str__

    def __len__(self) -> int:
        raise RuntimeError("len")

    def __bool__(self) -> bool:
        raise RuntimeError("bool")


class Exits(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


def odd(cls: Any, *values: Any, **named: Any) -> Any:
    """What a caller without a type checker may make."""
    return cls(*values, **named)


ODD: tuple[Any, ...] = (
    None,
    5,
    -1.5,
    float("nan"),
    10**400,
    True,
    "abc",
    "",
    "\ud800",
    b"abc",
    [],
    [5, None],
    {},
    {5: 5},
    ("a", 5),
    (5,),
    object(),
    Hostile(),
    odd(Problem, 5, 5, 5, 5, 5),
    odd(FailureDetails, 5, 5, 5, 5, "x", 5),
    odd(TimedOut, "abc"),
)
FIELDS = [
    pytest.param(error, field.name, id=f"{error.kind}.{field.name}")
    for error in EACH_KIND
    for field in attrs.fields(type(error))
]


@pytest.mark.parametrize(("error", "name"), FIELDS)
def test_one_odd_field(error: Any, name: str) -> None:
    """An error with one odd field has a text in each profile and verbosity."""
    for value in ODD:
        changed = attrs.evolve(error, **{name: value})
        for profile in PROFILES:
            for verbosity in VERBOSITIES:
                assert render(changed, profile=profile, verbosity=verbosity, tool="probe").strip(), value


@given(st.sampled_from(sorted(ERROR_TYPES, key=lambda each: each.kind)), st.data())
def test_all_fields_are_odd(cls: Any, data: st.DataObject) -> None:
    """An error of which each field is odd has a text, also beside another error of the tool."""
    made = cls(**{field.name: data.draw(st.sampled_from(ODD), field.name) for field in attrs.fields(cls)})
    previous = data.draw(st.sampled_from((None, *EACH_KIND)))
    assert render(made, previous=previous, profile=data.draw(st.sampled_from(PROFILES)))
    assert render(Failure(made), verbosity="terse")


ERRORS: list[Any] = [
    odd(ToolFailed, "x", kind="validation", parameter=5),
    odd(TimedOut, "abc"),
    odd(TimedOut, retry_after="abc"),
    odd(Transient, retry_after="abc"),
]


@pytest.mark.parametrize("error", ERRORS, ids=["parameter", "after", "retry_after", "retry_after of a transient"])
async def test_in_a_pipeline(error: Any) -> None:
    """A tool that fails oddly keeps its kind: nothing leaves the pipeline, and its text can be told."""

    async def body(**_: object) -> object:
        if isinstance(error, Exception):
            raise error
        return Failure(error)

    async def no_wait(_seconds: float) -> None:
        pass

    tools = ToolRegistry()
    tools.register(a_tool(fn=body))
    report = await standard(tools).replace("retry", Retry(2, sleep=no_wait)).report(Call("probe", {}))
    assert report.outcome is not None
    assert render(report.outcome)
    assert report.outcome.failure().kind == ("validation" if isinstance(error, Exception) else error.kind)


@pytest.mark.parametrize("value", [5, None, "x", Hostile()])
def test_what_is_no_error(value: Any) -> None:
    """Something that is no error at all is told as an unexpected one."""
    assert render(value) == "An unexpected error occurred while executing this tool"


def test_a_field_without_a_text_is_told_by_its_type() -> None:
    """What a text is made of may be of any class."""
    assert "'(Hostile)'" in render(odd(UnknownTool, Hostile()))
    assert "(Hostile)" in render(odd(UnknownTool, "read", (Hostile(), "reads")))


@pytest.mark.parametrize("truncated", [True, False, None, Hostile()], ids=["true", "false", "none", "odd"])
def test_beside_an_odd_field_only_true_is_true(truncated: Any) -> None:
    """That the arguments were cut off is still told where another field is odd; nothing else is taken for it."""
    told = render(odd(MalformedCall, Hostile(), None, truncated))
    assert ("cut off" in told) == (truncated is True)


def test_options_are_still_checked() -> None:
    """A wrong option is a SetupError, and not taken for an odd error."""
    with pytest.raises(SetupError):
        render(Crashed(), profile="none")


def test_a_cause_whose_text_exits() -> None:
    """A Failure is pickled even if the text of its cause raises what is no Exception."""
    assert pickle.loads(pickle.dumps(Failure(Crashed(Exits())))) == Failure(Crashed())


@pytest.mark.parametrize("position", [(1,), (1, "2"), ("1", "2"), "12", 5, {}])
def test_an_odd_position_is_none(position: Any) -> None:
    """A place in a text is two whole numbers; of anything else nothing is told."""
    for profile in PROFILES:
        odd, none = (MalformedCall(approved("it ends"), each) for each in (position, None))
        assert render(odd, profile=profile) == render(none, profile=profile)

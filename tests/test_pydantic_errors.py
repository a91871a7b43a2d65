"""What pydantic found wrong, as problems: what is kept of earlier refusals changes none of later ones."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BeforeValidator, Field, ValidationError
from typing_extensions import TypedDict

from toolcall_pipeline.parameters.pydantic_errors import PydanticErrors
from toolcall_pipeline.parameters.signature import Shape, read_signature


class Place(TypedDict):
    """Has a required field of its own, and one that may be left out."""

    street: str
    number: int


def deliver(
    to: Place, weight: Annotated[float, Field(gt=0)], by: str, *, note: str | int = "", more: list[Place] | None = None
) -> None: ...


def collect(a: Annotated[int, Field(alias="from")], b: str, **more: int) -> None: ...


PLACES = st.fixed_dictionaries({}, optional={"street": st.sampled_from(["a", 1]), "number": st.sampled_from([1, "b"])})
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "to": PLACES | st.just(5),
        "weight": st.sampled_from([1.5, -1.0, "1", None]),
        "by": st.sampled_from(["x", 3]),
        "note": st.sampled_from(["n", 1, None, []]),
        "more": st.lists(PLACES, max_size=2),
        "from": st.sampled_from([1, "1"]),
        "a": st.just(1),
        "b": st.sampled_from(["x", None]),
        "other": st.sampled_from([1, "y"]),
    },
)


def find_error(shape: Shape, arguments: dict[str, Any]) -> ValidationError | None:
    try:
        shape.validator.validate_python(arguments)
    except ValidationError as exc:
        return exc
    return None


def _read_words(value: object) -> object:
    return {"one": 1, "two": 2}.get(value, value) if isinstance(value, str) else value


def count(
    a: Annotated[int, BeforeValidator(_read_words)],
    b: int,
    weight: float = 1.0,
    by: str = "",
    number: Annotated[int, Field(ge=2)] = 2,
    note: str | None = None,
    flag: bool = False,
) -> None:
    """Parameters of which some are scalars and some look like one in the schema."""


SCALARS: st.SearchStrategy[Any] = st.sampled_from([1, 2, 2.5, "one", "x", True, None, [], {}])
OF_SCALARS = st.fixed_dictionaries(
    {"a": SCALARS, "b": SCALARS},
    optional=dict.fromkeys(("weight", "by", "number", "note", "flag", "other"), SCALARS),
)


@given(st.lists(OF_SCALARS, min_size=2, max_size=6))
def test_the_only_error_of_scalars_is_told_as_pydantic_lists_it(sent: list[dict[str, Any]]) -> None:
    """The value that is wrong is found without pydantic's list, and only where that says the same."""
    shape = read_signature(count, skip_first=False)
    assert shape.scalars == {"b", "weight", "by", "flag"}
    quick, plain = PydanticErrors(shape.schema, shape.scalars), PydanticErrors(shape.schema)
    for arguments in sent * 2:
        if (exc := find_error(shape, arguments)) is not None:
            assert quick.convert(exc, arguments, arguments) == plain.convert(exc, arguments, arguments)


@pytest.mark.parametrize("function", [deliver, collect], ids=lambda each: each.__name__)
def test_what_is_kept_changes_no_refusal(function: Any) -> None:
    """The same arguments get the same refusal, whatever was refused before."""
    shape = read_signature(function, skip_first=False)
    warm = PydanticErrors(shape.schema)

    @given(ARGUMENTS)
    def refuse_equally(arguments: dict[str, Any]) -> None:
        if (exc := find_error(shape, arguments)) is not None:
            fresh = PydanticErrors(shape.schema).convert(exc, arguments, arguments)
            assert warm.convert(exc, arguments, arguments) == fresh

    refuse_equally()

"""What pydantic found wrong, as problems: what is kept of earlier refusals changes none of later ones."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError
from typing_extensions import TypedDict

from pipeline.parameters.pydantic_errors import PydanticErrors
from pipeline.parameters.signature import read_signature


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


@pytest.mark.parametrize("function", [deliver, collect], ids=lambda each: each.__name__)
def test_what_is_kept_changes_no_refusal(function: Any) -> None:
    """The same arguments get the same refusal, whatever was refused before."""
    shape = read_signature(function, skip_first=False)
    warm = PydanticErrors(shape.schema)

    @given(ARGUMENTS)
    def refuse_equally(arguments: dict[str, Any]) -> None:
        found: list[ValidationError] = []
        try:
            shape.validator.validate_python(arguments)
        except ValidationError as exc:
            found.append(exc)
        for each in found:
            fresh = PydanticErrors(shape.schema).convert(each, arguments, arguments)
            assert warm.convert(each, arguments, arguments) == fresh

    refuse_equally()

"""The bound on how deep text and values are nested is our own, and the same on every version of Python."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolcall_pipeline.base import nesting
from toolcall_pipeline.base.nesting import MOST_LEVELS, TooDeepError, empty_strings, is_deep, is_shallow, refuse_deep
from toolcall_pipeline.cli.run.calls_file import parse_line
from toolcall_pipeline.mcp import jsonrpc
from toolcall_pipeline.messages.values import write_data

HOLES = {"arrays": ("[", "]"), "objects": ('{"a":', "}"), "with a text that ends oddly": ('["\\"]}",', "]")}


def nest(levels: int, opened: str = "[", closed: str = "]", inner: str = "1") -> str:
    return opened * levels + inner + closed * levels


@pytest.mark.parametrize("holes", HOLES)
@pytest.mark.parametrize(("levels", "deep"), [(MOST_LEVELS, False), (MOST_LEVELS + 1, True), (100_000, True)])
def test_text_has_at_most_200_levels(holes: str, levels: int, deep: bool) -> None:
    """It is measured without being read, and brackets in its texts do not count."""
    text = nest(levels, *HOLES[holes])
    if deep:
        with pytest.raises(TooDeepError):
            refuse_deep(text)
    else:
        assert is_deep(json.loads(refuse_deep(text))) is False


def count_levels(text: str) -> int:
    """The levels of brackets outside of strings, character by character."""
    depth = deepest = 0
    is_string = is_escaped = False
    for each in text:
        if is_escaped or each == '"':
            is_string, is_escaped = is_string ^ (not is_escaped), False
        elif is_string:
            is_escaped = each == "\\"
        elif each in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif each in "]}":
            depth -= 1
    return deepest


@given(st.text('[]{}""\\,:1é\ud800', max_size=40), st.integers(0, 6))
def test_levels_are_counted_in_any_text(text: str, most: int) -> None:
    """As character by character, whether the text is JSON or not."""
    assert is_shallow(text, most) == (count_levels(text) <= most)


@given(st.text('[]{}""\\,:1é\ud800', max_size=40))
def test_strings_are_emptied_wherever_they_end(text: str) -> None:
    """All brackets that are left are those outside of strings, also where a string does not end."""
    emptied = empty_strings(text)
    assert count_levels(emptied) == count_levels(text)
    assert empty_strings(emptied) == emptied


@pytest.mark.parametrize(
    "item", ['{"a": "é", "b\\n": [""]}', '{"a": "[\\\\", "b": [{}, "]\\""]}', '{"a": [{}, [1]], "": "x"}']
)
def test_many_values_are_as_deep_as_one(item: str) -> None:
    """Many objects side by side are no deeper than one, with or without escapes."""
    text = f"[{', '.join([item] * 300)}]"
    levels = count_levels(text)
    assert is_shallow(text, levels)
    assert not is_shallow(text, levels - 1)


def test_only_the_value_that_begins_there_is_measured() -> None:
    """What stands before a value in a text, and behind it, is not part of it; a closing bracket is a value's end."""
    assert refuse_deep(closed := "]" + nest(MOST_LEVELS + 1)) == closed
    deep = nest(MOST_LEVELS + 1)
    assert refuse_deep(text := f'{deep} "[1] " {nest(MOST_LEVELS)}{deep}', len(deep) + 1) == text


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(["]", "[{", '"', 1]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("[]"), inner),
)


@example([[1], [[[2]]]])
@example([[[]], {"a": {"b": {}}}, []])
@example([[[1], [2]], [[3]]])
@given(VALUES)
def test_a_text_and_its_value_are_as_deep(value: Any) -> None:
    """Wherever the deepest part stands, also behind others that are closed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nesting, "MOST_LEVELS", 3)
        deep = is_deep(value)
        for before in ("", "] "):
            with pytest.raises(TooDeepError) if deep else nullcontext():
                refuse_deep(before + json.dumps(value), len(before))


@pytest.mark.parametrize("levels", [MOST_LEVELS, MOST_LEVELS + 1, 900, 3_000])
def test_a_value_is_measured_without_recursion(levels: int) -> None:
    """A value of a tool may be of any depth, and may hold itself."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    assert is_deep(value) is (levels > MOST_LEVELS)
    assert is_deep(value[0]) is (levels > MOST_LEVELS + 1)
    assert ("nested too deeply" in write_data(value)) is (levels > MOST_LEVELS)
    value = []
    value.append(value)
    assert is_deep(value)


@pytest.mark.parametrize("levels", [MOST_LEVELS - 5, MOST_LEVELS + 1, 3_000, 30_000])
def test_every_reader_of_foreign_text_has_the_bound(levels: int) -> None:
    """Each one refuses what is deeper as it refuses what is no JSON, and reads what is not."""
    deep, text = levels > MOST_LEVELS, nest(levels)
    with pytest.raises(ValueError, match="nested too deeply") if deep else nullcontext():
        jsonrpc.parse(text.encode())
    with pytest.raises(ValueError, match="nested too deeply") if deep else nullcontext():
        jsonrpc.read(text.encode(), leniently=True)
    line = parse_line(1, f'{{"name": "f", "arguments": {{"a": {text}}}}}'.encode())
    assert (line.call is None) is deep

"""Marks of chat templates at the end of a text: each known one is cut off, and nothing else."""

from __future__ import annotations

import pytest

from toolcall_pipeline.base.model_marks import cut_marks

# The longest and the shortest of each kind.
CONTROL = ("<|e|>", f"<|{'e' * 40}|>", "<\uff5ce\uff5c>", "<\uff5c" + "\u2581" * 40 + "\uff5c>")
TAGS = ("</s>", "<start_of_turn>", "<end_function_call>", "</tool>", "<arg_values>", f"</{'n' * 20}:function_calls>")
MISTRAL = ("[TOOL_CALLS]", "[/TOOL_CALL]", "[ARGS]")
NO_MARKS = (
    "<||>", f"<|{'e' * 41}|>", f"<\uff5c{'e' * 41}\uff5c>", "<s>", "<div>", f"</{'n' * 21}:tool>", "[CALLS]", "<|e|",
)  # fmt: skip


@pytest.mark.parametrize("mark", [*CONTROL, *TAGS, *MISTRAL])
@pytest.mark.parametrize("text", ["", "read", "a < b[1]", "<div>", f"<{'x' * 200}"])
def test_a_mark_at_the_end_is_cut_off(mark: str, text: str) -> None:
    """The blanks around it go too; a text that is nothing else becomes empty, and a mark in front stays."""
    assert cut_marks(f"{text} {mark}\n") == text
    assert cut_marks(f"{mark}{text or '.'}") == f"{mark}{text or '.'}"


@pytest.mark.parametrize("text", NO_MARKS)
def test_what_only_looks_like_a_mark_stays(text: str) -> None:
    """A mark has a name of one to forty characters and both its brackets."""
    assert cut_marks(f"read{text}") == f"read{text}"


def test_ten_marks_in_a_row_are_cut_off() -> None:
    """Each takes a copy of the text, so what stands before ten of them stays."""
    assert cut_marks("read" + "</s>" * 10) == "read"
    assert cut_marks("read" + "</s>" * 12) == "read" + "</s>" * 2

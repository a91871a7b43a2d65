"""Reword: failures of tools get other words, and nothing else of them changes."""

from __future__ import annotations

from typing import Any

import pytest

from toolcall_pipeline import SetupError, Success, ToolFailed, ToolRegistry, render
from toolcall_pipeline.messages import enhance
from toolcall_pipeline.middlewares import Reword, standard
from toolcall_pipeline.testing import no_waiting


class BackendError(Exception):
    """A client's exception, with a status."""

    def __init__(self, status: int) -> None:
        super().__init__("https://internal/secret")
        self.status_code = status


RAISES: dict[str, Exception] = {
    "own": ToolFailed("The query is too long."),
    "later": BackendError(503),
    "setup": BackendError(401),
    "bug": KeyError("x"),
}


@pytest.fixture
def tools() -> ToolRegistry:
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def search(what: str) -> str:
        if what in RAISES:
            raise RAISES[what]
        return what

    return tools


@pytest.mark.parametrize(
    ("what", "kind", "text"),
    [
        ("own", "execution", "Error: search: The query is too long."),
        ("later", "transient", "Error: search: The service is temporarily unavailable."),
        ("bug", "internal", "An unexpected error occurred while executing this tool"),
        ("lamp", None, "lamp"),
    ],
)
async def test_the_words_change_and_the_kind_stays(what: str, kind: str | None, text: str, tools: ToolRegistry) -> None:
    """The function gets the text and the tool's name; a success, a crash and a refused call are left alone."""
    pipeline = standard(tools).before("retry", Reword(lambda text, tool: f"{tool}: {text}"))
    with no_waiting():
        outcome = await pipeline.call("search", {"what": what})
    assert render(outcome) == text
    assert kind == (None if isinstance(outcome, Success) else outcome.failure().kind)
    refused = await pipeline.call("search", {})
    assert render(refused) == render(await standard(tools).call("search", {}))


@pytest.mark.parametrize("answer", [None, "", 5])
async def test_no_new_text_leaves_the_old_one(answer: Any, tools: ToolRegistry) -> None:
    """None, an empty text and a value that is no text, and a function that raises."""
    pipeline = standard(tools).before("retry", Reword(lambda _text, _tool: answer))
    assert render(await pipeline.call("search", {"what": "own"})) == "Error: The query is too long."
    failing = standard(tools).before("retry", Reword(lambda _text, _tool: 1 // 0))  # type: ignore[arg-type,return-value]  # pyright: ignore[reportArgumentType]
    assert render(await failing.call("search", {"what": "own"})) == "Error: The query is too long."


async def test_enhance_is_such_a_function(tools: ToolRegistry) -> None:
    """What only time mends is said so, and no model is asked for other parameters then."""
    pipeline = standard(tools).before("retry", Reword(enhance))
    with no_waiting():
        assert render(await pipeline.call("search", {"what": "own"})) == (
            "Error: Please provide the correct parameters for search. The query is too long."
        )
        later = render(await pipeline.call("search", {"what": "later"}))
        assert later == "Error: search cannot answer now. Try again later."
        assert "Question: The service behind search" in render(await pipeline.call("search", {"what": "setup"}))


@pytest.mark.parametrize("text", ["HTTP 429: too many requests", "Rate limit exceeded", "The request timed out", "503"])
def test_enhance_asks_for_no_parameters_where_time_helps(text: str) -> None:
    """A limit, a time-out, a busy server: later is the advice."""
    assert enhance(text, "search") == "search cannot answer now. Try again later."


@pytest.mark.parametrize("function", [None, 5, "a"])
def test_a_wrong_function_is_refused(function: Any) -> None:
    """At set-up."""
    with pytest.raises(SetupError, match="Reword: `function`"):
        Reword(function)

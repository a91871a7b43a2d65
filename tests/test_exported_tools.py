"""export_tools of `toolcall_pipeline.hosts`: a registry as plain callables, for any framework."""

from __future__ import annotations

import pytest

from toolcall_pipeline import ToolContext, ToolFailed, ToolRegistry
from toolcall_pipeline.hosts import ExportedTool, FailedCallError, export_tools
from toolcall_pipeline.messages import Image
from toolcall_pipeline.middlewares import standard

pytestmark = pytest.mark.anyio


def export(*, raises: bool = False) -> dict[str, ExportedTool]:
    tools = ToolRegistry()

    @tools.tool(effect="read")
    def scale(size: int, by: int = 2) -> int:
        """Scale.

        Args:
            size: The size.
            by: The factor.
        """
        return size * by

    @tools.tool
    def fail(size: int) -> None:
        """Fail."""
        if size:
            raise ToolFailed("Ask for fewer.")
        raise ValueError("password=hunter2")

    @tools.tool
    def draw() -> list[object]:
        """Draw."""
        return ["see", Image("image/png", b"\x89PNG\r\n\x1a\n")]

    @tools.tool(context=True)
    def who(context: ToolContext[object]) -> str:
        """Say who asks."""
        return f"{context.principal} {context.call_id}"

    return {each.name: each for each in export_tools(tools, standard(tools), raises=raises)}


async def test_a_tool_is_called_by_position_and_by_name_in_a_loop_and_without() -> None:
    """The arguments are bound as those of a function, and repaired as those of a call."""
    scale = export()["scale"]
    assert [await scale.acall(3), await scale.acall("3", 4), await scale.acall(size=3, by=5)] == ["6", "12", "15"]
    assert [scale(3), scale("3", by=4), scale(size=3)] == ["6", "12", "6"]


@pytest.mark.parametrize(("args", "named"), [((1, 2, 3), {}), ((1,), {"size": 2})])
async def test_arguments_that_no_function_takes_are_a_failure(args: tuple[int, ...], named: dict[str, int]) -> None:
    """They are the mistake of the model, so nothing is raised at the framework."""
    text = await export()["scale"].acall(*args, **named)
    assert "by position" in text
    assert export()["scale"](*args, **named) == text


async def test_a_failure_is_a_flag_a_text_or_an_exception() -> None:
    """No form of it says what nobody approved."""
    tools = export()
    answers = [await tools["fail"].run({"size": 1}), await tools["fail"].run({"size": 0}), tools["scale"].run_sync({})]
    assert [answer.is_error for answer in answers] == [True, True, True]
    assert "Ask for fewer." in answers[0].text
    assert "hunter2" not in answers[1].text
    assert "Missing required parameter: size" in answers[2].text
    assert answers[0].as_mcp() == {"content": [{"type": "text", "text": answers[0].text}], "is_error": True}
    with pytest.raises(FailedCallError, match="Ask for fewer"):
        await export(raises=True)["fail"].acall(1)
    with pytest.raises(FailedCallError, match="Missing required parameter"):
        export(raises=True)["scale"]()


async def test_parts_and_the_caller_pass() -> None:
    """An image is a part, and who asks reaches the tool."""
    tools = export()
    drawn = await tools["draw"].run(None)
    assert [type(part) for part in drawn.parts] == [str, Image]
    assert [block["type"] for block in drawn.as_mcp()["content"]] == ["text", "image"]
    for caller, told in (({"id": "1", "principal": "ann"}, "ann 1"), ({}, " ")):
        for answer in (await tools["who"].run({}, **caller), tools["who"].run_sync({}, **caller)):
            assert answer.text == told


def test_a_tool_is_described_in_the_forms_that_frameworks_take() -> None:
    """A JSON Schema, a class of pydantic with that schema, and an entry for each parameter."""
    scale = export()["scale"]
    assert (scale.name, scale.__name__, scale.description) == ("scale", "scale", "Scale.")
    assert scale.parameters["required"] == ["size"]
    assert scale.model.model_json_schema() == scale.parameters
    assert scale.model.model_validate({"size": "x"}).model_dump() == {"size": "x"}
    assert scale.inputs == {
        "size": {"type": "integer", "description": "The size.", "nullable": False},
        "by": {"type": "integer", "description": "The factor.", "nullable": True},
    }

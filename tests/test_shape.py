"""Shape: results are bounded, stay JSON where they were, and say what is left out and how to get it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreign_values import DataFrame
from support import a_call, a_tool
from toolcall_pipeline import (
    Call,
    Crashed,
    Denied,
    ExecutionFailed,
    Failure,
    FailureDetails,
    InvalidParams,
    NeedsUserInput,
    Outcome,
    Problem,
    SetupError,
    Success,
    Tool,
    ToolRegistry,
    Unavailable,
    approved,
    render,
)
from toolcall_pipeline.base.nesting import MOST_LEVELS
from toolcall_pipeline.messages import Image, Link
from toolcall_pipeline.messages.shaping import estimate_tokens, shape_value
from toolcall_pipeline.messages.shortening import shorten_result
from toolcall_pipeline.middlewares import LoopGuard, Shape, standard
from toolcall_pipeline.middlewares.cache import Cache
from toolcall_pipeline.testing import script

IMAGE = Image("image/png", b"abc")


async def shaped(value: object, shape: Shape | None = None, **fields: Any) -> Any:
    """What becomes of a result."""
    call = a_call(a_tool(**fields))
    outcome = await (shape or Shape(200))(call, script(Success(value)))
    assert type(outcome) is Success
    return outcome.unwrap()


@dataclass
class Page:
    rows: list[int]


FITTING: list[Any] = ["text", 0, False, [1, 2], {"a": None}, Page([1]), IMAGE, [IMAGE, "x" * 190], b"abc", "[" * 200]


@pytest.mark.parametrize("value", FITTING, ids=range(len(FITTING)))
async def test_what_fits_stays_as_it_is(value: object) -> None:
    """A result that is short enough is handed on, the same object."""
    assert await shaped(value) is value


@pytest.mark.parametrize(("value", "asked"), [("x" * 200, 0), ("x" * 201, 1), (["x" * 196], 0), (["x" * 197], 1)])
def test_the_way_is_asked_for_only_where_something_is_left_out(value: Any, asked: int) -> None:
    """A result of as many characters as are allowed is handed on, and nobody looks up how to get more of it."""
    ways: list[str] = []

    def tell() -> str:
        ways.append("Ask again.")
        return ways[-1]

    shaped = shape_value(value, 200, None, tell, empty=None, neutralise=False).value
    assert len(ways) == asked
    assert (shaped is value) == (not asked)


@pytest.mark.parametrize("value", ["x" * 5000, ["x" * 50] * 100, {str(key): "x" * 50 for key in range(100)}])
def test_a_way_that_takes_half_of_the_room_is_not_told(value: Any) -> None:
    """It would leave too little for the result; without a way only what is left out is told."""
    untold = shorten_result(value, 200)
    assert render(Success(untold)).count("left out") >= 1
    assert render(Success(shorten_result(value, 200, "w" * 99))).count("w" * 99) == 1
    assert [shorten_result(value, 200, way) for way in ("", "w" * 100, "w" * 300)] == [untold] * 3
    assert "left out)" in render(Success(untold))


async def test_text_keeps_head_and_tail() -> None:
    """The middle of a long text is left out, and how much it is stands in its place."""
    text = await shaped("head " + "x" * 5000 + " tail")
    assert len(text) <= 200
    assert text.startswith("head xx")
    assert text.endswith("xx tail")
    left_out = int(text.partition("… (")[2].partition(" of")[0].replace(",", ""))
    assert len(text.replace(text[text.index("\n…") : text.index("…\n") + 2], "")) + left_out == 5010
    assert "of 5,010 characters left out)" in text


LONG: dict[str, tuple[object, Callable[[Any], bool]]] = {
    "list": (list(range(1000)), lambda cut: cut[:3] == [0, 1, 2] and f"({1001 - len(cut)} of 1,000 items" in cut[-1]),
    "list of objects": (
        [{"id": n, "name": "lamp"} for n in range(100)],
        lambda cut: cut[0] == {"id": 0, "name": "lamp"},
    ),
    "tuple": (tuple(range(1000)), lambda cut: cut[0] == 0 and "items left out" in cut[-1]),
    "object with a long list": (
        {"total": 1000, "items": list(range(1000)), "next": "p2"},
        lambda cut: list(cut) == ["total", "items", "next"] and "items left out" in cut["items"][-1],
    ),
    "object with a long text": (
        {"id": 7, "body": "a" * 5000},
        lambda cut: cut["id"] == 7 and "characters left out" in cut["body"],
    ),
    "object of many keys": (
        {f"key_{n}": n for n in range(1000)},
        lambda cut: cut["key_0"] == 0 and "of 1,000 keys left out" in cut["…"],
    ),
    "one long item": (["a" * 5000, "b"], lambda cut: "characters left out" in cut[0] and cut[-1] == "b"),
    "long lists in a list": ([list(range(500))] * 3, lambda cut: "items left out" in cut[0][-1]),
    "dataclass": (Page(list(range(1000))), lambda cut: "items left out" in cut["rows"][-1]),
    "data frame": (
        DataFrame([{"a": n} for n in range(1000)]),
        lambda cut: cut[0] == {"a": 0} and "of 1,000 items" in cut[-1],
    ),
    "escapes": ({"a": "\n" * 5000}, lambda cut: "characters left out" in cut["a"]),
    "JSON as text": (json.dumps(list(range(1000))), lambda cut: cut[0] == 0 and "of 1,000 items left out" in cut[-1]),
    "JSON as text with numbers as written": (
        "[3.10, 1e400" + ", 7" * 500 + "]",
        lambda cut: "items left out" in cut[-1],
    ),
}


@pytest.mark.parametrize(("value", "holds"), [pytest.param(*row, id=name) for name, row in LONG.items()])
async def test_json_stays_json(value: object, holds: Any) -> None:
    """A long list keeps its first items and an object its keys; what comes out is JSON within the limit."""
    text = render(Success(await shaped(value)))
    assert len(text) <= 200
    assert holds(json.loads(text))


async def test_numbers_in_text_stay_as_they_were_written() -> None:
    """In JSON that a tool returned as text, no number is written in another way."""
    assert (await shaped("[3.10, 1e400" + ", 7" * 500 + "]")).startswith("[3.10, 1e400, 7")


VALUES: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=40) | st.dictionaries(st.text(max_size=20), inner, max_size=20),
    max_leaves=60,
)


@given(VALUES, st.integers(200, 1000), st.sampled_from(["", "To read on, use `offset`."]))
def test_every_value_fits(value: Any, room: int, way: str) -> None:
    """Whatever a value is, its text is within the limit, and JSON stays JSON of the same type."""
    cut = shorten_result(value, room, way)
    text = render(Success(cut))
    assert len(text) <= max(room, len("(no output)"))
    assert type(cut) is type(value)
    if isinstance(value, (list, dict)):
        json.loads(text)


PAGED: Mapping[str, str] = {
    "offset limit": "To read on, use `offset` and `limit`.",
    "path start_line end_line": "To read on, use `start_line` and `end_line`.",
    "cursor": "To read on, use `cursor`.",
    "query max_results": "Ask for less with `max_results`.",
    "query": "",
}


@pytest.mark.parametrize(("names", "way"), PAGED.items())
async def test_how_to_get_the_rest(names: str, way: str) -> None:
    """The note names the tool's own parameters for paging; a hint of the author goes before them."""
    tools = ToolRegistry()

    def handler(**_: object) -> str:
        return "x" * 5000

    schema: dict[str, Any] = {"type": "object", "properties": {name: {} for name in names.split()}}
    tools.register(Tool.from_schema(name="t", parameters=schema, handler=handler, effect="read"))
    text = render(await standard(tools).before("retry", Shape(500)).call("t"))
    assert way in text
    assert ("`" in text) == bool(way)
    hinted = standard(tools).before("retry", Shape(500, hints={"t": "Use search_t instead."}))
    assert "left out. Use search_t instead.)" in render(await hinted.call("t"))


EMPTY: list[Any] = [
    (None, "(no output)"),
    ("", "(no output)"),
    (" \n", "(no output)"),
    ([], "(no results)"),
    ({}, "(no results)"),
    ((), "(no results)"),
    ("[]", "(no results)"),
]


@pytest.mark.parametrize(("value", "word"), EMPTY, ids=range(len(EMPTY)))
async def test_an_empty_result_is_a_word(value: object, word: str) -> None:
    """A model reads a word where a tool returned nothing, of the caller's own choice if there is one."""
    assert await shaped(value) == word
    assert await shaped(value, Shape(empty="Nothing was found.")) == "Nothing was found."


async def test_parts_are_kept() -> None:
    """The texts among the parts share the room; what is not text stays."""
    first, image, link, last = await shaped(["short", IMAGE, Link("https://a.b"), "x" * 5000])
    assert (first, image, link) == ("short", IMAGE, Link("https://a.b"))
    assert len(last) <= 195
    content = {"content": [{"type": "text", "text": "x" * 5000}], "isError": True}
    (text,) = await shaped(content)
    assert text.startswith("Error: xxx")


TEXTS = ["x" * 5000, "日本語" * 1000, '["' + "é" * 3000 + '"]', "日" * 500 + "x" * 5000]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
async def test_tokens(text: str) -> None:
    """A limit in tokens is met by the estimate, for any script; the smaller of two limits counts."""
    assert estimate_tokens("abcdé") == 2
    assert estimate_tokens(await shaped(text, Shape(max_tokens=100))) <= 100
    assert len(await shaped(text, Shape(300, max_tokens=5000))) <= 300
    assert await shaped(text, Shape(None)) is text


async def test_limits_of_single_tools() -> None:
    """A tool has the limit that is set for its name."""
    shape = Shape(200, tools={"long": 1000, "any": None})
    assert 200 < len(await shaped("x" * 5000, shape, name="long")) <= 1000
    assert len(await shaped("x" * 5000, shape, name="any")) == 5000
    assert len(await shaped("x" * 5000, shape)) <= 200


LONG_TEXT = approved("a" * 5000 + "z")
ERRORS: list[Any] = [
    ExecutionFailed(LONG_TEXT, FailureDetails("p", LONG_TEXT)),
    Denied("me", LONG_TEXT),
    NeedsUserInput(LONG_TEXT),
    InvalidParams((Problem("a", "validator", LONG_TEXT), Problem("b", "required", approved("a text")))),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.kind)
async def test_texts_of_errors_are_bounded(error: Any) -> None:
    """Each text of a failure keeps head and tail within the limit, and the failure its kind and facts."""
    outcome = await Shape(200)(a_call(), script(Failure(error)))
    assert type(outcome) is Failure
    bounded = outcome.failure()
    assert type(bounded) is type(error)
    assert len(render(bounded)) < 600
    assert "zz" not in render(bounded)
    assert "characters left out" in render(bounded)


@pytest.mark.parametrize("error", [ExecutionFailed(approved("no")), Crashed(ValueError("x")), Unavailable("t", "busy")])
async def test_short_errors_stay_as_they_are(error: Any) -> None:
    """A failure with nothing to bound is handed on, the same object."""
    failure = Failure(error)
    assert await Shape(200, neutralise=True)(a_call(), script(failure)) is failure


HIDDEN = "a\u202eb\x1b[31mc\U000e0041\n\td"
SHOWN = "a\\u202eb\\x1b[31mc\\U000e0041\n\td"


async def test_unseen_characters() -> None:
    """They are escaped where the caller asks for it, in text, data, keys, parts and errors; else they are left."""
    shape = Shape(neutralise=True)
    assert await shaped(HIDDEN) == HIDDEN
    assert await shaped(HIDDEN, shape) == SHOWN
    assert await shaped({"a\u202e": [HIDDEN, 1]}, shape) == {"a\\u202e": [SHOWN, 1]}
    assert await shaped([IMAGE, HIDDEN, Link("x", "\u202e")], shape) == [IMAGE, SHOWN, Link("x", "\\u202e")]
    outcome = await shape(a_call(), script(Failure(ExecutionFailed(approved(HIDDEN)))))
    assert render(outcome) == f"Error: {SHOWN}"
    value = {"a": ["plain\n\t", 1]}
    assert await shaped(value, shape) is value


WRONG: list[Any] = [
    ({"max_characters": 10}, "max_characters"),
    ({"max_characters": True}, "max_characters"),
    ({"max_tokens": 1.5}, "max_tokens"),
    ({"tools": {"t": 3}}, "tools['t']"),
    ({"tools": ["t"]}, "tools"),
    ({"hints": {"t": 1}}, "hints"),
    ({"hints": "t"}, "hints"),
]


@pytest.mark.parametrize(("options", "named"), WRONG, ids=range(len(WRONG)))
def test_wrong_options(options: dict[str, Any], named: str) -> None:
    """A wrong option is refused by name."""
    with pytest.raises(SetupError, match="Shape: `") as caught:
        Shape(**options)
    assert f"`{named}" in str(caught.value)


async def test_it_stands_anywhere_inside_of_the_checks() -> None:
    """It takes its place among the other stages, notes what it did in the report, and a cache keeps the whole."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def numbers(offset: int = 0) -> list[int]:
        return list(range(offset, 1000))

    run = standard(tools).before("retry", Shape(200)).before("retry", Cache(60)).before("shape", LoopGuard())
    assert run.stages[4:7] == ("loop_guard", "shape", "cache")
    report = await run.report(Call("numbers"))
    (row,) = (stage for stage in report.stages if stage.name == "shape")
    assert row.note.startswith("shaped: 4,")
    outcome: Outcome[Any] = await run.without("shape").call("numbers")
    assert outcome == Success(list(range(1000)))
    assert "shape" in standard(tools).after("retry", Shape()).stages


@pytest.mark.parametrize("level", ['{{"a":{}}}', '{{"b":"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy","a":{}}}', "[{}]"])
def test_a_deep_result_does_not_hold_the_loop(level: str) -> None:
    """Each level measures all that is in it, so what is very deep is shortened as text. JSON stays JSON."""
    deep = json.dumps("x" * 90_000)
    for _ in range(MOST_LEVELS - 100):  # deeper is shortened as text from the start
        deep = level.format(deep)
    best, shorter = 9.0, ""
    for _ in range(3):
        began = time.thread_time()
        shorter = shorten_result(deep, 2_000)
        best = min(best, time.thread_time() - began)
    assert json.loads(shorter)
    assert len(shorter) <= 2_000
    assert best < 0.3


@pytest.mark.parametrize("images", [0, 2])
def test_many_short_texts_are_bounded(images: int) -> None:
    """Of thousands of texts the first ones are kept, one note counts the others, and images stay."""
    image = Image("image/gif", b"GIF89a")
    value: Any = [*(f"block {n}" for n in range(5_000)), *[image] * images, "last"]
    if not images:
        value = {"content": [{"type": "text", "text": each} for each in value]}
    shaped = shape_value(value, 2_000, None, str, empty=None, neutralise=False)
    assert shaped.after <= 2_100
    parts = shaped.value if images else shaped.value.split("\n")
    *texts, note = [each for each in parts if isinstance(each, str)]
    assert texts == [f"block {n}" for n in range(len(texts))]
    assert note == f"… ({5_001 - len(texts):,} of 5,001 texts left out)"
    assert [each for each in parts if not isinstance(each, str)] == [image] * images

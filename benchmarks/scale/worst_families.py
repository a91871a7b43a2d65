"""The tools and the calls of `benchmarks.scale.worst`: families of input that is slow to judge somewhere."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from copy import deepcopy
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, TypeAlias, Union

from typing_extensions import TypedDict

from toolcall_pipeline import Tool, tool


class Add(TypedDict):
    """One of three forms without a discriminating field."""

    left: Expr
    right: Expr


class Mul(TypedDict):
    """Another one."""

    left: Expr
    right: Expr
    by: int


class Neg(TypedDict):
    """A third one, with a tag that pydantic does not go by."""

    op: Literal["neg"]
    left: Expr


class Both(TypedDict):
    """A form whose items are unions themselves."""

    op: Literal["all", "any"]
    args: list[Expr]


Expr: TypeAlias = Union[Add, Mul, Neg, Both, int]  # noqa: UP007  # names that are not defined yet


class Colour(Enum):
    """Values to choose from."""

    RED = "dark-red"
    BLUE = "light-blue"


@tool(effect="read")
async def evaluate(expr: Expr) -> str:
    """A recursive union."""
    return "ok"


@tool(effect="read")
async def count_words(counts: dict[str, int], lines: list[int] | None = None) -> str:
    """Free names."""
    return "ok"


@tool(effect="read")
async def pick(
    colours: list[Colour],
    values: list[int | float | bool | None] | None = None,
    rows: list[dict[str, list[int] | dict[str, int]]] | None = None,
) -> str:
    """Unions and enums."""
    return "ok"


@tool(effect="read")
async def write(path: str, content: str, day: date | None = None, price: Decimal | None = None) -> str:
    """Long texts."""
    return "ok"


@tool(effect="read")
async def anything(value: object = None, **rest: object) -> str:
    """Whatever is sent."""
    return "ok"


@tool(effect="read", undeclared="drop")
async def drop(name: str) -> str:
    """Undeclared arguments are left out."""
    return "ok"


async def _handle(**_: object) -> str:
    return "ok"


def _schema(name: str, schema: dict[str, Any], **options: Any) -> Tool[..., Any]:
    return Tool.from_schema(name=name, parameters=schema, handler=_handle, effect="read", **options)


_MANY = {f"parameter_{i}": {"type": "string"} for i in range(20)}
_TREE = {
    "anyOf": [
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/t"}, "op": {"const": op}}, "required": ["op", "a"]}
        for op in ("x", "y", "z")
    ]
    + [{"type": "integer"}]
}
TOOLS: tuple[Tool[..., Any], ...] = (
    evaluate,
    count_words,
    pick,
    write,
    anything,
    drop,
    _schema("many", {"type": "object", "properties": _MANY, "required": [*_MANY], "additionalProperties": False}),
    _schema("many_open", {"type": "object", "properties": _MANY, "required": [*_MANY]}),
    _schema("tree", {"type": "object", "properties": {"t": {"$ref": "#/$defs/t"}}, "$defs": {"t": _TREE}}),
    _schema("numbers", {"type": "object", "properties": {"n": {"type": "array", "items": {"type": "integer"}}}}),
    _schema("map", {"type": "object", "additionalProperties": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}),
    _schema(
        "unique",
        {"type": "object", "properties": {"n": {"type": "array", "uniqueItems": True, "items": {"type": "object"}}}},
    ),
    _schema(
        "pattern",
        {
            "type": "object",
            "properties": {
                "p": {"type": "string", "pattern": r"^(?=a)(a+)+\1?$"},
                "q": {"type": "array", "items": {"type": "string", "pattern": r"^((a*)*)\1(?!b)$"}},
            },
        },
    ),
    _schema(
        "nested", {"type": "object", "properties": {"a": {"type": "object", "properties": _MANY, "required": [*_MANY]}}}
    ),
    _schema(
        "ring", {"type": "object", "properties": {"next": {"$ref": "#"}, "n": {"type": "integer"}}, "required": ["n"]}
    ),
    _schema("choose", {"type": "object", "properties": {"c": {"enum": [f"value-{i}" for i in range(500)]}}}),
)


def _chain(depth: int, leaf: object, key: str = "left", **beside: object) -> object:
    value = leaf
    for _ in range(depth):
        value = {key: value, **beside}
    return value


def _full(depth: int, leaf: object) -> object:
    return leaf if not depth else {"left": _full(depth - 1, leaf), "right": _full(depth - 1, leaf)}


def _lists(depth: int, leaf: object) -> object:
    value = leaf
    for _ in range(depth):
        value = [value]
    return value


def _text(value: object, times: int = 1) -> object:
    for _ in range(times):
        value = json.dumps(value)
    return value


_Family: TypeAlias = tuple[str, str, Callable[[], object]]
FAMILIES: list[_Family] = [
    *(
        (
            f"expression of {depth} levels, leaf {leaf!r}",
            "evaluate",
            lambda d=depth, x=leaf: {"expr": _chain(d, x, right=1)},
        )
        for depth in (3, 5, 6, 8, 10, 12, 13, 14, 20, 60, 100)
        for leaf in (1, "x")
    ),
    *(
        (f"full tree of {depth} levels, leaf {leaf!r}", "evaluate", lambda d=depth, x=leaf: {"expr": _full(d, x)})
        for depth in (2, 3, 4, 5, 6, 8, 10)
        for leaf in (1, "x")
    ),
    *(
        (
            f"wide expression of {n}, leaf {leaf!r}",
            "evaluate",
            lambda n=n, x=leaf: {"expr": {"op": "all", "args": [{"left": x, "right": 1}] * n}},
        )
        for n in (10, 100, 1000, 4000)
        for leaf in (1, "x")
    ),
    *(
        (f"raw tree of {depth} levels, leaf {leaf!r}", "tree", lambda d=depth, x=leaf: {"t": _chain(d, x, "a", op="z")})
        for depth in (3, 5, 8, 10, 12, 20, 60)
        for leaf in (1, "x")
    ),
    *((f"{n} strange names", "many", lambda n=n: {f"strange_{i}": i for i in range(n)}) for n in (50, 1_000, 9_000)),
    *(
        (f"{n} strange names, open", "many_open", lambda n=n: {f"parameter{i}": i for i in range(n)})
        for n in (50, 1_000, 9_000)
    ),
    *(
        (f"{n} strange names inside", "nested", lambda n=n: {"a": {f"Parameter-{i}": i for i in range(n)}})
        for n in (50, 1_000, 9_000)
    ),
    *((f"{n} near names", "many", lambda n=n: {f"parameter_{'_' * i}1": i for i in range(n)}) for n in (20, 40, 200)),
    *((f"{n} dropped names", "drop", lambda n=n: {f"strange_{i}": i for i in range(n)}) for n in (1_000, 9_000)),
    *((f"{n} undeclared", "anything", lambda n=n: {f"s{i}": i for i in range(n)}) for n in (1_000, 9_000, 50_000)),
    *(
        (f"{n} wrong values of a map", name, lambda n=n, k=key: {k: {f"k{i}": "x" for i in range(n)}})
        for n in (100, 499, 900, 8_000, 50_000)
        for name, key in (("count_words", "counts"), ("map", "a"))
    ),
    *(
        (f"{n} wrong values at the top", "map", lambda n=n: {f"k{i}": "x" for i in range(n)})
        for n in (400, 990, 8_000, 50_000)
    ),
    *((f"{n} wrong items", "numbers", lambda n=n: {"n": ["x"] * n}) for n in (499, 998, 9_000, 50_000)),
    *((f"{n} numbers as text", "numbers", lambda n=n: {"n": ["5"] * n}) for n in (499, 998, 9_000)),
    *(
        (f"{n} numbers as text", "count_words", lambda n=n: {"counts": {}, "lines": ["5"] * n})
        for n in (499, 998, 9_000)
    ),
    *(
        (f"{n} wrong items of a union", "pick", lambda n=n: {"colours": [], "values": ["x"] * n})
        for n in (120, 240, 9_000)
    ),
    *((f"{n} wrong rows", "pick", lambda n=n: {"colours": [], "rows": [{"a": ["x"]}] * n}) for n in (100, 300, 3_000)),
    *((f"{n} spelt otherwise", "pick", lambda n=n: {"colours": ["Dark Red"] * n}) for n in (400, 990, 9_000)),
    ("many names in one text", "pick", lambda: {"colours": "dark red," * 100_000}),
    ("long choice", "choose", lambda: {"c": "Value 4" * 50_000}),
    ("long name", "x" * 10_000, dict),
    ("long name with noise", "<|" * 5_000, dict),
    ("long name in Unicode", "ÄöẞŁ_" * 2_000, dict),
    ("long name with prefixes", "a__b.c/" * 1_500, dict),
    ("name with a surrogate", "\ud800" * 1_000, dict),
    ("long text", "write", lambda: {"path": "a", "content": "x" * 900_000}),
    ("long text in place of a date", "write", lambda: {"path": "a", "content": "", "day": "2" * 900_000}),
    ("long number in place of a decimal", "write", lambda: {"path": "a", "content": "", "price": "9" * 900_000}),
    ("too long", "write", lambda: {"path": "a", "content": "x" * 5_000_000}),
    ("too long text", "write", lambda: _text({"path": "a", "content": "x" * 5_000_000})),
    ("escapes", "write", lambda: '{"path": "a", "content": "' + "\\u00e9" * 150_000 + '"}'),
    ("surrogates", "write", lambda: '{"path": "a", "content": "' + "\\ud800" * 100_000 + '"}'),
    ("surrogates in a mapping", "write", lambda: {"path": "\ud800" * 100_000, "content": "x"}),
    ("huge number", "numbers", lambda: '{"n": [' + "9" * 900_000 + "]}"),
    ("huge float", "numbers", lambda: '{"n": [1' + "0" * 400_000 + "." + "0" * 400_000 + "]}"),
    ("many huge numbers", "numbers", lambda: '{"n": [' + ",".join(["9" * 4_000] * 200) + "]}"),
    ("huge number in Python", "write", lambda: {"path": 10**100_000, "content": "x"}),
    ("number as long text", "count_words", lambda: {"counts": {"a": "9" * 500_000}}),
    ("cut off", "write", lambda: '{"path": "a", "content": "' + "x" * 900_000),
    ("cut off, many brackets", "numbers", lambda: '{"n": ' + "[" * 900_000),
    ("brackets in text", "write", lambda: _text({"path": "[" * 400_000, "content": "{" * 400_000})),
    ("lists of 150 levels as text", "anything", lambda: _text({"value": _lists(150, 1)})),
    ("lists of 60 levels", "anything", lambda: {"value": _lists(60, 1)}),
    ("lists of 100,000 levels", "anything", lambda: {"value": _lists(100_000, 1)}),
    ("empty lists", "anything", lambda: '{"value": [' + "[]," * 300_000 + "1]}"),
    ("JSON text in JSON text", "numbers", lambda: {"n": json.dumps([1] * 9_000)}),
    ("much JSON text in JSON text", "numbers", lambda: {"n": "[" + "1," * 450_000 + "1]"}),
    ("much deep JSON text in JSON text", "numbers", lambda: {"n": "[" + "[]," * 300_000 + "1]"}),
    ("brackets in JSON text", "numbers", lambda: {"n": "[" * 900_000}),
    ("Python text in JSON text", "numbers", lambda: {"n": "[" + "'a'," * 2_400 + "]"}),
    ("Python text of many signs", "numbers", lambda: {"n": "[" + "-" * 9_900 + "1]"}),
    ("Python text of many brackets", "numbers", lambda: {"n": "[" + "(" * 90 + ")" * 90 + "]"}),
    ("JSON text eight times", "numbers", lambda: _text({"n": [1]}, 8)),
    ("the whole as text in text", "numbers", lambda: _text({"n": ["x"] * 2_000}, 2)),
    ("wrappers", "many", lambda: _chain(60, 1, "arguments")),
    (
        "wrappers as text",
        "many",
        lambda: {"arguments": _text({"arguments": _text({f"p{i}": i for i in range(9_000)})})},
    ),
    ("object as a key", "many", lambda: {"{" + "'a': 1," * 1_400 + "}": ""}),
    ("long strange key", "many", lambda: {"a.[" * 300_000: 1}),
    ("long key of marks", "count_words", lambda: {"counts": {"a." * 4_900: "x"}}),
    ("many keys of marks", "count_words", lambda: {"counts": {f"{i}" + ".a[" * 100: "x" for i in range(499)}}),
    ("many equal objects", "unique", lambda: {"n": [{"a": i} for i in range(4_900)] + [{"a": 1}]}),
    ("backtracking", "pattern", lambda: {"p": "a" * 900_000 + "!"}),
    ("many that backtrack", "pattern", lambda: {"q": ["a" * 30 + "!"] * 900}),
    ("very many that backtrack", "pattern", lambda: {"q": ["a" * 30 + "!"] * 9_000}),
    *((f"ring of {d}", "ring", lambda d=d: _chain(d, "x", "next")) for d in (10, 60)),
]


def fuzz(dice: random.Random) -> tuple[str, str, object]:
    """Make a random call: a tool, and arguments of random shape, size and depth, mostly wrong."""
    chosen = dice.choice(TOOLS)
    names = [*sorted(chosen.parameters.names), "left", "right", "op", "args", "arguments", "a", "t", "x" * 50, "é_"]

    def chance(share: float) -> bool:
        return dice.random() < share

    budget = [int(2 ** dice.uniform(2, 13))]
    depth = dice.choice((2, 4, 8, 16, 40, 70))

    def leaf() -> object:
        size = int(2 ** dice.uniform(0, 9))
        return dice.choice(
            (0, 1.5, True, None, "x", "5", "[1, 2]", '{"a": "1"}', "all", "neg", "dark red", "\ud800", 10**30,
             "ab-" * size, "[" * size, "é" * size, "1" * size, ", ".join(["red"] * size), _text([[size]], 3))
        )  # fmt: skip

    def make(level: int) -> object:
        budget[0] -= 1
        if budget[0] <= 0 or level <= 0 or chance(0.2):
            return leaf()
        width = dice.choice((1, 1, 2, 3, 10, int(2 ** dice.uniform(0, 11))))
        if chance(0.5):
            before, first = budget[0], make(level - 1)
            same = chance(0.5)  # copies of the first: arguments come as JSON, which shares no parts
            held = before - budget[0] if same else 1
            items = min(width, 1 + max(0, budget[0]) // held)
            budget[0] -= (items - 1) * held * same
            return [first, *(deepcopy(first) if same else make(level - 1) for _ in range(items - 1))]
        keys = [dice.choice(names) if chance(0.7) else f"{dice.choice(names)}{i}" for i in range(width)]
        return {key: make(level - 1) for key in keys[: max(1, budget[0])]}

    arguments: object = {name: make(depth) for name in chosen.parameters.names if chance(0.9)}
    if chance(0.2):
        arguments = make(depth)
    if chance(0.4):
        arguments = json.dumps(arguments)
        if chance(0.2):
            arguments = json.dumps(arguments)
        elif chance(0.2):
            arguments = arguments[: dice.randrange(1, 500)]
    return f"random, {depth} levels", chosen.name, arguments

"""Further tools and calls of `benchmarks.scale.worst`: schemas of a hostile server, and declared secrets."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

from toolcall_pipeline import Secret, Tool, tool

_Family: TypeAlias = tuple[str, str, Callable[[], object]]
_SECRET = "hunter2-hunter2"  # noqa: S105  # a value to be masked


@tool(effect="read")
async def keep_secret(
    token: Annotated[str, Secret], note: object = None, more: Annotated[dict[str, object] | None, Secret] = None
) -> str:
    """A secret beside anything."""
    return "ok"


async def _handle(**_: object) -> str:
    return "ok"


def _schema(name: str, properties: dict[str, Any], **beside: Any) -> Tool[..., Any]:
    schema = {"type": "object", "properties": properties, **beside}
    return Tool.from_schema(name=name, parameters=schema, handler=_handle, effect="read")


def _many(forms: dict[str, Any]) -> dict[str, Any]:
    return {"c": {"type": "array", "items": forms}, "m": {"type": "object", "additionalProperties": forms}}


def _tagged(number: int) -> dict[str, Any]:
    fields = {"kind": {"const": f"k{number}"}, "x": {"type": "integer"}}
    return {"type": "object", "properties": fields, "required": ["kind", "x"], "additionalProperties": False}


_PAIR = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a", "b"]}
_NODE = {letter: {"anyOf": [{"$ref": "#/$defs/t"}, {"type": "null"}]} for letter in "bcdefgh"}
_WIDE = {
    f"p{n}": {"anyOf": [_PAIR, {"type": "array", "items": {"type": "integer"}}, {"type": "null"}]} for n in range(300)
}


def _rest(number: int) -> dict[str, Any]:
    below = {"$ref": f"#/$defs/n{number + 1}"}
    forms = [{"type": "object", "properties": {"x": below, "y": below}, "required": ["x", "y"]}, {"type": "integer"}]
    return {"anyOf": forms}


SCHEMA_TOOLS: tuple[Tool[..., Any], ...] = (
    keep_secret,
    _schema("constants", _many({"oneOf": [{"const": f"value-{n}"} for n in range(200)]})),
    _schema("tagged", _many({"oneOf": [_tagged(n) for n in range(60)]})),
    _schema("least", _many({"anyOf": [{"type": "integer", "minimum": n} for n in range(30)]})),
    _schema("options", _many({"enum": [f"Value Number {n}" for n in range(3_000)]}), required=["w"]),
    _schema("wide", _WIDE, required=[*_WIDE]),
    _schema(
        "look_around",
        {"p": {"type": "array", "items": {"type": "string", "pattern": r"^(?!.*b)(?=.*a)(?:a+)+$"}}},
        patternProperties={r"^(?=x)(x+)+y$": {"type": "integer"}},
        propertyNames={"pattern": r"^(?!q)[\s\S]*$"},
    ),
    _schema(
        "conditions",
        {"a": {"type": "string"}},
        allOf=[{"if": {"properties": {"a": {"const": f"v{n}"}}}, "then": {"required": [f"r{n}"]}} for n in range(200)],
        dependentRequired={f"d{n}": [f"d{n + 1}"] for n in range(300)},
    ),
    _schema(
        "references",
        {"a": {"$ref": "#/$defs/n0"}},
        required=["a"],
        **{"$defs": {**{f"n{n}": _rest(n) for n in range(40)}, "n40": {"type": "integer"}}},
    ),
    _schema(
        "required_ring",
        {"a": {"$ref": "#/$defs/t"}},
        required=["a", "z"],
        **{"$defs": {"t": {"type": "object", "properties": _NODE, "required": [*_NODE]}}},
    ),
)


def _beside(note: object) -> object:
    return {"token": _SECRET, "note": note}


def _numbers(length: int, count: int, last: str = "") -> str:
    return f"[{','.join(['1' + '0' * length] * count)}{last}]"


SCHEMA_FAMILIES: list[_Family] = [
    *(
        (f"{n} {words}", name, lambda n=n, x=value: {"c": [x] * n})
        for n in (30, 100, 1_000, 4_900)
        for words, name, value in (
            ("wrong constants", "constants", "nope"),
            ("near constants", "constants", "Value 7"),
            ("right constants", "constants", "value-199"),
            ("values below each minimum", "least", "x"),
            ("near options", "options", "value number 2999"),
        )
    ),
    *((f"{n} other options", "options", lambda n=n: {"c": [f"valeu {i}" for i in range(n)]}) for n in (20, 900, 4_900)),
    *(
        (f"{n} constants in a map", "constants", lambda n=n: {"m": {f"k{i}": "no" for i in range(n)}})
        for n in (10, 100, 1_000, 4_900)
    ),
    *(
        (f"{n} tagged, {words}", "tagged", lambda n=n, t=tag, x=value: {"c": [{"kind": t, "x": x} for _ in range(n)]})
        for n in (12, 30, 100, 1_600)
        for words, tag, value in (("wrong tag", "nope", 1), ("wrong value", "k59", "q"), ("right", "k59", 1))
    ),
    *((f"{n} texts", "look_around", lambda n=n: {"p": ["a" * 40 + "c"] * n}) for n in (100, 900, 4_900)),
    ("a long text", "look_around", lambda: {"p": ["a" * 400_000 + "c"]}),
    *((f"{n} names", "look_around", lambda n=n: {"x" * 30 + str(i): 1 for i in range(n)}) for n in (100, 4_900)),
    *(
        (f"{words}", name, make)
        for name in ("wide", "conditions", "references", "required_ring")
        for words, make in (("nothing", dict), ("cut off", lambda: '{"a": '))
    ),
    ("wrong values", "wide", lambda: dict.fromkeys(_WIDE, "x")),
    ("wrong objects", "wide", lambda: {name: {"a": "x"} for name in _WIDE}),
    ("wrong arrays", "wide", lambda: {name: ["x"] * 10 for name in _WIDE}),
    ("the last branch", "conditions", lambda: {"a": "v199", "d0": 1}),
    ("wrong inside", "references", lambda: {"a": {"x": {"x": "q"}}}),
    ("wrong inside", "required_ring", lambda: {"a": {"b": {"c": 1}}}),
    *((f"an integer of {n} digits", "anything", lambda n=n: {"value": 10**n}) for n in (4_000, 5_000, 100_000)),
    *((f"{n} digits as text", "anything", lambda n=n: f'{{"value": 1{"0" * n}}}') for n in (4_000, 5_000, 100_000)),
    *(
        (f"{count} integers of {n} digits", "anything", lambda n=n, c=count: {"value": [10**n + i for i in range(c)]})
        for n, count in ((4_000, 200), (300, 3_000))
    ),
    *(
        (f"{count} times {n} digits as text", "anything", lambda n=n, c=count: f'{{"value": {_numbers(n, c)}}}')
        for n, count in ((4_000, 200), (4_000, 900), (300, 3_000))
    ),
    ("digits as text, wrong", "numbers", lambda: f'{{"n": {_numbers(4_000, 200, ",[]")}}}'),
    ("a large exponent", "anything", lambda: '{"value": 1e400}'),
    ("a decimal with a large exponent", "write", lambda: {"path": "a", "content": "", "price": "1e999999"}),
    ("fractions", "anything", lambda: f'{{"value": [{",".join(["0." + "1" * 300] * 2_000)}]}}'),
    ("exponents, wrong", "numbers", lambda: f'{{"n": [{"1e1," * 4_800}"x"]}}'),
    ("exponents", "numbers", lambda: f'{{"n": [{"1e1," * 4_800}1]}}'),
    ("negative zeros", "numbers", lambda: f'{{"n": [{"-0," * 400_000}1]}}'),
    ("long keys", "anything", lambda: {"value": {"k" * 900 + str(i): i for i in range(900)}}),
    ("long keys with dots", "anything", lambda: {"value": {"k.[0]" * 180 + str(i): i for i in range(900)}}),
    ("long undeclared keys", "many", lambda: {"k.[0]" * 180 + str(i): i for i in range(900)}),
    ("words in keys", "many", lambda: {"aB" * 49 + str(i): 1 for i in range(49)}),
    ("surrogates in keys", "anything", lambda: {"value": {"\ud800" * 1_000 + str(i): i for i in range(900)}}),
    ("surrogates", "keep_secret", lambda: {"token": "\ud800" * 1_000, "note": "\udc80" * 100_000}),
    ("a secret often", "keep_secret", lambda: _beside(_SECRET * 50_000)),
    ("a secret in texts", "keep_secret", lambda: _beside([f"x {_SECRET} {i}" for i in range(4_900)])),
    (
        "many secrets",
        "keep_secret",
        lambda: {
            "token": "x",
            "more": {f"key-{i}": f"secret-value-{i}" for i in range(90)},
            "note": ["a text"] * 4_500,
        },
    ),
    ("a long secret", "keep_secret", lambda: {"token": "ab" * 200_000, "note": "ab" * 200_000}),
    ("JSON in a text", "keep_secret", lambda: _beside(json.dumps([{"a": i} for i in range(60_000)]))),
    ("JSON in texts", "keep_secret", lambda: _beside([json.dumps({"a": "b"})] * 4_900)),
    ("Python in texts", "keep_secret", lambda: _beside(["{'a': 'b'}"] * 4_900)),
    ("brackets", "keep_secret", lambda: _beside("[" * 900_000)),
    ("a large integer as a secret", "keep_secret", lambda: {"token": "x", "more": {"n": 10**50_000}}),
    ("large integers beside a secret", "keep_secret", lambda: _beside([10**4_000] * 200)),
    ("a secret of another type", "keep_secret", lambda: {"token": [_SECRET] * 4_900}),
    ("cut off beside a secret", "keep_secret", lambda: f'{{"token": "{_SECRET}", "note": "{_SECRET * 50_000}'),
    ("markup", "write", lambda: {"path": "<" * 400_000, "contents": "</parameter" * 40_000}),
    ("fences", "write", lambda: "```json\n" * 100_000),
    ("backslashes", "numbers", lambda: {"n": "[" + "\\" * 900_000}),
    ("colons in a text", "write", lambda: '{"path": "a", "content": "' + '\\":' * 200_000 + '"}'),
    ("a long fraction of a date", "write", lambda: {"path": "a", "content": "", "day": "2026-01-01." + "0" * 900_000}),
]

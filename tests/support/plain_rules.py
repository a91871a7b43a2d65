"""Random rules, random calls, and a plain evaluator of both that shares nothing with the library.

Each tool writes down what its body got, by hand: the names of its schema, and exact numbers. The evaluator judges that.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import random
import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Annotated, Any, NamedTuple, NotRequired

import attrs
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from toolcall_pipeline import Tool, ToolRegistry

_UNFIT: Any = None
TEXTS = ("/etc/passwd", "/tmp/a", "rm -rf /", "ls", "", "é", "DROP TABLE x", "drop", "a" * 3000 + "rm -rf /")
NUMBERS: tuple[Any, ...] = (0, 1, 999, 1000, -5, 10**30 + 1, 10**30)
# Each with a form that Python's own engine, which goes back, runs in linear time as well.
PATTERNS = {each: each for each in ("^/etc", "rm", "DROP", "(?i)drop", "^$", "é", "/tmp/.*")} | {
    "(\\w*\\s*)*rm\\s+-rf": "rm\\s+-rf"
}


class Kind(Enum):
    FILE = "file"
    ALL = "everything"


class Model(BaseModel):
    path: str = Field(alias="thePath", exclude=True)
    amount: Decimal = Field(Decimal(5), alias="theAmount")
    note: str = _UNFIT
    kids: list[Model] = Field(default_factory=list["Model"])


@attrs.define
class Shape:
    _path: str
    amount: int = attrs.field(default=1000, alias="theAmount")
    note: str = _UNFIT


@dataclasses.dataclass
class Record:
    path: Annotated[str, Field(alias="thePath")]
    amount: Decimal = Decimal(1000)
    day: date = date(2026, 1, 2)


class Named(TypedDict):
    path: Annotated[str, Field(alias="thePath")]
    amount: NotRequired[Annotated[int, Field(alias="theAmount")]]


class Pair(NamedTuple):
    path: str
    amount: int = 1000


def show_model(it: Model) -> dict[str, Any]:
    kids = [show_model(kid) for kid in it.kids]
    return {"thePath": it.path, "theAmount": it.amount, "note": it.note, "kids": kids}


def show_named(it: Named) -> dict[str, Any]:
    return {"thePath": it["path"], **({"theAmount": it["amount"]} if "amount" in it else {})}


@attrs.define
class Office:
    """The tools, and what their bodies got: the name of each tool with its arguments."""

    ran: list[tuple[str, Any]] = attrs.field(factory=list[Any])
    tools: ToolRegistry = attrs.field(factory=ToolRegistry)

    def __attrs_post_init__(self) -> None:
        ran = self.ran

        @self.tools.tool(effect="read")
        async def read(
            path: Annotated[str, Field(alias="thePath")], amount: Annotated[int, Field(alias="theAmount")] = 1000
        ) -> None:
            ran.append(("read", {"thePath": path, "theAmount": amount}))

        @self.tools.tool
        async def model(held: Model, exact: Decimal = Decimal(1)) -> None:
            ran.append(("model", {"held": show_model(held), "exact": exact}))

        @self.tools.tool
        async def shape(held: Shape, kind: Kind = Kind.FILE) -> None:
            shown = {
                "path": attrs.asdict(held)["_path"],
                "theAmount": held.amount,
                "note": held.note,
            }  # an alias without it
            ran.append(("shape", {"held": shown, "kind": kind.value}))

        @self.tools.tool(effect="idempotent")
        async def record(held: Record | None = None, kinds: set[Kind] = frozenset()) -> None:  # type: ignore[assignment]  # pyright: ignore[reportArgumentType]
            shown = None
            if held is not None:
                shown = {"thePath": held.path, "amount": held.amount, "day": held.day.isoformat()}
            ran.append(("record", {"held": shown, "kinds": [each.value for each in kinds]}))

        @self.tools.tool(effect="read")
        async def named(held: Named, more: list[Named] = []) -> None:  # noqa: B006  # it is not changed
            ran.append(("named", {"held": show_named(held), "more": [show_named(each) for each in more]}))

        @self.tools.tool
        async def pair(held: Pair) -> None:
            ran.append(("pair", {"held": list(held)}))

        def anything(**given: Any) -> None:
            ran.append(("anything", {"limit": 1000, **given}))

        properties = {"thePath": {"type": "string"}, "theAmount": {"type": "integer"}, "limit": {"default": 1000}}
        self.tools.register(Tool.from_schema(name="anything", parameters={"properties": properties}, handler=anything))


PLACES: dict[str, list[tuple[Any, ...]]] = {
    "read": [("thePath",), ("theAmount",)],
    "model": [("held", "thePath"), ("held", "theAmount"), ("held", "note"), ("held", "kids", 0, "thePath"), ("exact",)],
    "shape": [("held", "path"), ("held", "theAmount"), ("held", "note"), ("kind",)],
    "record": [("held", "thePath"), ("held", "amount"), ("held", "day"), ("kinds", 0)],
    "named": [("held", "thePath"), ("held", "theAmount"), ("more", 0, "thePath")],
    "pair": [("held", 0), ("held", 1)],
    "anything": [("thePath",), ("theAmount",), ("limit",)],
}


# --- Random calls ---


def make_call(dice: random.Random) -> tuple[str, Any]:
    """A tool and its arguments, in one of the many forms that a model may send."""
    name = dice.choice(list(PLACES))
    return _misspell_tool(dice, name), _wrap(dice, make_arguments(dice, name))


def make_arguments(dice: random.Random, name: str) -> dict[str, Any]:
    """Arguments of a tool, of which some need a repair and some have none."""
    path, amount = dice.choice(TEXTS), dice.choice(NUMBERS)
    alias, number = dice.choice(["thePath", "thePath", "path", "the_path"]), dice.choice(["theAmount", "the_amount"])
    held: Any = {alias: path}
    if dice.random() < 0.6:
        held[number] = _spell(dice, amount)
    sent: dict[str, Any] = {"held": held}
    if name in ("read", "anything"):
        sent = held
    elif name == "model":
        held["kids"] = [{"thePath": dice.choice(TEXTS)} for _ in range(dice.randrange(3))]
        sent["exact"] = dice.choice(["0.1", "1000.00000000000000000000000001", 999, "1e3"])
    elif name == "shape":
        sent = {
            "held": {"path": path, number: amount, "note": dice.choice(TEXTS)},
            "kind": dice.choice(["file", "Everything"]),
        }
    elif name == "record":
        sent = {"held": dice.choice([None, {alias: path, "amount": "1000.5", "day": "2026-03-04"}])}
        sent["kinds"] = dice.choice([[], ["file"], "everything", ["file", "everything"]])
    elif name == "named":
        sent["more"] = [{"thePath": dice.choice(TEXTS)}] * dice.randrange(3)
    elif name == "pair":
        sent["held"] = dice.choice([[path], [path, amount], {"path": path}])
    return sent


def _spell(dice: random.Random, amount: int) -> Any:
    return dice.choice([amount, str(amount), f" {amount} ", float(amount) if abs(amount) < 10**6 else amount])


def _misspell_tool(dice: random.Random, name: str) -> str:
    return dice.choice([name, name, name, f"functions.{name}", name.upper()])


def _wrap(dice: random.Random, sent: dict[str, Any]) -> Any:
    how = dice.randrange(7)
    if how == 0:
        return json.dumps(sent, indent=dice.randrange(4))
    if how == 1:
        return {"arguments": sent}
    if how == 2 and isinstance(sent.get("held"), dict):
        return {**sent, "held": json.dumps(sent["held"])}
    if how == 3:
        return f"```json\n{json.dumps(sent)}\n```"
    if how == 4:
        return {**sent, "unknown": 1}
    return sent


# --- Random rules ---


def make_rules(dice: random.Random) -> tuple[str, list[dict[str, Any]]]:
    """The default action and the rules, as the options of `PolicyRule`."""
    rules = [_make_rule(dice) for _ in range(dice.randrange(1, 5))]
    return dice.choice(["allow", "allow", "deny", "dry_run", "approve"]), rules


def _make_rule(dice: random.Random) -> dict[str, Any]:
    rule: dict[str, Any] = {"action": dice.choice(["deny", "deny", "allow", "dry_run", "approve"])}
    if dice.random() < 0.5:
        rule["tool"] = dice.choice([*PLACES, "*e*", "[mnp]*", ("read", "pair")])
    if dice.random() < 0.3:
        rule["effect"] = dice.choice(["read", "mutating", ("idempotent", "keyed")])
    if dice.random() < 0.3:
        rule["principal"] = dice.choice(["ann", "b*", "?*"])
    if dice.random() < 0.9:
        places = PLACES.get(str(rule.get("tool"))) or dice.choice(list(PLACES.values()))
        rule["arguments"] = _make_schema(dice, places)
    return rule


def _make_schema(dice: random.Random, places: list[tuple[Any, ...]]) -> Any:
    if dice.random() < 0.25:
        word = dice.choice(["not", "anyOf", "allOf"])
        made = [_make_schema(dice, places) for _ in range(2)]
        return {"not": made[0]} if word == "not" else {word: made}
    schema: Any = _make_leaf(dice)
    for part in reversed(dice.choice(places)):
        if isinstance(part, int):
            word = dice.choice(["items", "contains", "prefixItems"])
            schema = {word: [True] * part + [schema] if word == "prefixItems" else schema}
        else:
            schema = {"properties": {part: schema}, **({"required": [part]} if dice.random() < 0.6 else {})}
            if dice.random() < 0.5:
                schema["type"] = "object"
    return schema


def _make_leaf(dice: random.Random) -> Any:
    text, number = dice.choice(TEXTS), dice.choice([*NUMBERS, 1000.5, 0.1])
    return dice.choice([
        {"const": text}, {"enum": [text, number]}, {"pattern": dice.choice(list(PATTERNS))},
        {"type": "string", "pattern": dice.choice(list(PATTERNS))}, {"maxLength": dice.choice([0, 4, 3000])},
        {"minimum": number}, {"maximum": number}, {"exclusiveMinimum": number}, {"type": "number", "minimum": number},
        {"const": number}, {"type": ["null", "string"]}, {"type": "integer"}, {"const": "everything"},
    ])  # fmt: skip


# --- The evaluator ---


def decide(default: str, rules: list[dict[str, Any]], tool: str, effect: str, principal: str, got: Any) -> str:
    """The action of the first rule that fits what a body got."""
    for rule in rules:
        named = all(
            option not in rule or any(fnmatch.fnmatchcase(text, each) for each in _list(rule[option]))
            for option, text in (("tool", tool), ("effect", effect), ("principal", principal))
        )
        if named and ("arguments" not in rule or fits(rule["arguments"], got)):
            return str(rule["action"])
    return default


def _list(given: Any) -> Any:
    return (given,) if isinstance(given, str) else given


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def _is_type(value: Any, name: str) -> bool:
    return {
        "null": value is None,
        "string": isinstance(value, str),
        "number": _is_number(value),
        "integer": _is_number(value) and Fraction(value).denominator == 1,
        "object": isinstance(value, dict),
    }[name]


def _equals(value: Any, other: Any) -> bool:
    if _is_number(value) and _is_number(other):
        return Fraction(value) == _exact(other)
    return type(value) is type(other) and bool(value == other)


def fits(schema: Any, value: Any) -> bool:
    """Whether a value fits a schema of the kinds that `make_rules` makes."""
    return schema is True or all(_fits_word(word, said, value) for word, said in schema.items())


def _fits_word(word: str, said: Any, value: Any) -> bool:
    whole: dict[str, Callable[[], bool]] = {
        "not": lambda: not fits(said, value),
        "anyOf": lambda: any(fits(each, value) for each in said),
        "allOf": lambda: all(fits(each, value) for each in said),
        "type": lambda: any(_is_type(value, name) for name in _list(said)),
        "const": lambda: _equals(value, said),
        "enum": lambda: any(_equals(value, each) for each in said),
    }
    return whole[word]() if word in whole else _fits_part(word, said, value)


def _fits_part(word: str, said: Any, value: Any) -> bool:
    """A keyword that says something of one type, and fits every value of another."""
    parts: dict[str, tuple[Callable[[Any], bool], Callable[[], bool]]] = {
        "properties": (_is_object, lambda: all(fits(said[name], value[name]) for name in said if name in value)),
        "required": (_is_object, lambda: all(name in value for name in said)),
        "items": (_is_array, lambda: all(fits(said, each) for each in value)),
        "contains": (_is_array, lambda: any(fits(said, each) for each in value)),
        "prefixItems": (_is_array, lambda: all(map(fits, said, value))),
        "pattern": (_is_text, lambda: re.search(PATTERNS[said], value) is not None),
        "maxLength": (_is_text, lambda: len(value) <= said),
        "minimum": (_is_number, lambda: Fraction(value) >= _exact(said)),
        "maximum": (_is_number, lambda: Fraction(value) <= _exact(said)),
        "exclusiveMinimum": (_is_number, lambda: Fraction(value) > _exact(said)),
    }
    is_about, holds = parts[word]
    return not is_about(value) or holds()


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_array(value: Any) -> bool:
    return isinstance(value, list)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _exact(said: float) -> Fraction:
    """A number of a schema as it is written in JSON."""
    return Fraction(said if isinstance(said, int) else repr(said))

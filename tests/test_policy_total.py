"""A rule says yes, no or cannot say, and what it cannot judge does not run."""

from __future__ import annotations

import dataclasses
import json
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, RootModel, field_serializer

from toolcall_pipeline import Call, SetupError, Success, ToolRegistry
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.policies import PolicyRule, RuleSet, read_rules


def _judge(value: Any, schema: Any, action: Any = "deny") -> str:
    """The action for a call whose argument `value` is this Python value, and the schema of a rule for it."""
    tools = ToolRegistry()

    @tools.tool
    def act(value: Any = None) -> None: ...

    pipeline = standard(tools)
    found: Any = pipeline.resolve(Call("act", {"value": 1}))
    call: Any = pipeline.validate(found)
    rules = RuleSet((PolicyRule(action, arguments={"properties": {"value": schema}}),))
    return rules.decide(attrs.evolve(call, params={"value": value})).action


@pytest.mark.parametrize(
    "pattern",
    [
        "(?=a)b",
        "(?!a)b",
        "(?<=a)b",
        "(?<!a)b",
        r"(a)\1",
        r"(?P<n>a)(?P=n)",
        "(?>a)b",
        "(?(1)a|b)",
        "a{1000}{1000}",
        "(",
    ],
)
@pytest.mark.parametrize(
    "schema",
    [
        '{"properties": {"x": {"pattern": PATTERN}}}',
        '{"patternProperties": {PATTERN: true}}',
        '{"not": {"properties": {"x": {"items": {"pattern": PATTERN}}}}}',
        '{"$ref": "#/$defs/x", "$defs": {"x": {"pattern": PATTERN}}}',
    ],
)
def test_a_pattern_that_is_not_linear_is_refused(pattern: str, schema: str) -> None:
    """It is a mistake at set-up, and the text says what to write in its place."""
    with pytest.raises(SetupError, match=r"linear time or is no pattern\. Write it without look-around"):
        PolicyRule("deny", arguments=json.loads(schema.replace("PATTERN", json.dumps(pattern))))


def test_the_file_and_line_of_a_pattern_that_is_not_linear(tmp_path: Path) -> None:
    """The text begins with the place of the rule."""
    path = tmp_path / "policy.toml"
    path.write_text("[[rules]]\naction = 'deny'\narguments = {properties = {x = {pattern = '(?=a)'}}}\n")
    with pytest.raises(SetupError, match=r"policy\.toml:\d: .*linear time"):
        read_rules(path)


@pytest.mark.parametrize("text", ["", "\n \n", "# nothing\n", "rules = []\n"])
def test_an_empty_policy_is_a_mistake(text: str, tmp_path: Path) -> None:
    """It would guard nothing, and is what a file is while it is written anew."""
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(SetupError, match="the policy is empty"):
        read_rules(path)


@given(st.integers(0, 50_000), st.sampled_from(["a", "é", " ", "\n"]), st.booleans())
def test_padding_passes_no_rule(count: int, padding: str, is_before: bool) -> None:
    """A pattern finds its text however much stands beside it."""
    text = padding * count + "rm -rf" if is_before else "rm -rf" + padding * count
    assert _judge(text, {"pattern": r"(\w*\s*)*rm\s+-rf"}) == "deny"


class Hidden(BaseModel):
    path: str = Field(alias="thePath", exclude=True)
    size: Decimal = Decimal(1)

    @field_serializer("size")
    def _write(self, _size: Decimal) -> str:
        return "small"


class Listed(RootModel[list[int]]): ...


@attrs.define
class Shape:
    _path: str
    left: int = 0


@dataclasses.dataclass
class Record:
    path: str


class Pair(NamedTuple):
    path: str
    left: int


@pytest.mark.parametrize(
    ("value", "fitting"),
    [
        (Hidden(thePath="/etc"), {"required": ["thePath"], "properties": {"thePath": {"const": "/etc"}}}),
        (Hidden(thePath="/", size=Decimal(9)), {"properties": {"size": {"type": "number", "minimum": 9}}}),
        (Shape("/etc"), {"required": ["path"], "properties": {"path": {"const": "/etc"}}}),
        ([Shape("/etc")], {"items": {"type": "object", "required": ["path", "left"]}}),
        (Record("/etc"), {"required": ["path"]}),
        (Pair("/etc", 1), {"type": "array", "prefixItems": [{"const": "/etc"}]}),
        (Listed([1, 2]), {"type": "array", "maxItems": 2}),
        (10**30 + 1, {"const": 10**30 + 1}),
        (Decimal("0.10000000000000000000000001"), {"exclusiveMinimum": 0.1, "type": "number"}),
        (date(2026, 1, 2), {"const": "2026-01-02"}),
        ({1: "a"}, {"required": ["1"]}),
    ],
)
def test_a_rule_sees_what_the_tool_gets(value: Any, fitting: Any) -> None:
    """Each field by its name in the schema, exact numbers, and nothing that a serializer makes of them."""
    assert (_judge(value, fitting, "deny"), _judge(value, {"not": fitting}, "deny")) == ("deny", "allow")


class Odd: ...


_LOOP: list[Any] = []
_LOOP.append(_LOOP)


@pytest.mark.parametrize(
    "value",
    [
        Fraction(1, 3), b"rm -rf", 1j, float("nan"), float("inf"), Decimal("NaN"), Decimal("1e999999"),
        pytest.param(10**5000, id="digits"),
        Odd(), [Odd()], {"a": {"b": Fraction(1)}}, {(1, 2): 3}, {1: 2, "1": 3},
        pytest.param("\ud800", id="half"), {"\ud800": 1}, pytest.param(_LOOP, id="loop"),
        Shape(Odd()),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("action", "taken"), [("allow", "deny"), ("deny", "deny"), ("dry_run", "deny"), ("approve",) * 2]
)
def test_what_has_no_json_form_is_denied(value: Any, action: Any, taken: str) -> None:
    """The rule cannot say: the call is denied, or a person is asked where the rule asks one."""
    assert _judge(value, {"type": "string", "pattern": "x"}, action) == ("approve" if action == "approve" else "deny")


_VALUES = st.one_of(
    st.integers(), st.decimals(), st.text(max_size=5), st.floats(), st.fractions(), st.binary(max_size=3), st.booleans()
)


@given(_VALUES, st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_no_call_runs_that_a_plain_evaluator_denies(value: Any, least: float) -> None:
    """A plain comparison of exact numbers denies what is not less, and what is not JSON."""
    is_number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    if is_number:
        finite = isinstance(value, int) or Decimal(value).is_finite()
        denied = not finite or Fraction(value) >= Fraction(least)
    else:
        denied = isinstance(value, (Fraction, bytes))
    if denied:
        assert _judge(value, {"type": "number", "minimum": least}) == "deny"


async def test_a_field_that_is_not_dumped_is_judged() -> None:
    """A whole call is judged after its repair, by the alias, in the pipeline that runs it."""
    tools, ran = ToolRegistry(), list[str]()

    @tools.tool
    async def act(hidden: Hidden, note: Annotated[str, Field(max_length=9)] = "none") -> str:
        ran.append(hidden.path)
        return note

    denied = {"properties": {"hidden": {"properties": {"thePath": {"pattern": "^/etc"}}}}}
    pipeline = standard(tools, policy=RuleSet((PolicyRule("deny", arguments=denied),)))
    assert await pipeline.call("act", {"hidden": {"thePath": "/tmp"}}) == Success("none")
    await pipeline.call("act", {"hidden": '{"thePath": "/etc/x"}'})
    assert ran == ["/tmp"]

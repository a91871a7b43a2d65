"""A rule says yes, no or cannot say, and what it cannot judge does not run."""

from __future__ import annotations

import dataclasses
import json
import random
from collections import Counter
from contextlib import suppress
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, RootModel, field_serializer

import plain_rules
from toolcall_pipeline import Approvals, Call, SetupError, Success, Tool, ToolRegistry
from toolcall_pipeline.approvals import Requests
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.policies import PolicyRule, RuleSet, read_rules
from toolcall_pipeline.stores import Memory


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


def test_a_rule_sees_the_defaults_of_a_schema() -> None:
    """Of each parameter that has one, also where the schema of another is `true` or has none."""
    tools = ToolRegistry()
    properties = {"cents": {"type": "integer", "default": 500}, "any": True, "to": {"type": "string"}}

    async def pay(**sent: Any) -> None: ...

    schema = {"type": "object", "properties": properties}
    tools.register(Tool.from_schema(name="pay", parameters=schema, handler=pay, effect="read"))
    rule = PolicyRule("deny", arguments={"required": ["cents"], "properties": {"cents": {"minimum": 100}}})
    pipeline = standard(tools, policy=RuleSet((rule,)))
    for sent, kind in (({}, "permission"), ({"any": 1, "to": "ann"}, "permission"), ({"cents": 1}, "")):
        outcome: Any = pipeline.call_sync("pay", sent)
        assert ("" if isinstance(outcome, Success) else outcome.failure().kind) == kind


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


@pytest.mark.parametrize(("cents", "kind"), [(5, ""), (50, ""), (500, "permission"), (5_000, "not_executed")])
@pytest.mark.parametrize("again", ["resumed", "repeated"])
async def test_an_edit_of_a_person_is_judged(cents: int, kind: str, again: str) -> None:
    """What a rule denies runs for no approval: the rules see the arguments that would run."""
    tools, ran, store = ToolRegistry(), list[int](), Memory()

    @tools.tool
    async def pay(cents: int) -> None:
        ran.append(cents)

    def at_least(least: int) -> Any:
        return {"properties": {"cents": {"minimum": least}}}

    rules = RuleSet(
        (
            PolicyRule("dry_run", arguments=at_least(1000)),
            PolicyRule("deny", arguments=at_least(100)),
            PolicyRule("approve", arguments=at_least(10)),
        )
    )
    pipeline = standard(tools, policy=rules, store=store)
    await pipeline.call("pay", {"cents": 20}, id="1")
    (waiting,) = await Approvals(store).pending()
    await Approvals(store).approve(waiting.id, by="boss", arguments={"cents": cents})
    called = pipeline.resume(waiting.id) if again == "resumed" else pipeline.call("pay", {"cents": 20}, id="1")
    outcome = await called
    assert outcome == Success(None) if not kind else outcome.failure().kind == kind
    assert ran == ([] if kind else [cents])


_KINDS = {"allow": None, "deny": "permission", "dry_run": "not_executed", "approve": "awaiting_approval"}


async def _check_one(office: plain_rules.Office, dice: random.Random) -> str:
    """Run one random call by random rules, and compare with the evaluator. Returns the action, "": it was not valid."""
    name, sent = plain_rules.make_call(dice)
    default, options = plain_rules.make_rules(dice)
    principal = dice.choice(["ann", "bob", ""])
    office.ran.clear()
    await standard(office.tools, canonical_names=True).call(name, sent)
    got = list(office.ran)
    office.ran.clear()
    rules = RuleSet(tuple(PolicyRule(**each) for each in options), cast("Any", default))
    pipeline = standard(office.tools, canonical_names=True, policy=rules, store=(store := Memory()))
    outcome = await pipeline.call(name, sent, principal=principal)
    if not got:
        assert office.ran == []
        return ""

    def decide() -> str:
        (tool, arguments) = office.ran[0] if office.ran else got[0]
        return plain_rules.decide(default, options, tool, office.tools.tools[tool].effect, principal, arguments)

    action = decide()
    assert outcome == Success(None) if action == "allow" else outcome.failure().kind == _KINDS[action]
    assert office.ran == (got if action == "allow" else [])
    if action == "approve":
        (waiting,) = await Approvals(store).pending()
        with suppress(SetupError):  # it does not fit the tool
            edit = plain_rules.make_arguments(dice, waiting.tool)
            await Approvals(store).approve(waiting.id, by="boss", arguments=edit)
        await Approvals(store).approve(waiting.id, by="boss")  # unless the edit was taken
        (decided,) = [each async for each in Requests(store).list()]
        await pipeline.resume(waiting.id)
        assert decided.get("edit") or office.ran == got
        assert office.ran == [] or decide() in ("allow", "approve")
    return action


async def _check_many(first: int, count: int) -> None:
    office = plain_rules.Office()
    seen = Counter[str]()
    for seed in range(first, first + count):
        try:
            seen[await _check_one(office, random.Random(seed))] += 1
        except AssertionError as exc:
            raise AssertionError(f"seed {seed}") from exc
    assert all(seen[action] > count / 50 for action in _KINDS)


async def test_no_call_runs_that_a_plain_evaluator_of_rules_denies() -> None:
    """Nor is one refused that it allows: whatever its padding, names, types and repairs, and a person's edit."""
    await _check_many(0, 150)


@pytest.mark.long
async def test_no_call_of_many_runs_that_a_plain_evaluator_denies(anyio_backend_name: str) -> None:
    """The same, 10,000 times: half of them on each event loop."""
    await _check_many(1_000 if anyio_backend_name == "trio" else 10_000, 5_000)

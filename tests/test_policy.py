"""Policies: rules as data decide whether a call runs, and each mistake in their file is reported with its line."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, cast

import pytest
from pydantic import BaseModel, Field

from toolcall_pipeline import (
    Approvals,
    Call,
    Secret,
    SetupError,
    Success,
    ToolRegistry,
    render,
)
from toolcall_pipeline.middlewares import Approve, Policy, Quota, RateLimit, standard
from toolcall_pipeline.policies import PolicyRule, RuleSet, read_rules
from toolcall_pipeline.policies import rules as rule_sets
from toolcall_pipeline.stores import Memory


def kind_of(outcome: Any) -> str | None:
    return None if isinstance(outcome, Success) else outcome.failure().kind


class Item(BaseModel):
    price: Decimal


@pytest.fixture
def ran() -> list[Any]:
    return []


@pytest.fixture
def tools(ran: list[Any]) -> ToolRegistry:
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def look(at: str) -> str:
        ran.append(("look", at))
        return at

    @tools.tool
    async def pay(
        to: str,
        amount: Decimal = Decimal(5),
        on: date | None = None,
        note: Annotated[str, Field(max_length=9)] = "none",
        pin: Annotated[str, Secret] = "0000",
    ) -> str:
        ran.append(("pay", to, amount))
        return f"paid {amount}"

    @tools.tool(effect="idempotent")
    async def order(item: Item, count: int = 1) -> str:
        ran.append(("order", item, count))
        return "ordered"

    return tools


LARGE = {"properties": {"amount": {"minimum": 100}}}


@pytest.mark.parametrize(
    ("rules", "default", "name", "arguments", "principal", "kind"),
    [
        pytest.param([], "allow", "pay", {"to": "x"}, "", None, id="no rule"),
        pytest.param([], "deny", "pay", {"to": "x"}, "", "permission", id="no rule, and the default denies"),
        pytest.param([PolicyRule("deny")], "allow", "look", {"at": "x"}, "", "permission", id="a rule for everything"),
        pytest.param([PolicyRule("deny", "pay")], "allow", "pay", {"to": "x"}, "", "permission", id="a name"),
        pytest.param([PolicyRule("deny", "p*")], "allow", "pay", {"to": "x"}, "", "permission", id="a pattern"),
        pytest.param([PolicyRule("deny", ("x*", "pa?"))], "allow", "pay", {"to": "x"}, "", "permission", id="patterns"),
        pytest.param([PolicyRule("deny", "PA*")], "allow", "pay", {"to": "x"}, "", None, id="another name"),
        pytest.param([PolicyRule("deny", effect="mutating")], "allow", "pay", {"to": "x"}, "", "permission", id="fx"),
        pytest.param([PolicyRule("deny", effect="read")], "allow", "pay", {"to": "x"}, "", None, id="another effect"),
        pytest.param(
            [PolicyRule("allow", effect=("read", "idempotent"))], "deny", "look", {"at": "x"}, "", None, id="effects"
        ),
        pytest.param([PolicyRule("deny", principal="t-*")], "allow", "pay", {"to": "x"}, "t-1", "permission", id="who"),
        pytest.param([PolicyRule("deny", principal="t-*")], "allow", "pay", {"to": "x"}, "u", None, id="other"),
        pytest.param([PolicyRule("allow", principal="t")], "deny", "pay", {"to": "x"}, "", "permission", id="nameless"),
        pytest.param(
            [PolicyRule("deny", "pay", arguments=LARGE)], "allow", "pay", {"to": "x", "amount": 100}, "", "permission",
            id="a number",
        ),
        pytest.param(
            [PolicyRule("deny", "pay", arguments=LARGE)], "allow", "pay", {"to": "x", "amount": "100.5"}, "",
            "permission", id="a number that came as text",
        ),
        pytest.param(
            [PolicyRule("deny", "pay", arguments=LARGE)], "allow", "pay", {"to": "x"}, "", None, id="less by default"
        ),
        pytest.param(
            [PolicyRule("allow", "pay", arguments={"properties": {"amount": {"maximum": 10}}}), PolicyRule("deny")],
            "allow", "pay", {"to": "x"}, "", None, id="the default counts",
        ),
        pytest.param(
            [PolicyRule("deny", arguments={"properties": {"note": {"const": "none"}}, "required": ["note"]})],
            "allow", "pay", {"to": "x"}, "", "permission", id="the default of a Field counts",
        ),
        pytest.param(
            [PolicyRule("deny", arguments={"properties": {"on": {"pattern": "^2026"}}, "required": ["on"]})],
            "allow", "pay", {"to": "x", "on": "2026-01-02"}, "", "permission", id="a date as text",
        ),
        pytest.param(
            [PolicyRule("deny", arguments={"properties": {"item": {"properties": {"price": {"minimum": 9}}}}})],
            "allow", "order", {"item": {"price": "10"}}, "", "permission", id="inside of a model",
        ),
        pytest.param(
            [PolicyRule("allow", "pay", arguments=LARGE), PolicyRule("deny", "pay")],
            "allow", "pay", {"to": "x", "amount": 100}, "", None, id="the first that fits",
        ),
        pytest.param([PolicyRule("dry_run")], "allow", "pay", {"to": "x"}, "", "not_executed", id="a plan"),
        pytest.param([], "dry_run", "pay", {"to": "x"}, "", "not_executed", id="a plan by default"),
        pytest.param([PolicyRule("deny")], "allow", "pay", {}, "", "validation", id="not valid, so no rule is asked"),
    ],
)  # fmt: skip
async def test_the_first_rule_that_fits_decides(
    rules: list[PolicyRule], default: Any, name: str, arguments: dict[str, Any], principal: str, kind: str | None,
    tools: ToolRegistry, ran: list[Any],
) -> None:  # fmt: skip
    """Tool, effect, principal and validated arguments decide; a call that is not allowed does not run."""
    pipeline = standard(tools, policy=RuleSet(tuple(rules), default))
    outcome = await pipeline.call(name, arguments, principal=principal)
    assert (None if isinstance(outcome, Success) else outcome.failure().kind, len(ran)) == (kind, int(kind is None))


async def test_what_the_model_reads(tools: ToolRegistry) -> None:
    """A denial has the rule's message, else the fixed text; a plan has the arguments, without a secret."""
    rules = RuleSet((
        PolicyRule("deny", "look"),
        PolicyRule("deny", "order", message="Order by phone."),
        PolicyRule("dry_run", "pay"),
    ))  # fmt: skip
    pipeline = standard(tools, policy=rules)
    assert render(await pipeline.call("look", {"at": "x"})) == "Error: Permission denied."
    assert render(await pipeline.call("order", {"item": {"price": 1}})) == "Error: Order by phone."
    text = render(await pipeline.call("pay", {"to": "Bob", "amount": "7", "pin": "1234"}))
    assert text.startswith("Error: Not executed: only a plan was asked for; pay would run with {")
    assert '"amount": 7' in text
    assert "1234" not in text


async def test_the_report_names_rule_and_version(tools: ToolRegistry, tmp_path: Path) -> None:
    """The row of the stage says which rule decided, by which version of the file; another text has another version."""
    file = tmp_path / "policy.toml"
    file.write_text("default = 'deny'\n\n[[rules]]\ntool = 'pay'\naction = 'allow'\n")
    rules = read_rules(file)
    report = await standard(tools, policy=file).report(Call("pay", {"to": "x"}))
    (row,) = (stage for stage in report.stages if stage.name == "policy")
    assert row.note == f"allow by policy.toml:3 of policy {rules.version}"
    report = await standard(tools, policy=rules).report(Call("look", {"at": "x"}))
    assert [stage.note for stage in report.stages if stage.name == "policy"] == [
        f"deny by default of policy {rules.version}"
    ]
    file.write_text(file.read_text() + "# changed\n")
    assert read_rules(file).version != rules.version


WRONG = [
    ("default = 'maybe'\n", ":1: `default` must be allow, deny, approve or dry_run, not 'maybe'"),
    ("default = 1\n", ":1: `default` must be"),
    ("default = ['deny']\n", ":1: `default` must be"),
    ("defualt = 'deny'\n", ":1: unknown option `defualt`; known: default, rules"),
    ("rules = 5\n", ":1: `rules` must be an array of tables, not 5"),
    ("rules = 'deny'\n", ":1: `rules` must be an array of tables"),
    ("rules = [1]\n", ":1: `rules.0` must be a table, not 1"),
    ("[rules]\naction = 'deny'\n", ":1: `rules` must be an array of tables"),
    ("[[rules]]\n", ":1: the rule has no `action`"),
    ("[[rules]]\ntool = 'x'\n", ":1: the rule has no `action`"),
    ("\n\n[[rules]]\naction = 'deny'\n\n[[rules]]\ntool = 'x'\n", ":6: the rule has no `action`"),
    ("[[rules]]\naction = 'block'\n", ":2: `action` must be allow, deny, approve or dry_run, not 'block'"),
    ("[[rules]]\naction = 'Deny'\n", ":2: `action` must be"),
    ("[[rules]]\naction = ''\n", ":2: `action` must be"),
    ("[[rules]]\naction = true\n", ":2: `action` must be"),
    ("[[rules]]\naction = ['deny']\n", ":2: `action` must be"),
    ("[[rules]]\naction = 'deny'\ntools = 'x'\n", ":3: unknown option `tools`; known: tool, effect, principal"),
    ("[[rules]]\naction = 'deny'\nplace = 'x'\n", ":3: unknown option `place`"),
    ("[[rules]]\naction = 'deny'\n_fits_arguments = 1\n", ":3: unknown option `_fits_arguments`"),
    ("[[rules]]\naction = 'deny'\ntool = ''\n", ":3: `tool` must be a text or an array of texts that are not empty"),
    ("[[rules]]\naction = 'deny'\ntool = ['a', '']\n", ":3: `tool` must be"),
    ("[[rules]]\naction = 'deny'\ntool = []\n", ":3: `tool` must be"),
    ("[[rules]]\naction = 'deny'\ntool = 5\n", ":3: `tool` must be"),
    ("[[rules]]\naction = 'deny'\ntool = [5]\n", ":3: `tool` must be"),
    ("[[rules]]\naction = 'deny'\ntool = {a = 1}\n", ":3: `tool` must be"),
    ("[[rules]]\naction = 'deny'\neffect = 'write'\n", ":3: `effect` must be read, idempotent, keyed or mutating"),
    ("[[rules]]\naction = 'deny'\neffect = ['read', 'x']\n", ":3: `effect` must be"),
    ("[[rules]]\naction = 'deny'\neffect = 1\n", ":3: `effect` must be"),
    ("[[rules]]\naction = 'deny'\nprincipal = 1\n", ":3: `principal` must be"),
    ("[[rules]]\naction = 'deny'\nprincipal = ['']\n", ":3: `principal` must be"),
    ("[[rules]]\naction = 'deny'\nmessage = 1\n", ":3: `message` must be a text, not 1"),
    ("[[rules]]\naction = 'deny'\narguments = 'x'\n", ":3: `arguments` must be a JSON Schema, which is a table"),
    ("[[rules]]\naction = 'deny'\narguments = [1]\n", ":3: `arguments` must be a JSON Schema"),
    ("[[rules]]\naction = 'deny'\narguments = {type = 'number '}\n", ":3: `arguments` must be a JSON Schema: "),
    ("[[rules]]\naction = 'deny'\narguments = {minimum = 'x'}\n", ":3: `arguments` must be a JSON Schema: "),
    ("[[rules]]\naction = 'deny'\n[rules.arguments]\nproperties = 5\n", ":3: `arguments` must be a JSON Schema: "),
    ("[[rules]]\naction = 'deny'\narguments = {pattern = '('}\n", ":3: `arguments` has the pattern"),
    ("[[rules]]\naction = 'deny'\narguments = {'$ref' = 'http://x/y'}\n", ":3: `arguments` must be a JSON Schema: "),
    ("[[rules]]\naction = 'deny'\n[[rules]]\naction = 'no'\n", ":4: `action` must be"),
    ("[[rules]]\naction = 'deny'\naction = 'deny'\n", ":3: Cannot overwrite a value"),
    ("budgets = 5\n", ":1: `budgets` must be an array of tables, not 5"),
    ("[[budgets]]\n", ":1: the budget has no `calls`"),
    ("[[budgets]]\ncalls = 0\n", ":2: `calls` must be a number > 0, not 0"),
    ("[[budgets]]\ncalls = 1\nper = 'day'\n", ":3: `per` must be conversation, principal, tool or turn, not 'day'"),
    ("[[budgets]]\ncalls = 1\nwindow = -1\n", ":3: `window` must be a number of seconds > 0"),
    ("[[budgets]]\ncalls = 1\ntool = 'x'\n", ":3: unknown option `tool`; known: calls, per, window"),
    ("renames = 'x'\n", ":1: `renames` must be a table, not 'x'"),
    ("[renames]\na = 'pay'\nb = 5\n", ":3: `b` must be the name of a tool, not 5"),
    ("[renames]\n\na = ''\n", ":3: `a` must be the name of a tool, not ''"),
    ("[renames]\n'' = 'pay'\n", ":2: an empty name means no tool"),
    ("[renames]\na = 'b'\nb = 'pay'\n", ":2: 'b' is no tool: it has another name here itself"),
    ("[renames]\nc = 'pay'\na = 'a'\n", ":3: 'a' is no tool"),
    ("[renames]\na = 'pay'\na = 'look'\n", ":3: Cannot overwrite a value"),
    ("default = 'deny'\nattempts = 0\n", ":2: `attempts` must be an integer ≥ 1, not 0"),
    ("[limits]\nargument_bytes = 'x'\n", ":2: `argument_bytes` must be"),
    ("profile = 'loud'\n", ":1: "),
    ("[[rules]\naction = 'deny'\n", ":1: Expected"),
    ("[[rules]]\naction = deny\n", ":2: Invalid value"),
]


@pytest.mark.parametrize(("text", "expected"), WRONG)
def test_a_mistake_is_reported_with_its_line(text: str, expected: str, tmp_path: Path) -> None:
    """The text begins with the file and the line, and says what is allowed."""
    file = tmp_path / "policy.toml"
    file.write_text(text)
    with pytest.raises(SetupError) as caught:
        read_rules(file)
    assert str(caught.value).startswith(f"{file}{expected}")


def test_a_misspelt_tool_is_refused(tools: ToolRegistry, tmp_path: Path) -> None:
    """A name without a pattern that no tool has is a mistake: the rule would guard nothing. The line is in the text."""
    file = tmp_path / "policy.toml"
    file.write_text("[[rules]]\naction = 'deny'\n\n[[rules]]\ntool = ['p*', 'ordr']\naction = 'deny'\n")
    with pytest.raises(SetupError, match=r"policy\.toml:4: the rule names 'ordr', .* did you mean 'order'\?"):
        standard(tools, policy=file)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 'pya'", ":2: 'a' means 'pya', and there is no such tool"),
        ("a = 'alias of pay'", ":2: 'a' means 'alias of pay', and there is no such tool"),
        ("look = 'pay'", ":2: 'look' is the name of a tool already"),
        ("'alias of pay' = 'look'", ":2: 'alias of pay' is the name of a tool already"),
    ],
)
def test_a_rename_that_means_no_tool_or_two(text: str, expected: str, tmp_path: Path) -> None:
    """It is refused when the pipeline is built, with its line. A registry that is empty yet is not checked."""
    registry = ToolRegistry()
    file = tmp_path / "policy.toml"
    file.write_text(f"[renames]\n{text}\n")
    standard(registry, policy=file)
    registry.tool(aliases=("alias of pay",))(pay)
    registry.tool(effect="read")(look)
    with pytest.raises(SetupError) as caught:
        standard(registry, policy=file)
    assert str(caught.value).startswith(f"{file}{expected}")


def pay(to: str = "x") -> str:
    """Pay."""
    return f"paid {to}"


def look(at: str = "x") -> str:
    """Look."""
    return at


async def test_a_further_name_is_judged_as_the_tool(tmp_path: Path) -> None:
    """A call of it runs the tool, in its forms as well, and rules, budgets and reports see the tool's own name."""
    registry = ToolRegistry()
    registry.tool(pay)
    registry.tool(effect="read")(look)
    file = tmp_path / "policy.toml"
    file.write_text("""
[renames]
send_money = "pay"
view = "look"
[[rules]]
tool = "pay"
action = "deny"
[[rules]]
tool = "send_*"
action = "allow"
""")
    pipeline = standard(registry, policy=file, canonical_names=True)
    for name in ("send_money", "functions.send_money", "SendMoney", "pay"):
        assert kind_of(await pipeline.call(name)) == "permission"
    assert await pipeline.call("view", {"at": "y"}) == Success("y")
    report = await pipeline.report(Call("view"))
    assert [(repair.rule, repair.after) for repair in report.repairs] == [("alias", "look")]
    assert kind_of(await standard(registry).call("view")) == "unknown_tool"  # the registry is as it was
    registry.unregister("look")
    assert kind_of(await pipeline.call("view")) == "unknown_tool"
    registry.tool(name="view", effect="read")(look)
    assert await pipeline.call("view", {"at": "z"}) == Success("z")  # a tool's own name wins


def test_an_absent_file(tools: ToolRegistry, tmp_path: Path) -> None:
    """A policy that is not there is a mistake at set-up, and so is a value of another type."""
    with pytest.raises(SetupError, match=r"none\.toml: No such file"):
        standard(tools, policy=tmp_path / "none.toml")
    with pytest.raises(SetupError, match="must be the path of a policy file or a RuleSet"):
        Policy(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_a_rule_that_asks_a_person_needs_the_stage_for_it(tools: ToolRegistry) -> None:
    """Without the stage `approve` inside, a policy with that action is refused when the pipeline is built."""
    with pytest.raises(SetupError, match="policy needs approve inside of it"):
        standard(tools).after("validate", Policy(RuleSet((PolicyRule("approve"),))))


async def test_a_thousand_rules_are_searched_once_for_each_tool_and_caller(tools: ToolRegistry) -> None:
    """The rules that fit a tool and a principal are remembered; a new principal is searched for again."""
    rules = RuleSet((*(PolicyRule("deny", principal=f"t{n}-*") for n in range(1_000)), PolicyRule("allow")))
    pipeline = standard(tools, policy=rules)
    for principal, kind in (("t999-x", "permission"), ("u", None), ("t5-", "permission"), ("u", None)):
        outcome = await pipeline.call("look", {"at": "x"}, principal=principal)
        assert (None if isinstance(outcome, Success) else outcome.failure().kind) == kind


async def test_what_is_remembered_of_callers_is_bounded(tools: ToolRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers without end leave no more behind than was set, and each is judged by the rules whenever it comes."""
    monkeypatch.setattr(rule_sets, "_REMEMBERED", 3)
    rules = RuleSet((PolicyRule("deny", principal="even-*"), PolicyRule("allow")))
    pipeline = standard(tools, policy=rules)
    most = 0
    for number in (*range(10), *range(10)):
        who = "odd" if number % 2 else "even"
        outcome = await pipeline.call("look", {"at": "x"}, principal=f"{who}-{number}")
        assert kind_of(outcome) == ("permission" if who == "even" else None)
        most = max(most, len(cast("Any", rules)._rules))
    assert most == 3


DENY_LARGE = PolicyRule("deny", arguments=LARGE)


@pytest.mark.parametrize(
    ("rules", "default", "names", "denies"),
    [
        ((), "deny", [], True),
        ((), "allow", [], False),
        ((), "approve", [], False),
        ((PolicyRule("deny", "x*"),), "deny", [], True),
        ((PolicyRule("deny", "x*"),), "allow", [], False),
        ((PolicyRule("deny"),), "allow", ["rule 1"], True),
        ((PolicyRule("allow"), PolicyRule("deny")), "deny", ["rule 1"], False),
        ((PolicyRule("deny", principal="a"),), "deny", ["rule 1"], False),
        ((PolicyRule("deny", principal="a"), PolicyRule("deny")), "allow", ["rule 1", "rule 2"], False),
        ((DENY_LARGE,), "allow", ["rule 1"], False),
        (
            (PolicyRule("deny", "x*"), DENY_LARGE, PolicyRule("deny", principal="a")),
            "deny",
            ["rule 2", "rule 3"],
            False,
        ),
        ((PolicyRule("allow", "x*"), PolicyRule("deny", place="a:5"), PolicyRule("allow")), "allow", ["a:5"], True),
    ],
)
def test_which_rules_can_decide_on_a_tool(
    rules: tuple[PolicyRule, ...], default: Any, names: list[str], denies: bool, tools: ToolRegistry
) -> None:
    """Those that fit it, up to the first that fits each call of it; from them follows whether all calls are denied."""
    made = RuleSet(rules, default)
    tool = tools.tools["pay"]
    assert [name for name, _ in made.list_for(tool)] == names
    assert made.denies_all(tool) is denies


async def test_a_plan_shows_arguments_in_part(tools: ToolRegistry) -> None:
    """They have 2,000 characters at most, and the beginning of a long one is there."""
    pipeline = standard(tools, policy=RuleSet((PolicyRule("dry_run"),)))
    text = render(await pipeline.call("look", {"at": "y" * 5_000}))
    assert len(text.partition(" with ")[2].removesuffix(".")) == 2_000


async def test_one_file_has_rules_budgets_limits_and_words(tools: ToolRegistry, tmp_path: Path) -> None:
    """What an argument of `standard` says wins over the file; each budget is a quota behind the rules."""
    file = tmp_path / "policy.toml"
    file.write_text("""
attempts = 2
timeout = 9
profile = "structured"
[[budgets]]
calls = 1
per = "principal"
[limits]
argument_bytes = 100
[[rules]]
tool = "order"
action = "deny"
""")
    pipeline = standard(tools, policy=file)
    names = [stage.name for stage in pipeline.entries]
    assert names[3:8] == ["validate", "policy", "quota_1", "retry", "timeout"]
    assert pipeline.wording is not None
    assert [kind_of(await pipeline.call("order", {"item": {"price": 1}}, principal="a")) for _ in range(2)] == [
        "permission"
    ] * 2  # takes nothing from the budget
    assert [kind_of(await pipeline.call("look", {"at": "x"}, principal="a")) for _ in range(2)] == [None, "unavailable"]
    assert kind_of(await pipeline.call("look", {"at": "x"}, principal="b")) is None
    assert kind_of(await pipeline.call("look", {"at": "x" * 200})) == "malformed_call"
    assert "timeout" not in standard(tools, policy=RuleSet()).stages


@pytest.mark.parametrize("option", ["trust_annotations = true", "[tools.pay]\nclosed = true", "[telemetry]"])
def test_an_option_for_a_server_is_refused_without_one(option: str, tools: ToolRegistry, tmp_path: Path) -> None:
    """A registry would silently do without it. The line is in the text."""
    file = tmp_path / "policy.toml"
    file.write_text(f"attempts = 2\n{option}\n")
    with pytest.raises(SetupError, match=r"policy\.toml:2: `\w+` is for the server behind `toolcall proxy`"):
        standard(tools, policy=file)


async def test_a_plan_passes_all_stages(tools: ToolRegistry) -> None:
    """A person is named and not asked, the ledger keeps nothing, and a refusal inside comes as it would."""
    rules = RuleSet((PolicyRule("dry_run", "pay"),))
    store = Memory()
    pipeline = (
        standard(tools, store=store, policy=rules)
        .before("ledger", Approve(store, tools=["pay"]))
        .before("ledger", Quota(5))
        .after("quota", RateLimit(1, per=60))
    )
    text = render(await pipeline.call("pay", {"to": "Bob", "amount": 7, "pin": "1"}, id="1"))
    assert "pay would run, once a person has approved it, with {" in text
    assert await Approvals(store).list() == []
    assert [key async for key, _ in store.scan() if not key.startswith("o/")] == []
    assert kind_of(await pipeline.call("pay", {"to": "Bob", "amount": 7, "pin": "1"}, id="2")) == "unavailable"

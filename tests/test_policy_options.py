"""The options of policies: their ends and defaults, and a decision in words."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import attrs
import pytest

from toolcall_pipeline import Call, Limits, Secret, SetupError, ToolRegistry
from toolcall_pipeline.audit import AuditLog
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.policies import PolicyRule, RuleSet
from toolcall_pipeline.policies.facts import show_arguments
from toolcall_pipeline.policies.relay_policy import Budget, RelayLimits, RelayPolicy, TelemetryPolicy, ToolPolicy
from toolcall_pipeline.policies.rule_file import RuleFile
from toolcall_pipeline.policies.rules import Decision
from toolcall_pipeline.privacy import approved
from toolcall_pipeline.stores import Memory


def test_a_decision_in_words() -> None:
    """The action and the rule; the version if it has one; and that the arguments could not be judged."""
    words = approved("")
    assert Decision("deny", "rule 1", words, "").reason == "deny by rule 1"
    assert Decision("deny", "rule 1", words, "v7").reason == "deny by rule 1 of policy v7"
    undecided = "deny by rule 1 of policy v7, which cannot judge these arguments"
    assert Decision("deny", "rule 1", words, "v7", undecided=True).reason == undecided


@pytest.mark.parametrize(
    ("kind", "least", "wrong"),
    [
        (ToolPolicy, {"timeout": 0.001}, {"timeout": 0}),
        (ToolPolicy, {"attempts": 1}, {"attempts": 0}),
        (ToolPolicy, {"closed": True}, {"closed": 1}),
        (ToolPolicy, {"verify_with": "look"}, {"verify_with": 5}),
        (ToolPolicy, {"effect": "mutating"}, {"effect": "keyed"}),
        (Budget, {"calls": 0.5}, {"calls": 0}),
        (Budget, {"calls": 1, "window": 0.001}, {"calls": 1, "window": 0}),
        (Budget, {"calls": 1, "per": "turn"}, {"calls": 1, "per": "day"}),
        (RelayLimits, {"line_bytes": 1_000}, {"line_bytes": 999}),
        (RelayLimits, {"in_flight": 1}, {"in_flight": 0}),
        (RelayLimits, {"in_flight_bytes": 1_000}, {"in_flight_bytes": 999}),
        (RelayLimits, {"argument_bytes": 1}, {"argument_bytes": 0}),
        (RelayLimits, {"argument_depth": 1}, {"argument_depth": 0}),
        (RelayLimits, {"argument_keys": 1}, {"argument_keys": 0}),
        (RelayLimits, {"server_wait": 0.001}, {"server_wait": 0}),
        (RelayLimits, {"list_wait": 0.001}, {"list_wait": 0}),
        (TelemetryPolicy, {"endpoint": "http://a:1"}, {"endpoint": 5}),
        (TelemetryPolicy, {"service_name": "a"}, {"service_name": 5}),
        (TelemetryPolicy, {"content": True}, {"content": 1}),
        (TelemetryPolicy, {"console": True}, {"console": 1}),
        (TelemetryPolicy, {"stages": False}, {"stages": 0}),
        (RelayPolicy, {"timeout": 0.001}, {"timeout": 0}),
        (RelayPolicy, {"attempts": 1}, {"attempts": 0}),
        (RelayPolicy, {"trust_annotations": True}, {"trust_annotations": 1}),
        (RelayPolicy, {"canonical_names": False}, {"canonical_names": 0}),
        (RelayPolicy, {"redact": ("a",)}, {"redact": ("a", "")}),
        (PolicyRule, {"action": "deny", "effect": ["keyed"]}, {"action": "deny", "effect": ["KEYED"]}),
        (RuleSet, {"default": "dry_run"}, {"default": "ask"}),
    ],
)
def test_the_ends_of_each_option(kind: Any, least: dict[str, Any], wrong: dict[str, Any]) -> None:
    """The least value that is allowed is taken, and the next one below, or of another type, is a mistake."""
    kind(**least)
    with pytest.raises(SetupError, match=list(wrong)[-1].removeprefix("argument_")):
        kind(**wrong)


def test_what_a_relay_takes_unless_a_policy_says_otherwise() -> None:
    """The defaults are those that the documentation of the options names."""
    limits = RelayLimits()
    mega = 1024 * 1024
    assert (limits.line_bytes, limits.in_flight, limits.in_flight_bytes) == (16 * mega, 1_000, 64 * mega)
    assert limits.of_arguments() == Limits(bytes=16 * mega, depth=64, keys=50_000)
    assert (limits.server_wait, limits.list_wait) == (10, 30)
    assert (RelayPolicy().attempts, RelayPolicy().of_tool("x")) == (3, ToolPolicy())
    assert (RelayPolicy().wording, RelayPolicy().make_redact()) == (None, None)
    assert RelayPolicy(verbosity="terse").wording is not None


class Odd:
    """What has no JSON form."""

    def __repr__(self) -> str:
        return "the code is hunter22"


@pytest.mark.parametrize("is_secret", [False, True])
def test_arguments_that_no_rule_can_judge_are_shown(is_secret: bool) -> None:
    """As a result would be; of a tool with a declared secret no value is shown, for the mask goes by the schema."""
    tools = ToolRegistry()

    @tools.tool
    def act(value: Any = None, code: Annotated[str, Secret] = "none") -> None: ...

    @tools.tool
    def look(value: Any = None, code: str = "none") -> None: ...

    pipeline = standard(tools)
    found: Any = pipeline.resolve(Call("act" if is_secret else "look", {"value": 1}))
    call: Any = pipeline.validate(found)
    shown = show_arguments(attrs.evolve(call, params={"value": Odd(), "code": "hunter22"}))
    assert list(shown) == ["value", "code"]
    assert ("hunter22" in str(shown)) is not is_secret


@pytest.mark.parametrize(
    ("made", "names"),
    [
        (AuditLog, ["store", "secret"]),
        (Memory, []),
        (RuleFile, ["path"]),
        (RuleSet, ["rules", "default", "version"]),
        (PolicyRule, ["action", "tool", "effect", "principal", "arguments", "message", "place"]),
    ],
)
def test_what_a_class_keeps_for_itself_cannot_be_given(made: type, names: list[str]) -> None:
    """Its arguments are those of its documentation: a field for its own use is not one of them."""
    assert list(inspect.signature(made).parameters) == names

"""RuleSet: rules in order; the first that fits a call decides."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from fnmatch import translate
from typing import Any, Literal, TypeAlias, cast, get_args

import attrs

from ..base.options import refuse
from ..base.setup_error import SetupError
from ..engine.call import ValidCall
from ..engine.call_state import StateKey
from ..parameters import CannotSay, check_schema
from ..privacy import PublicText, approved
from ..tools.definition import Tool
from ..tools.tool_memory import ToolMemory
from ..tools.tool_options import Effect
from .facts import make_plain_arguments

# allow: the call runs. deny: it does not. approve: a person decides. dry_run: all but the body runs.
Action: TypeAlias = Literal["allow", "deny", "approve", "dry_run"]
_ACTIONS: tuple[Action, ...] = get_args(Action)
_EFFECTS = frozenset(get_args(Effect))
_LIST: Any = list  # under this name type checkers do not narrow to `list[Unknown]`
_WILD = re.compile(r"[*?\[]")
_PATTERN_BYTES = 1_000_000  # of one compiled pattern
_REMEMBERED = 16_384  # pairs of a tool and a principal whose rules are known without another search


@attrs.frozen
class Decision:
    """The decision of a policy on one call.

    Attributes:
        action: The action to take.
        rule: The rule that decided, as ``policy.toml:12``, or ``default``.
        message: The words of the rule's author for the model. "": none.
        version: The version of the policy.
        undecided: Whether the rule could not say if the arguments fit, so the action is not its own. Default False.
    """

    action: Action
    rule: str
    message: PublicText
    version: str
    undecided: bool = False

    @property
    def reason(self) -> str:
        """The decision in words, for a report, a span and an approval."""
        told = f"{self.action} by {self.rule}" + (f" of policy {self.version}" if self.version else "")
        return f"{told}, which cannot judge these arguments" if self.undecided else told


def _as_tuple(given: Any) -> Any:
    """One text or several, as a tuple; anything else as it is, for the check that follows."""
    if isinstance(given, str):
        return (given,)
    is_list = type(given) is _LIST and given
    return tuple(given) if is_list else given


def _check_texts(_rule: object, field: attrs.Attribute[Any], given: object) -> None:
    if not isinstance(given, tuple) or not all(isinstance(each, str) and each for each in cast("Any", given)):
        refuse("PolicyRule", field.name, "a text or an array of texts that are not empty", cast("object", given))


@attrs.frozen
class PolicyRule:
    """One rule. It fits a call if all that it says fits; a rule that says nothing fits every call.

    Args:
        action: The action for a call that it fits: ``allow``, ``deny``, ``approve`` or ``dry_run``.
        tool: Names of tools, or patterns such as ``delete_*``. Default: every tool.
        effect: Effects of tools. Default: every effect.
        principal: Names of principals, or patterns. Default: every caller, also one without a name.
        arguments: A JSON Schema that the arguments fit, as the tool would get them, with the defaults of those that
            were left out. Its patterns run in linear time. Where it cannot judge the arguments, the call is denied, or
            a person is asked if the action is ``approve``. A Decimal counts as a number. Default None: any arguments.
        message: Words for the model, in place of the fixed text of a refusal. Default "": the fixed text.
        place: The file and line of the rule. Default "": it was made in code.

    Raises:
        SetupError: An option has another type or value, or the schema does not compile.
    """

    action: Action
    tool: tuple[str, ...] = attrs.field(default=(), converter=_as_tuple, validator=_check_texts)
    effect: tuple[str, ...] = attrs.field(default=(), converter=_as_tuple, validator=_check_texts)
    principal: tuple[str, ...] = attrs.field(default=(), converter=_as_tuple, validator=_check_texts)
    arguments: Mapping[str, Any] | None = attrs.field(default=None, hash=False)
    message: str = ""
    place: str = ""
    _fits_arguments: Callable[[Any], bool] | None = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        if self.action not in _ACTIONS:
            refuse("PolicyRule", "action", ", ".join(_ACTIONS[:-1]) + f" or {_ACTIONS[-1]}", self.action)
        if unknown := set(self.effect) - _EFFECTS:
            refuse("PolicyRule", "effect", "read, idempotent, keyed or mutating", min(unknown))
        if not isinstance(cast("object", self.message), str):
            refuse("PolicyRule", "message", "a text", self.message)
        object.__setattr__(self, "_fits_arguments", _compile_arguments(self.arguments))

    def fits_tool(self, tool: Tool[..., Any]) -> bool:
        """Whether tool and effect fit; the rest is asked for each call."""
        return (not self.effect or tool.effect in self.effect) and (not self.tool or _matches(self.tool, tool.name))

    def fits_principal(self, principal: str) -> bool:
        """Whether the principal fits."""
        return not self.principal or _matches(self.principal, principal)

    def fits_arguments(self, arguments: Any) -> bool:
        """Whether arguments, as plain JSON values, fit.

        Raises:
            CannotSay: They hold something that the schema cannot judge, such as half of a surrogate pair.
        """
        if self._fits_arguments is None:
            return True
        try:
            return self._fits_arguments(arguments)
        except (ValueError, RecursionError) as exc:  # a text that UTF-8 cannot write, too many levels or digits
            raise CannotSay(str(exc)) from exc


_Rules: TypeAlias = tuple[tuple[int, PolicyRule], ...]  # each with its place in the order


@attrs.define(eq=False)
class RuleSet:
    """Rules in order: the first that fits a call decides, else the default does.

    Args:
        rules: The rules, the most important first.
        default: The action for a call that no rule fits. Default ``allow``.
        version: The version of the rules, which stands in every decision. Default "": none.

    Attributes:
        replaced: The version whose place it took, see `RuleFile`. "": none.
        decided: The decisions on all calls of a tool, where they let it pass and neither caller nor arguments change
            them: by the effect and the name of the tool. A stage may look here before it calls `decide`.

    Raises:
        SetupError: An option has another type or value.
    """

    rules: tuple[PolicyRule, ...] = ()
    default: Action = "allow"
    version: str = ""
    replaced: str = attrs.field(init=False, default="")
    decided: ToolMemory[Decision] = attrs.field(init=False, repr=False, factory=ToolMemory[Decision])
    # By name and effect of a tool, and principal: a thousand patterns are a thousand searches.
    _rules: dict[tuple[str, str, str], _Rules] = attrs.field(init=False, repr=False, factory=dict[Any, Any])

    def __attrs_post_init__(self) -> None:
        if self.default not in _ACTIONS:
            refuse("policy", "default", ", ".join(_ACTIONS[:-1]) + f" or {_ACTIONS[-1]}", self.default)

    @property
    def actions(self) -> frozenset[Action]:
        """The actions that it can decide for."""
        return frozenset((self.default, *(rule.action for rule in self.rules)))

    def decide(self, call: ValidCall) -> Decision:
        """The decision on a call."""
        tool = call.tool
        return self.decided[tool.effect].get(tool.name) or self._decide(call)

    def _decide(self, call: ValidCall) -> Decision:
        tool = call.tool
        key = (tool.name, tool.effect, call.principal)
        rules = self._rules.get(key)
        if rules is None:
            rules = self._rules_of(tool)
            if not rules or (not rules[0][1].principal and rules[0][1].arguments is None):
                decision = self._decide_by(*rules[0]) if rules else self._default_decision()
                if decision.action != "deny":
                    return self.decided.remember(tool, decision)
            rules = tuple(each for each in rules if each[1].fits_principal(call.principal))
            if len(self._rules) >= _REMEMBERED:
                self._rules.clear()
            self._rules[key] = rules
        return self._decide_by_arguments(rules, call)

    def _decide_by_arguments(self, rules: _Rules, call: ValidCall) -> Decision:
        arguments: Any = None
        for number, rule in rules:
            if rule.arguments is not None:
                try:
                    if arguments is None:
                        arguments = make_plain_arguments(call)
                    if not rule.fits_arguments(arguments):
                        continue
                except CannotSay:  # it might fit, or a rule behind it: only a person may let the call pass
                    action: Action = "approve" if rule.action == "approve" else "deny"
                    return attrs.evolve(self._decide_by(number, rule), action=action, undecided=True)
            return self._decide_by(number, rule)
        return self._default_decision()

    def _default_decision(self) -> Decision:
        return Decision(self.default, "default", approved(""), self.version)

    def _decide_by(self, number: int, rule: PolicyRule) -> Decision:
        return Decision(rule.action, _name(number, rule), approved(rule.message), self.version)

    def needs_approval(self, call: ValidCall) -> str | bool:
        """The reason why a person has to decide on a call; False: none has to. For ``needs=`` of `Approve`."""
        decision = self.decide(call)
        return decision.reason if decision.action == "approve" else False

    def list_for(self, tool: Tool[..., Any]) -> list[tuple[str, PolicyRule]]:
        """The rules that can decide on calls of a tool, in order, with their names."""
        return [(_name(number, rule), rule) for number, rule in self._rules_of(tool)]

    def list_tool_names(self) -> Iterator[tuple[str, str]]:
        """The names of tools in the rules, patterns left out, each behind the place of its rule."""
        for number, rule in enumerate(self.rules):
            place = f"{_name(number, rule)}: the rule"
            yield from ((place, name) for name in rule.tool if _WILD.search(name) is None)

    def find_mistakes(self, known: Collection[str]) -> Iterator[str]:
        """The rules that name, without a pattern, a tool that is not there, in words."""
        for place, name in self.list_tool_names():
            if name not in known:
                from difflib import get_close_matches  # only here

                near = get_close_matches(name, known, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                yield f"{place} names {name!r}, and there is no such tool{hint}"

    def denies_all(self, tool: Tool[..., Any]) -> bool:
        """Whether it denies each call of a tool, whoever makes it and with whatever arguments."""
        rules = self._rules_of(tool)
        if not rules:
            return self.default == "deny"
        return rules[0][1].action == "deny" and not rules[0][1].principal and rules[0][1].arguments is None

    def _rules_of(self, tool: Tool[..., Any]) -> _Rules:
        """The rules that fit a tool, up to the first that fits every call of it."""
        kept: list[tuple[int, PolicyRule]] = []
        for number, rule in enumerate(self.rules):
            if rule.fits_tool(tool):
                kept.append((number, rule))
                if not rule.principal and rule.arguments is None:
                    break
        return tuple(kept)


JUDGED: StateKey[RuleSet | None] = StateKey("toolcall-pipeline.judged")  # the rules that a call was judged by


def _name(number: int, rule: PolicyRule) -> str:
    return rule.place or f"rule {number + 1}"


def _matches(patterns: tuple[str, ...], text: str) -> bool:
    """Whether a text fits one of some patterns. Large and small letters are different letters."""
    return any(each == text or (_WILD.search(each) and re.match(translate(each), text)) for each in patterns)


def _compile_arguments(schema: object) -> Callable[[Any], bool] | None:
    if schema is None:
        return None
    if not isinstance(schema, Mapping):
        refuse("PolicyRule", "arguments", "a JSON Schema, which is a table", schema)
    import jsonschema_rs

    check_schema(cast("object", schema), "arguments")
    try:
        # Linear in the length of a text: with a limit on steps instead, a long text would pass a rule that denies.
        patterns = jsonschema_rs.RegexOptions(size_limit=_PATTERN_BYTES)
        return jsonschema_rs.validator_for(dict(cast("Any", schema)), offline=True, pattern_options=patterns).is_valid
    except jsonschema_rs.ValidationError as exc:
        problem = exc.message.splitlines()[0]
        pattern, is_pattern, _ = problem.partition(' is not a "regex"')
        if is_pattern:
            raise SetupError(
                f"PolicyRule: `arguments` has the pattern {pattern}, which does not run in linear time or is no "
                "pattern. Write it without look-around, back references, atomic groups and large counts: as "
                "`not`, `anyOf` or `allOf` of plain patterns, or with `enum` or `maxLength`"
            ) from exc
        raise SetupError(f"PolicyRule: `arguments` must be a JSON Schema: {problem}") from exc
    except (ValueError, jsonschema_rs.ReferencingError) as exc:
        raise SetupError(f"PolicyRule: `arguments` must be a JSON Schema: {str(exc).splitlines()[0]}") from exc

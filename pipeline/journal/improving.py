"""improve: what a journal says of the tools of a pipeline, as proposals with their evidence. Nothing is applied.

An alias is tried: the recorded calls of the name, and those of the tool, are replayed with it and without it, so the
calls that it would have saved or broken are counted exactly. What an example, a text or a check would have changed, a
record cannot say: of those the proposal has the evidence alone.
"""

from __future__ import annotations

import builtins
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, cast

import attrs

from ..engine.compose import Pipeline
from ..engine.report.json_form import Form, is_replayable
from ..tools import Tool, ToolRegistry
from .faults import read_fields
from .recovery import NO_TOOL, Recoveries, Recovery, Share, list_suggestions
from .replaying import NO_RECORD, SUCCESS, replay

Option: TypeAlias = Literal["aliases", "examples", "reveal", "verify_with", "verify", "effect"]
_AT_LEAST: Final = 3  # calls, below which nothing is proposed
_MAJORITY: Final = 0.6  # of the tools that the model meant by a name
_MOST_VALUES: Final = 100  # different values of one parameter
_LONGEST: Final = 100  # characters of a value in an example
_MOST_NAMES: Final = 10_000  # that no tool has
_MOST_CALLS: Final = 1_000  # of one such name
_SHARE: Final = 0.05  # of the calls of a tool that leave out a parameter, below which no example is proposed
_LOOKS: Final = frozenset(("get", "list", "find", "search", "read", "show", "check", "count", "view", "fetch"))


@attrs.frozen
class Trial:
    """Recorded calls with a proposal, against the same calls without it."""

    saved: Share  # of the failures, those that would have reached the tool
    broken: Share  # of the successes, those that would have failed


@attrs.frozen
class Proposal:
    """One change of a tool.

    Attributes:
        tool: Its name.
        option: What is changed: of the declaration, or the ``examples`` of a parameter.
        value: As Python code; "": it has to be written.
        parameter: Of ``examples``.
        why: The evidence, in one sentence.
        calls: The calls with that failure, of all calls of the tool, or of the name.
        recovery: What the model made of such failures. None: not known.
        trial: None: a record cannot say.
        caution: What to look at before it is applied.
    """

    tool: str
    option: Option
    value: str
    why: str
    calls: Share
    parameter: str = ""
    recovery: Recovery | None = attrs.field(default=None, repr=False)
    trial: Trial | None = None
    caution: str = ""

    def as_json(self) -> dict[str, Any]:
        """The proposal as JSON data."""
        return {
            "tool": self.tool,
            "option": self.option,
            "value": self.value,
            "parameter": self.parameter,
            "why": self.why,
            "calls": self.calls.as_json(),
            "recovery": None if self.recovery is None else self.recovery.as_json(),
            "trial": self.trial and {"saved": self.trial.saved.as_json(), "broken": self.trial.broken.as_json()},
            "caution": self.caution,
        }


@attrs.define
class _Evidence:
    """The counts of the calls, made in one pass."""

    calls: Counter[str] = attrs.field(factory=Counter[str])
    unknown: dict[str, list[Form]] = attrs.field(factory=dict[str, list[Form]])
    meant: defaultdict[str, Counter[str]] = attrs.field(factory=lambda: defaultdict[str, Counter[str]](Counter[str]))
    missed: Counter[tuple[str, str]] = attrs.field(factory=Counter[tuple[str, str]])
    values: defaultdict[tuple[str, str], Counter[str]] = attrs.field(
        factory=lambda: defaultdict[tuple[str, str], Counter[str]](Counter[str])
    )
    crashes: Counter[tuple[str, str]] = attrs.field(factory=Counter[tuple[str, str]])
    lost: Counter[str] = attrs.field(factory=Counter[str])
    looked: defaultdict[str, Counter[str]] = attrs.field(factory=lambda: defaultdict[str, Counter[str]](Counter[str]))
    recoveries: Recoveries = attrs.field(factory=Recoveries)


async def improve(pipeline: Pipeline, forms: Iterable[Form], *, at_least: int = _AT_LEAST) -> list[Proposal]:
    """Propose changes of the tools of a pipeline.

    Args:
        pipeline: It. Its registries are as before afterwards.
        forms: The calls of a journal, in their order.
        at_least: Calls that have to fail in one way. Default 3.

    Returns:
        The proposals, that with the most calls first.
    """
    found, held = _collect(forms)
    tools = {tool.name: tool for registry in pipeline.registries for tool in registry}
    proposals = [
        *_propose_examples(found, tools, at_least),
        *_propose_texts(found, tools, at_least),
        *_propose_checks(found, tools, at_least),
    ]
    for name, calls in found.unknown.items():
        if len(calls) >= at_least and (tool := _find_meant(found, name, tools)) is not None:
            proposal = await _try_alias(pipeline, found, name, tool, [*calls, *held[tool.name]])
            proposals += [] if proposal is None else [proposal]
    return sorted(proposals, key=lambda each: (-each.calls.part, each.tool, each.option, each.value))


def _collect(forms: Iterable[Form]) -> tuple[_Evidence, Mapping[str, Sequence[Form]]]:
    """The evidence, and for each tool some of its calls."""
    found, held = _Evidence(), defaultdict[str, list[Form]](list)
    waiting: dict[tuple[str, str], Form] = {}  # the last call of each conversation, if it has to be explained
    for form in forms:
        name = NO_TOOL if form["tool"] is None else str(form["tool"])
        found.calls[name] += 1
        found.recoveries.add(form)
        before = waiting.pop((form["principal"], form["conversation"]), None) if form["conversation"] else None
        if before is not None and form["tool"] is not None:
            _explain(found, before, form)
        if form["tool"] is not None and len(held[name]) < _MOST_CALLS:
            held[name].append(form)
        if form["outcome"] == "success":
            _note_values(found, form)
        elif form["outcome"] == "failure":
            _note_failure(found, name, form)
            if form["kind"] in ("unknown_tool", "outcome_unknown") and form["conversation"]:
                waiting[form["principal"], form["conversation"]] = form
    return found, held


def _explain(found: _Evidence, before: Form, form: Form) -> None:
    """Take down what the model called after a name that no tool has, or after a call whose effect is not known."""
    if before["kind"] == "outcome_unknown":
        found.looked[before["tool"]][form["tool"]] += form["tool"] != before["tool"]
    elif form["outcome"] == "success":
        is_same = bool(before.get("arguments")) and before.get("arguments") == form.get("arguments")
        if is_same or form["tool"] in list_suggestions(before):
            found.meant[before["name"]][form["tool"]] += 1


def _note_values(found: _Evidence, form: Form) -> None:
    arguments: Any = form.get("arguments")
    if not isinstance(arguments, dict) or not is_replayable(form) or form["repairs"]:
        return
    for name, value in cast("dict[str, Any]", arguments).items():
        text = json.dumps(value)
        values = found.values[form["tool"], name]
        if len(text) <= _LONGEST and value not in (None, "", [], {}) and (text in values or len(values) < _MOST_VALUES):
            values[text] += 1


def _note_failure(found: _Evidence, name: str, form: Form) -> None:
    fields = read_fields(form)
    match form["kind"]:
        case "unknown_tool" if isinstance(form["name"], str) and form["name"]:
            calls = found.unknown.setdefault(form["name"], []) if len(found.unknown) < _MOST_NAMES else []
            if len(calls) < _MOST_CALLS:
                calls.append(form)
        case "validation":
            problems = [each["fields"] for each in fields.get("problems", ())]
            found.missed.update({(name, str(each["path"])) for each in problems if each["rule"] == "required"})
        case "internal":
            held: Mapping[str, object] = fields.get("cause") or {}
            cause = held.get("cause")
            if isinstance(cause, str):
                found.crashes[name, cause] += 1
        case "outcome_unknown":
            found.lost[name] += 1
        case _:
            pass


def _find_meant(found: _Evidence, name: str, tools: Mapping[str, Tool[..., Any]]) -> Tool[..., Any] | None:
    """The tool that the model called after a name. What a text suggests is no evidence: names that are near mislead."""
    meant = found.meant.get(name)
    if not meant:
        return None
    best, count = meant.most_common(1)[0]
    return tools.get(best) if count >= _MAJORITY * meant.total() else None


async def _try_alias(
    pipeline: Pipeline, found: _Evidence, name: str, tool: Tool[..., Any], forms: Sequence[Form]
) -> Proposal | None:
    """Replay with the alias and without it. None: it would save nothing."""
    registry = next((each for each in pipeline.registries if each.tools.get(tool.name) is tool), None)
    if not isinstance(registry, ToolRegistry) or name in registry.aliases or name in registry.tools:
        return None
    forms = sorted((form for form in forms if is_replayable(form)), key=lambda form: form["at"])
    before = await _find_ends(pipeline, forms)
    registry.replace(attrs.evolve(tool, aliases=(*tool.aliases, name)))
    try:
        after = await _find_ends(pipeline, forms)
    finally:
        registry.replace(tool)
    pairs = list(zip(before, after, strict=True))
    ends = (SUCCESS, NO_RECORD)
    failed = [now for then, now in pairs if then not in ends]
    ran = [now for then, now in pairs if then in ends]
    saved, broken = (
        Share(sum(now in ends for now in failed), len(failed)),
        Share(sum(now not in ends for now in ran), len(ran)),
    )
    calls = Share(len(found.unknown[name]), found.calls[NO_TOOL])
    if not saved.part or saved.part <= broken.part:
        return None
    meant = found.meant[name]
    then = f"; then it called {tool.name} in {meant[tool.name]:,} of {meant.total():,} cases"
    caution = "" if tool.effect == "read" else f"{tool.name} changes something: be sure that both names mean the same"
    return Proposal(
        tool.name,
        "aliases",
        repr(name),
        f"the model called {name}, which no tool is{then}",
        calls,
        trial=Trial(saved, broken),
        caution=caution,
    )


async def _find_ends(pipeline: Pipeline, forms: Sequence[Form]) -> list[str]:
    ends: list[str] = []
    for form in forms:
        found = await replay(pipeline, [form])
        (changes,) = (tool.changes for tool in found.tools.values())
        same = SUCCESS if form["outcome"] == "success" else str(form["kind"])
        ends.append(next((after for _, after in changes), same))
    return ends


def _propose_examples(found: _Evidence, tools: Mapping[str, Tool[..., Any]], at_least: int) -> Iterator[Proposal]:
    """Examples of values that worked, for parameters that are left out."""
    for (name, path), count in found.missed.items():
        values = found.values.get((name, path))
        if count < max(at_least, _SHARE * found.calls[name]) or name not in tools or not values:
            continue
        declared = tools[name].parameters.schema.get("properties", {}).get(path, {})
        if "examples" in declared or "default" in declared:
            continue
        yield Proposal(
            name,
            "examples",
            repr([json.loads(values.most_common(1)[0][0])]),
            f"the model left out {path}",
            Share(count, found.calls[name]),
            path,
            _find_recovery(found, "validation", name),
            caution="the value is from a recorded call: see that it is nobody's own",
        )


def _propose_texts(found: _Evidence, tools: Mapping[str, Tool[..., Any]], at_least: int) -> Iterator[Proposal]:
    """``reveal=`` for exceptions whose text the model does not read."""
    for (name, cause), count in found.crashes.items():
        if count < at_least or name not in tools:
            continue
        is_builtin = isinstance(getattr(builtins, cause, None), type)
        yield Proposal(
            name,
            "reveal",
            cause,
            f"it raised {cause}, and the model read nothing of why",
            Share(count, found.calls[name]),
            "",
            _find_recovery(found, "internal", name),
            caution="the model reads its text then: see that it holds nothing private"
            + ("" if is_builtin else f", and import {cause}"),
        )


def _propose_checks(found: _Evidence, tools: Mapping[str, Tool[..., Any]], at_least: int) -> Iterator[Proposal]:
    """The options that find out whether a lost call took effect, or say that it has none."""
    for name, count in found.lost.items():
        tool = tools.get(name)
        if count < at_least or tool is None or tool.verify is not None or tool.verify_with is not None:
            continue
        looked = found.looked.get(name, Counter[str]())
        reads = [each for each, _ in looked.most_common() if each in tools and tools[each].effect == "read"]
        why, share = "it is not known whether the call took effect", Share(count, found.calls[name])
        recovery = _find_recovery(found, "outcome_unknown", name)
        if name.lower().replace("-", "_").split("_")[0] in _LOOKS and tool.effect == "mutating":
            caution = "only if it changes nothing: its failed calls are then repeated"
            yield Proposal(name, "effect", "'read'", why, share, "", recovery, caution=caution)
        elif reads:
            then = f"; then it called {reads[0]} in {looked[reads[0]]:,} of {looked.total():,} cases"
            yield Proposal(name, "verify_with", repr(reads[0]), why + then, share, "", recovery)
        else:
            yield Proposal(name, "verify", "", why, share, "", recovery, caution="write a function that looks it up")


def _find_recovery(found: _Evidence, kind: str, tool: str) -> Recovery | None:
    """The chains of a kind and a tool, whatever their wording, if there is one."""
    groups = [each for (k, t, _), each in found.recoveries.groups.items() if (k, t) == (kind, tool)]
    return max(groups, key=lambda each: each.chains, default=None)

"""explain: one call of a journal, in sentences."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from returns.result import Failure

from ..engine.errors import OutcomeUnknown
from ..engine.report.json_form import Form, read_form
from ..messages import render
from ..messages.values import elide_middle
from .faults import find_fault
from .summary import find_next, name_next_step

_SHOWN: Final = 2_000  # characters of arguments, of a value, or of a text
_SHORT: Final = 200
_NEXT: Final = {
    "same again": "It sent the same call again.",
    "mended": "It sent another call, which succeeded.",
    "failed again": "It sent another call of the same tool, which failed too.",
    "another tool": "It went on with another tool.",
    "the same tool": "It called the same tool again.",
}
_FAULTS: Final = {
    "model": "The model can mend it",
    "tool": "The tool or its set-up is at fault",
    "backend": "What is behind the tool failed",
    "policy": "A rule or a limit refused it",
    "person": "A person has to answer",
}
_EFFECTS: Final = {
    "read": "reads",
    "idempotent": "may be run again",
    "keyed": "is repeated with the same key",
    "mutating": "changes something, so it is not run again once it may have taken effect",
}


def explain(form: Form, conversation: Sequence[Form] = ()) -> list[str]:
    """Say what happened to a call: a paragraph for each step, from what was sent to what came after it.

    The texts hold what the model and the tools wrote: escape them before they are shown.

    Args:
        form: The call.
        conversation: All calls of its conversation, in order. Default: none is known.
    """
    paragraphs = [
        " ".join(_say_sent(form)),
        " ".join(_say_repaired(form)),
        " ".join(_say_decided(form)),
        " ".join(_say_run(form)),
        " ".join(_say_told(form)),
        " ".join(_say_next(form, conversation)),
        " ".join(_say_otherwise(form)),
    ]
    return [each for each in paragraphs if each]


def _say_sent(form: Form) -> Iterator[str]:
    when = datetime.fromtimestamp(form["at"] / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    asker = f" for {elide_middle(form['principal'], _SHORT)}" if form["principal"] else ""
    talk = f" in the conversation {elide_middle(form['conversation'], _SHORT)}" if form["conversation"] else ""
    yield f"At {when} the model called {_quote(form['name'])}{asker}{talk}."
    if "arguments" not in form:
        yield "Its arguments were not kept."
    elif form["arguments"] is None:
        yield "It sent no arguments."
    else:
        shown = _show(form["arguments"])
        yield f"It sent:\n{shown}\n" if "\n" in shown else f"It sent {shown}."
        if form["masked"]:
            yield "Secrets are masked in them, so the call cannot be replayed."
        elif form["cut"]:
            yield "What was too long is cut, so the call cannot be replayed."
    if form["tool"] is None:
        yield "No tool has that name."
    elif form["tool"] != form["name"]:
        yield f"That is the tool {form['tool']}, which {_EFFECTS[form['effect']]}."
    else:
        yield f"The tool {_EFFECTS[form['effect']]}."


def _say_repaired(form: Form) -> Iterator[str]:
    for path, rule, before, after in form["repairs"]:
        place = _quote(path) if path else "the arguments"
        change = (
            "" if before is None and after is None else f": {_show(before, _SHORT)} was read as {_show(after, _SHORT)}"
        )
        yield f"The rule {rule} repaired {place}{change}."


def _say_decided(form: Form) -> Iterator[str]:
    took = f"after {form['seconds'] * 1e3:.3g} ms"
    if form["replayed"]:
        yield "The call had run before, so it got the outcome of then."
    if form["outcome"] == "success":
        yield f"It succeeded {took}."
    elif form["outcome"] == "cancelled":
        yield f"Its caller cancelled it {took}."
    else:
        stage = f"The stage {form['decided_by']} decided that" if form["decided_by"] else "The pipeline decided that"
        fault = find_fault(form)
        yield f"{stage}: it failed {took} as {form['kind']}. {_FAULTS[fault] if fault else ''}."
        yield from _say_problems(form)


def _say_problems(form: Form) -> Iterator[str]:
    """The reasons in the error that the text for the model does not name."""
    fields: dict[str, Any] = form.get("error", {}).get("fields", {})
    for problem in fields.get("problems", ()):
        held = problem["fields"]
        place = _quote(held["path"]) if held["path"] else "The arguments as a whole"
        got = f", and got {held['got']}" if held["got"] else ""
        yield f"{place} broke the rule {held['rule']}: the tool wants {held['expected']}{got}."
    for name, words in (("by", "It was refused by"), ("reason", "The reason is")):
        if isinstance(fields.get(name), str) and fields[name]:
            yield f"{words} {elide_middle(fields[name], _SHOWN)}."
    cause = fields.get("cause")
    if isinstance(cause, dict) and "cause" in cause:
        yield f"The tool raised {cause['cause']}."


def _say_run(form: Form) -> Iterator[str]:
    runs = [each for each in form["attempts"] if each[1]]
    if not runs:
        if form["outcome"] != "success":
            yield "The body of the tool did not run."
        return
    if len(runs) == 1:
        yield f"The body ran once ({runs[0][1]}, {(runs[0][3] - runs[0][2]) / 1e6:.3g} ms)."
    else:
        yield f"The body ran {len(runs)} times."
        for number, executor, start, end, wait, verdict, _ in runs:
            waited = f" after a wait of {wait:.3g} s" if wait else ""
            ended = "succeeded" if verdict is None else f"ended as {verdict}"
            yield f"Attempt {number}{waited} ({executor}, {(end - start) / 1e6:.3g} ms) {ended}."
    for attempt, wait, reason in form["decisions"]:
        decided = "It was not repeated" if wait is None else f"It was repeated after {wait:.3g} s"
        yield f"After attempt {attempt}: {decided}: {reason}."
    landed = runs[-1][6]
    if form["effect"] != "read" and form["outcome"] != "success":
        yield {"no": "Nothing was changed.", "maybe": "It may have taken effect.", "yes": "It took effect."}[landed]


def _say_told(form: Form) -> Iterator[str]:
    if "told" not in form:
        yield "What the model was told was not kept."
    elif form["told"]:
        profile = "" if form["wording"] == "default" else f" (profile {form['wording']})"
        yield f"The model was told{profile}: {elide_middle(form['told'], _SHOWN)}"


def _say_next(form: Form, conversation: Sequence[Form]) -> Iterator[str]:
    if form["outcome"] != "failure" or not form["conversation"]:
        return
    place = next((place for place, each in enumerate(conversation) if each == form), None)
    if place is None:
        return
    following = find_next(form, conversation[place + 1 :])
    if following is None:
        yield "It sent no later call in this conversation."
    else:
        yield _NEXT[name_next_step(form, following)]
        yield f"(That is the call {_quote(following['id'])} of {_quote(following['name'])}.)"


def _say_otherwise(form: Form) -> Iterator[str]:
    """The text in another wording, and the fate of the call with another effect."""
    if form["outcome"] != "failure":
        return
    report = read_form(form)
    error = report.error
    if error is not None and "fields" in form.get("error", {}) and form["error"]["fields"]:
        other = "structured" if form["wording"] != "structured" else "default"
        told = render(Failure(error), profile=other)
        if told != form.get("told"):
            yield f"In the profile {other} the model would have been told: {elide_middle(str(told), _SHOWN)}"
    ran = any(each[1] for each in form["attempts"])
    if form["kind"] == "outcome_unknown" and isinstance(error, OutcomeUnknown):
        yield "Were the tool idempotent or keyed, the call would have been repeated."
    elif form["effect"] == "mutating" and ran and form["kind"] in ("timeout", "transient"):
        yield "Were the tool a read, idempotent or keyed, the call would have been repeated."
    elif form["effect"] in ("read", "idempotent", "keyed") and ran and form["kind"] in ("timeout", "transient"):
        yield "Were the tool mutating, the body would have run once, and the model would have been told to check first."


def _quote(text: str | None) -> str:
    return "what is no text" if text is None else f"“{elide_middle(text, _SHORT)}”"


def _show(value: Any, limit: int = _SHOWN) -> str:
    return elide_middle(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), limit)

"""Which call answers which failure, and the shares that the next attempts mended."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from math import isclose
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from toolcall_pipeline import Call, ToolRegistry
from toolcall_pipeline.cli.commands import toolcall
from toolcall_pipeline.journal import read_forms, summarise
from toolcall_pipeline.journal.page import write_page
from toolcall_pipeline.journal.recovery import Share
from toolcall_pipeline.middlewares import standard

Form = dict[str, Any]
Group = tuple[str, str, str]
RIGHT = {"to": "a", "date": 1}
TURNS: list[list[Any]] = [[{}, {"to": "a"}, RIGHT], [{}, {}], [{}, RIGHT]]


def make_forms(number: int, dice: Random) -> list[Form]:
    """Random calls of many conversations, as a journal holds them."""
    forms: list[Form] = []
    for place in range(number):
        tool = dice.choice(["send", "find", "pay", None])
        outcome = dice.choices(["success", "failure", "cancelled"], [5, 6, 1])[0] if tool else "failure"
        name = tool or dice.choice(["snd", "fnd"])
        kind = None
        if outcome == "failure":
            kind = dice.choice(["validation", "transient", "permission"]) if tool else "unknown_tool"
        form: Form = {
            "name": name,
            "tool": tool,
            "principal": dice.choice("pq"),
            "conversation": dice.choices(["", f"c{dice.randrange(number // 8 + 1)}"], [1, 9])[0],
            "reply": dice.choices(["", f"r{place // dice.choice((1, 2))}"], [1, 3])[0],
            "at": 1_000_000_000 * place,
            "seconds": 0.01,
            "outcome": outcome,
            "kind": kind,
            "decided_by": "",
            "wording": dice.choice(["default", "terse"]),
            "replayed": False,
            "stages": [],
            "attempts": [[0, tool is not None, 0, 0, 0, None, "no"]],
            "decisions": [],
            "repairs": [["a", dice.choice(["number_text", "case"]), 1, 2]] if dice.random() < 0.2 else [],
            "arguments": {"a": dice.randrange(2)},
        }
        if kind:
            form["told"] = "x" * dice.randrange(90)
            form["error"] = {"fields": {"suggestions": ["send"] if name == "snd" else []}}
        forms.append(form)
    return forms


def fits(after: Form, before: Form) -> bool:
    if after["reply"] and after["reply"] == before["reply"]:
        return False
    if before["tool"]:
        return bool(after["tool"] == before["tool"])
    return after["name"] == before["name"] or after["tool"] in before["error"]["fields"]["suggestions"]


def link(talk: list[Form]) -> list[list[Form]]:
    """The chains of one conversation: each call answers the first failure that it fits and nothing has answered."""
    answers: dict[int, int] = {}
    for place, form in enumerate(talk):
        waiting = [n for n in range(place) if n not in answers and talk[n]["outcome"] == "failure"]
        answers.update([(n, place) for n in waiting if fits(form, talk[n])][:1])
    chains: list[list[Form]] = []
    for place, form in enumerate(talk):
        if form["outcome"] == "failure" and place not in answers.values():
            chain = [form]
            while place in answers:
                place = answers[place]  # noqa: PLW2901  # the next of this chain
                chain.append(talk[place])
            chains.append(chain)
    return chains


def count(forms: list[Form]) -> dict[Group | None, dict[str, Any]]:
    """The same figures, of whole chains."""
    talks: defaultdict[tuple[str, str], list[Form]] = defaultdict(list)
    for form in forms:
        if form["conversation"] and form["outcome"] != "cancelled":
            talks[form["principal"], form["conversation"]].append(form)
    found: defaultdict[Group | None, defaultdict[str, Any]] = defaultdict(lambda: defaultdict(int))
    for chain in (chain for talk in talks.values() for chain in link(talk)):
        first, last = chain[0], chain[-1]
        same = [(one["name"], one["arguments"]) == (two["name"], two["arguments"]) for one, two in pairwise(chain)]
        for group in (None, (first["kind"], first["tool"] or "?", first["wording"])):
            each = found[group]
            each["failures"] += 1
            each["at_2"] += len(chain) > 1 and chain[1]["outcome"] == "success"
            each["by_3"] += any(form["outcome"] == "success" for form in chain[1:3])
            each["attempts"] += len(chain) - 1
            each["characters_told"] += sum(len(form.get("told", "")) for form in chain)
            each["seconds_lost"] += (last["at"] - first["at"]) / 1e9 if last["outcome"] == "success" else 0
            each["repeats"] += sum(same)
    return dict(found)


@pytest.mark.parametrize("seed", range(8))
def test_the_figures_equal_an_independent_count(seed: int) -> None:
    """Of random calls: replies with several, names that no tool has, unanswered failures."""
    check(make_forms(1_500, Random(seed)))


@pytest.mark.long
def test_the_figures_of_100_000_calls() -> None:
    """Equal the same count."""
    check(make_forms(100_000, Random(9)))


def check(forms: list[Form]) -> None:
    """Compare the report with `count`."""
    counted, told = count(forms), summarise(forms).as_json()
    report = told["recovery"]
    groups = {(each["kind"], each["tool"], each["wording"]): each for each in report["groups"]}
    assert groups.keys() == counted.keys() - {None}
    for group, figures in counted.items():
        shown = report if group is None else groups[group]
        for key in ("failures", "characters_told", "seconds_lost"):
            assert isclose(shown[key], figures[key]), (group, key)
        for key in ("at_2", "by_3"):
            assert (shown[key]["part"], shown[key]["of"]) == (figures[key], figures["failures"]), (group, key)
        assert (shown["repeats"]["part"], shown["repeats"]["of"]) == (figures["repeats"], figures["attempts"])
    for rule, each in told["repairs"]["by_rule"].items():
        repaired = [form["outcome"] == "success" for form in forms if form["repairs"] and form["repairs"][0][1] == rule]
        assert (each["part"], each["of"]) == (sum(repaired), len(repaired))


@pytest.mark.parametrize(
    ("part", "of", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (81, 263, 0.2553, 0.3662), (1, 2, 0.0945, 0.9055), (0, 0, 0, 1)],
)
def test_the_interval_is_that_of_wilson(part: int, of: int, low: float, high: float) -> None:
    """The values of Newcombe (1998), table I, and the ends."""
    assert Share(part, of).interval == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize("recorded", [".db", ".jsonl"])
async def test_the_report_says_it(tmp_path: Path, recorded: str) -> None:
    """In tables, as JSON and on the page, of calls through a pipeline."""
    tools, path = ToolRegistry(), tmp_path / "calls.db"

    @tools.tool(effect="read")
    async def send(to: str, date: int) -> str:
        return "sent"

    async with standard(tools, journal=path) as pipeline:
        for talk, turns in enumerate(TURNS):
            for turn, sent in enumerate(turns):
                await pipeline(Call("send", sent, conversation=f"c{talk}", reply=f"r{talk}.{turn}"))
    run = CliRunner()
    if recorded == ".jsonl":
        assert run.invoke(toolcall, ["report", str(path), "--jsonl", str(tmp_path / "calls.jsonl")]).exit_code == 0
        path = tmp_path / "calls.jsonl"
    text = run.invoke(toolcall, ["report", str(path)]).output
    assert "mended: 1 of 3 = 33% [6%, 79%]; the second or third: 2 of 3 = 67% [21%, 94%]" in " ".join(text.split())
    figures = json.loads(run.invoke(toolcall, ["report", str(path), "--json"]).output)["recovery"]
    assert [(each["kind"], each["tool"]) for each in figures["groups"]] == [("validation", "send")]
    assert (figures["repeats"]["part"], figures["repeats"]["of"]) == (1, 4)
    page = write_page(summarise(*read_forms(path)), "calls")
    assert "<h2>Recovery</h2>" in page
    assert "1 of 3 = 33% [6%, 79%]" in page

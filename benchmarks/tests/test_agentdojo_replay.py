"""benchmarks.agentdojo: AgentDojo's tools in our registry and the report of a replay, with a hand-written suite."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import attrs
import pytest

from benchmarks.agentdojo import __main__ as agentdojo
from benchmarks.agentdojo.comparison import ReplayedCall, kind_of_report, same_result
from benchmarks.agentdojo.replay import different_schemas, replay_all
from benchmarks.agentdojo.suites import Dojo, make_tools
from toolcall_pipeline import Call, CallReport, Outcome, Success, render
from toolcall_pipeline.middlewares import standard

A_DAY = datetime(2024, 5, 1)  # noqa: DTZ001  # AgentDojo's are naive


class Wants:
    """Like AgentDojo's Depends: what a parameter takes from the environment."""

    def __init__(self, field: str) -> None:
        self.field = field

    def extract_dep_from_env(self, environment: dict[str, Any]) -> Any:
        return environment[self.field]


def send(box: Annotated[list[str], "box"], to: list[str], copies: int = 1) -> str:
    """Send it."""
    if not to:
        raise ValueError("Nobody to send it to.")
    box.extend(to * copies)
    return f"sent to {len(to)}"


POST = SimpleNamespace(tools=[SimpleNamespace(name="send", run=send, dependencies={"box": Wants("box")})])


async def report_of(arguments: Any, name: str = "send", box: list[str] | None = None) -> CallReport:
    tools = make_tools(POST, {"box": [] if box is None else box})
    return await standard(tools).report(Call(name, arguments))


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        pytest.param("send", {"to": ["a"]}, ("ok", ""), id="ok"),
        pytest.param("send", {"to": []}, ("runtime_error", "execution"), id="failed"),
        pytest.param("lend", {"to": []}, ("unknown_tool", "unknown_tool"), id="unknown"),
        pytest.param("send", "[", ("invalid_params", "malformed_call"), id="malformed"),
        pytest.param("send", {}, ("invalid_params", "required, wants an array"), id="missing"),
        pytest.param(
            "send", {"to": ["a"], "box": []}, ("invalid_params", "additionalProperties, wants to, copies"), id="filled"
        ),
    ],
)
async def test_our_reports_have_the_four_recorded_outcomes(
    name: str, arguments: Any, expected: tuple[str, str]
) -> None:
    """A refusal of the name or the arguments is distinguished from a failure of the tool, and has its reason."""
    assert expected == kind_of_report(await report_of(arguments, name))


async def test_what_a_tool_takes_from_the_environment_is_hidden() -> None:
    """A dependency is filled from the environment, may be changed by the tool, and is in no schema."""
    box: list[str] = []
    report = await report_of({"to": ["a"], "copies": 2}, box=box)
    (definition,) = make_tools(POST, {"box": box}).definitions()
    assert list(definition["parameters"]["properties"]) == ["to", "copies"]
    assert box == ["a", "a"]
    assert kind_of_report(report) == ("ok", "")


@pytest.mark.parametrize(
    ("arguments", "value", "error", "expected"),
    [
        pytest.param({"to": ["a"]}, "sent to 1", None, True, id="one value"),
        pytest.param({"to": ["a"]}, "sent to 2", None, False, id="another value"),
        pytest.param({"to": []}, "", "ValueError: Nobody to send it to.", True, id="one text"),
        pytest.param({"to": []}, "", "ValueError: Somebody is missing.", False, id="another text"),
        pytest.param({"to": []}, "sent to 0", None, None, id="one ran"),
        pytest.param({}, "", "ValidationError: 1 validation error for Input schema for `x`", None, id="none ran"),
    ],
)
async def test_results_are_compared_if_both_replays_ran_the_tool(
    arguments: Any, value: object, error: str | None, expected: bool | None
) -> None:
    """Two successes agree in their value, two failures in the text that the model is told."""
    report = await report_of(arguments)
    outcome: Outcome = report.outcome or Success(None)
    assert expected is same_result(report, render(outcome), value, error, A_DAY)


def test_the_table_and_the_groups_are_printed() -> None:
    """The table has a line for each suite and recorded outcome, and sums; a group has its count and five ids."""
    rows = [
        ReplayedCall(f"c{number}", "post", "send", "ok", "ok", "invalid_params", "why", seen=2) for number in range(6)
    ]
    rows.append(ReplayedCall("c6", "post", "send", "ok", "ok", "ok", same=True))
    printed = [" ".join(line.split()) for line in agentdojo.table(rows)]
    details = list(agentdojo.details(rows))
    assert printed[2:] == [
        "post ok 7 1 6 14.3% 100.0%",
        "all 7 14.3% 100.0%",
        "all as often as seen 13 7.7% 100.0%",
    ]
    assert details[0].startswith("1 of 1 that succeeded")
    assert details[2:4] == [
        "ours alone disagrees: 6",
        "    6  ok -> invalid_params: why  [c0, c1, c2, c3, c4, …]",
    ]


def test_different_schemas_are_named() -> None:
    """A tool whose schema differs, or that is on one side only, is named with its suite."""
    ours = {("post", "send"): {"type": "object"}, ("post", "lend"): {"type": "object"}}
    recorded = {("post", "send"): {"type": "object", "title": "Send"}, ("post", "bend"): {"type": "object"}}
    assert different_schemas(ours, recorded) == ["post bend", "post lend"]


def test_without_recordings_nothing_is_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkout without recordings is not a failure; one line says so."""
    monkeypatch.setenv("TOOLCALL_CORPORA", str(tmp_path))
    assert agentdojo.main(["--check"]) == 0
    expected = f"There are no recorded calls of AgentDojo in {tmp_path}: nothing was replayed.\n"
    assert capsys.readouterr().out == expected


def test_without_the_package_the_missing_one_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recordings without AgentDojo are a failure, and the text names the command that helps."""
    (tmp_path / agentdojo.CALLS).write_text("")
    monkeypatch.setitem(sys.modules, "agentdojo.functions_runtime", None)
    assert agentdojo.main(["--data", str(tmp_path)]) == 1
    assert "make test-agentdojo" in capsys.readouterr().out


@attrs.frozen
class Environment:
    """The part of AgentDojo's that a replay uses."""

    box: list[str]

    def model_copy(self, *, deep: bool) -> Environment:
        return Environment(list(self.box))

    def model_dump(self) -> dict[str, Any]:
        return {"box": list(self.box)}


@pytest.mark.parametrize(("leaves", "same"), [(["a"], True), (["a", "b"], False)], ids=["one", "another"])
async def test_each_replay_has_an_environment_of_its_own(leaves: list[str], same: bool) -> None:
    """No replay sees what the other or an earlier call did, and what both leave behind is compared."""

    class Runtime:
        def __init__(self, _tools: Any) -> None:
            pass

        def run_function(self, environment: Environment, _name: str, _arguments: Any) -> tuple[Any, str | None]:
            assert environment.box == []
            environment.box.extend(leaves)
            return "sent to 1", None

    class Box(Wants):
        def extract_dep_from_env(self, environment: Any) -> Any:
            assert environment.box == []
            return environment.box

    suite = SimpleNamespace(tools=[SimpleNamespace(name="send", run=send, dependencies={"box": Box("box")})])
    dojo = Dojo({"post": suite}, {"post": Environment([])}, Runtime)
    record = {
        "id": "1",
        "toolset": "post",
        "tool_name_as_called": "send",
        "arguments": {"to": ["a"]},
        "recorded_outcome": "ok",
        "seen": 2,
    }
    expected = ReplayedCall("1", "post", "send", "ok", "ok", "ok", same=same, seen=2)
    assert [expected, expected] == await replay_all(dojo, [record, record])

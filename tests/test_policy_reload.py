"""A policy file that is read again: what is right takes the place of the old rules, and what is wrong does not."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import anyio
import pytest

from support import PATIENT
from toolcall_pipeline import Approvals, Pipeline, SetupError, Success, ToolRegistry
from toolcall_pipeline.audit import AuditLog
from toolcall_pipeline.base import timing
from toolcall_pipeline.middlewares import Audit, Policy, standard
from toolcall_pipeline.policies import RuleSet, rule_file
from toolcall_pipeline.stores import Memory
from toolcall_pipeline.testing import FakeClock

DENY = "[[rules]]\naction = 'deny'\narguments = {properties = {cents = {minimum = 100}}}\n"
ALLOW = "default = 'allow'\n"
APPROVE = "default = 'approve'\n"
PLAN = "default = 'dry_run'\n"


class Desk:
    """A pipeline over a policy file, and a clock that the test moves."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch, text: str = DENY) -> None:
        self.file, self.ran, self.tools, self.store = path / "policy.toml", list[int](), ToolRegistry(), Memory()
        self.clock = FakeClock()
        monkeypatch.setattr(timing, "monotonic", self.clock)
        monkeypatch.setattr(rule_file, "_TIMER", 1e6)
        self.file.write_text(text)

        @self.tools.tool
        async def pay(cents: int) -> None:
            self.ran.append(cents)

    def open(self, **options: Any) -> Pipeline:
        return standard(self.tools, policy=Policy(self.file, reload=True), **options)

    def write(self, text: str | None) -> None:
        if text is None:
            self.file.unlink()
        else:
            self.file.write_text(text)

    async def call(self, pipeline: Pipeline, cents: int = 500) -> str:
        """The kind of the outcome, once two looks at the file are over."""
        for _ in range(2):
            self.clock.now += 1.1
            await pipeline.call("pay", {"cents": 1})
        outcome = await pipeline.call("pay", {"cents": cents})
        return "success" if outcome == Success(None) else outcome.failure().kind


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(tmp_path, monkeypatch)


async def test_a_changed_file_takes_the_place_of_the_rules(desk: Desk) -> None:
    """Within a few seconds, for each action that the pipeline can carry out, and back again."""
    pipeline = desk.open(store=desk.store)
    for text, kind in (
        (DENY, "permission"),
        (ALLOW, "success"),
        (APPROVE, "awaiting_approval"),
        (PLAN, "not_executed"),
        (DENY, "permission"),
    ):
        desk.write(text)
        assert await desk.call(pipeline) == kind


@pytest.mark.parametrize(
    "text",
    [
        None, "", " \n", "rules = []", "timeout = 5", "[[rules]]", "[[rules]]\naction = 'den", "default = 'perhaps'",
        "\0",
        "[[rules]]\naction = 'allow'\ntool = 'pey'\n",
    ],
)  # fmt: skip
async def test_a_wrong_file_keeps_the_rules(desk: Desk, text: str | None, caplog: pytest.LogCaptureFixture) -> None:
    """It is said once, with the reason, and a right one is taken later."""
    pipeline = desk.open()
    old = pipeline.stages  # the stages do not change
    desk.write(text)
    with caplog.at_level(logging.ERROR):
        assert [await desk.call(pipeline) for _ in range(3)] == ["permission"] * 3
    told = [each.getMessage() for each in caplog.records if each.getMessage().startswith("Policy: ")]
    assert len(told) == 1
    assert "the rules stay those of version" in told[0]
    assert "policy.toml" in told[0]
    desk.write(ALLOW)
    assert await desk.call(pipeline) == "success"
    assert pipeline.stages == old


async def test_a_rule_whose_stage_is_not_there_keeps_the_rules(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody can be asked without a store."""
    pipeline = desk.open()
    desk.write(APPROVE)
    assert await desk.call(pipeline) == "permission"
    assert "a rule says `approve`, and the pipeline has no stage for it" in caplog.text


async def test_a_file_is_read_when_it_has_stopped_to_change(desk: Desk) -> None:
    """One look may find the half of it."""
    pipeline = desk.open()
    await pipeline.ready()
    for number in range(5):
        desk.write(ALLOW + "# " + "x" * number)  # another size each time
        desk.clock.now += 1.1
        assert (await pipeline.call("pay", {"cents": 500})).failure().kind == "permission"
    assert await desk.call(pipeline) == "success"


async def test_two_looks_at_a_file_are_a_while_apart(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks are 0.3 seconds apart, from the first reading on; an entry waits for two if the file has changed."""
    looks: list[float] = []
    stamp = vars(rule_file.RuleFile)["_stamp"]
    slept: list[float] = []

    def look(self: rule_file.RuleFile) -> Any:
        looks.append(desk.clock.now)
        return stamp(self)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        desk.clock.now += seconds

    monkeypatch.setattr(rule_file.RuleFile, "_stamp", look)
    monkeypatch.setattr(anyio, "sleep", sleep)
    began = desk.clock.now
    rules = rule_file.RuleFile(desk.file)
    for after in (0.0, 0.2, 0.29, 0.3, 0.4, 0.59, 0.6, 2.0, 2.2, 2.3):
        desk.clock.now = began + after
        assert rules.version
    assert looks == [began + after for after in (0.0, 0.3, 0.6, 2.0, 2.3)]
    async with rules:
        assert slept == []
    desk.write(ALLOW)
    before = rules.version
    async with rules:
        assert slept == [0.3]
        assert rules.version != before


async def test_one_version_judges_a_call(desk: Desk) -> None:
    """A file that changes while a call is under way is no way past a person: all stages go by one version."""
    desk.write(APPROVE)
    changes = list[str]()

    async def change(call: Any, call_next: Any) -> Any:
        while changes:
            desk.write(changes.pop())
            assert await desk.call(pipeline) == "success"  # another call, by the new rules
        return await call_next(call)

    pipeline = desk.open(store=desk.store).after("policy", change)
    changes.append(ALLOW)
    assert (await pipeline.call("pay", {"cents": 5})).failure().kind == "awaiting_approval"
    assert 5 not in desk.ran


async def test_what_was_approved_under_another_version_is_asked_anew(desk: Desk) -> None:
    """The person has decided by other rules."""
    desk.write(APPROVE)
    pipeline = desk.open(store=desk.store)
    await pipeline.call("pay", {"cents": 5})
    (waiting,) = await Approvals(desk.store).pending()
    await Approvals(desk.store).approve(waiting.id, by="boss")
    desk.write(APPROVE + "# again\n")
    await desk.call(pipeline)
    assert not isinstance(await pipeline.resume(waiting.id), Success)
    assert desk.ran == []


async def test_the_audit_names_both_versions(desk: Desk) -> None:
    """The new digest, and the one whose place it took."""
    pipeline = desk.open(store=desk.store).after("validate", Audit(desk.store))
    await pipeline.call("pay", {"cents": 5})
    desk.write(ALLOW)
    await desk.call(pipeline)
    rows = [row async for row in AuditLog(desk.store).read() if row["event"] == "ended"]
    first, last = rows[0]["decisions"][0], rows[-1]["decisions"][0]
    assert "replaced" not in first
    assert (last["replaced"], last["version"] != first["version"]) == (first["version"], True)


def test_only_a_file_is_read_again(tmp_path: Path) -> None:
    """Rules from code do not change, and a file that is wrong at the start is a mistake."""
    with pytest.raises(SetupError, match="the path of a policy file, with `reload`"):
        Policy(RuleSet(), reload=True)
    (tmp_path / "policy.toml").write_text("")
    with pytest.raises(SetupError, match="empty"):
        Policy(tmp_path / "policy.toml", reload=True)
    with pytest.raises(SetupError, match="reload"):
        Policy(RuleSet(), reload=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def test_a_timer_reads_the_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Without a call: the first one after a quiet hour is judged by what the file says, and so is the first of all."""
    file, ran, tools = tmp_path / "policy.toml", list[str](), ToolRegistry()
    file.write_text(DENY)

    @tools.tool
    async def pay(cents: int) -> None:
        ran.append(f"{cents}")

    pipeline = standard(tools, policy=Policy(file, reload=True))
    file.write_text(ALLOW + "# changed before anything is open\n")
    async with pipeline:
        assert await pipeline.call("pay", {"cents": 500}) == Success(None)
        file.write_text(DENY + "# and then without a call\n")
        with anyio.fail_after(PATIENT):
            while caplog.text.count("takes the place of") < 2:  # noqa: ASYNC110  # a file sends no event
                await anyio.sleep(0.01)
        assert (await pipeline.call("pay", {"cents": 500})).failure().kind == "permission"
    assert ran == ["500"]

"""After a fork: no lock that another thread held in the parent blocks the child."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from support import PATIENT

ROOT = Path(__file__).parent.parent
HELD_FOR_A_CALL = {
    "pipeline/engine/guards/call_guards.py",
    "pipeline/engine/guards/one_effect.py",
    "pipeline/engine/guards/stage_entry.py",
    "pipeline/engine/guards/guard.py",
    "pipeline/engine/report/live_report.py",
    "pipeline/hosts/caller_thread.py",
    "pipeline/telemetry/attempt_span.py",
}  # a lock of one call, which the child of a fork does not go on with
RESTARTED_BY_THEMSELVES = {"pipeline/executors/exit_warning.py", "pipeline/executors/thread.py"}
IN_A_WORKER = {
    "pipeline/executors/worker_main.py",
    "pipeline/executors/remote_progress.py",
}  # a child that is forked there tells nothing
EXCEPT = HELD_FOR_A_CALL | IN_A_WORKER | RESTARTED_BY_THEMSELVES
OWNERS = {
    "Cache": "Cache(60)",
    "RateLimit": "RateLimit(1)",
    "CircuitBreaker": "CircuitBreaker(failure_ratio=0.5)",
    "LoopGuard": "LoopGuard()",
    "RetryBudget": "RetryBudget()",
    "ToolRegistry": "ToolRegistry()",
    "a view": "ToolRegistry().view(())",
    "TreePrinter": "TreePrinter()",
    "the span queues": "_queues",
    "DeferredSpans": "DeferredSpans()",
    "Events": "Events()",
    "Memory": "Memory()",
    "the conversations": "CONVERSATIONS",
    "the deliveries that run": "_LOCKS",
    "the open resources": "_IN_PROCESS",
}
FORK = """
import os, sys, threading
from toolcall_pipeline.middlewares import Cache, CircuitBreaker, LoopGuard, RateLimit
from toolcall_pipeline import RetryBudget, ToolRegistry
from toolcall_pipeline.engine.compose.resources import _IN_PROCESS
from toolcall_pipeline.once.in_process import _LOCKS
from toolcall_pipeline.once.undecided import CONVERSATIONS
from toolcall_pipeline.stores import Memory
from toolcall_pipeline.telemetry import DeferredSpans, Events
from toolcall_pipeline.telemetry.queues import _queues
from toolcall_pipeline.telemetry.sdk import TreePrinter

KEEPERS = (
    "toolcall_pipeline.stage_state.cache_answers",
    "toolcall_pipeline.stage_state.loop_guard_calls",
    "toolcall_pipeline.stage_state.limit_states",
    "toolcall_pipeline.tools.view",
)

def locks(owner):
    names = {name for each in type(owner).__mro__ for name in getattr(each, "__slots__", ())} | set(vars_of(owner))
    held = [getattr(owner, name, None) for name in names]
    found = [each for each in held if isinstance(each, type(threading.Lock()))]
    kept = [each for each in held if type(each).__module__ in KEEPERS]
    return found + [lock for each in kept for lock in locks(each)]

def vars_of(owner):
    return getattr(owner, "__dict__", {})

owners = {OWNERS}
held, end = threading.Event(), threading.Event()

def hold():
    for owner in owners.values():
        for lock in locks(owner):
            lock.acquire()
    held.set()
    end.wait()

def count_locked():
    return {name: sum(lock.locked() for lock in locks(owner)) for name, owner in owners.items()}

assert all(map(locks, owners.values()))
assert not any(count_locked().values())
threading.Thread(target=hold, daemon=True).start()
held.wait()
print(count_locked(), flush=True)
child = os.fork()
if child == 0:
    print(count_locked(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(count_locked(), flush=True)
end.set()
"""


@pytest.fixture(scope="module")
def locked() -> list[dict[str, int]]:
    """The locks that are held, by owner: in the parent at the fork, in the child, in the parent after it."""
    owners = "".join(f"{name!r}: {owner}, " for name, owner in OWNERS.items())
    command = [sys.executable, "-W", "ignore", "-c", FORK.replace("OWNERS", owners)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENT)
    return [ast.literal_eval(line) for line in done.stdout.splitlines()]


@pytest.mark.skipif(sys.platform == "win32", reason="this platform has no fork")
@pytest.mark.parametrize("owner", OWNERS)
def test_a_lock_that_another_thread_holds(owner: str, locked: list[dict[str, int]]) -> None:
    """Whatever another thread of the parent held at the fork, the child has fresh locks; the parent keeps its own."""
    before, in_child, after = (each[owner] for each in locked)
    assert before == after > 0
    assert in_child == 0


HALF_DONE = """
import os
import anyio
from returns.result import Failure, Success
from toolcall_pipeline.middlewares import CircuitBreaker, Concurrency
from toolcall_pipeline import Call, Tool, Transient
from toolcall_pipeline.testing import script

async def body():
    return 1

call = Call("probe").resolved(Tool("probe", body, "read")).validated({})
now = 0.0
breaker = CircuitBreaker(failures=1, clock=lambda: now)
limit = Concurrency(1, max_queue=0)

async def again():
    return await breaker(call, lambda call: limit(call, script(Success(1))))

async def both():
    async def fork(_):
        child = os.fork()
        if child == 0:  # a probe and a call with a unit, both of the parent
            import threading
            codes = []
            worker = threading.Thread(target=lambda: codes.append(anyio.run(again)))
            worker.start()
            worker.join()
            os._exit(0 if codes == [Success(1)] else 1)
        return Success(child)
    await breaker(call, script(Failure(Transient())))
    global now
    now = 30.0
    return (await breaker(call, lambda call: limit(call, fork))).unwrap()

_, status = os.waitpid(anyio.run(both), 0)
print(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="this platform has no fork")
def test_calls_of_the_parent_hold_nothing_in_the_child() -> None:
    """A half-open breaker that the parent was trying may be tried in the child, and the parent's units are free."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", HALF_DONE], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0"]


@pytest.mark.long
def test_every_lock_is_renewed() -> None:
    """Each module that makes a lock of threads for longer than a call renews it in the child of a fork."""
    files = {file.resolve() for folder in ("pipeline", "middlewares") for file in (ROOT / folder).rglob("*.py")}
    names = {str(path.relative_to(ROOT)): _names(path) for path in files}
    makers = {name for name, used in names.items() if used & {"Lock", "RLock", "Condition", "Semaphore"}}
    assert makers - EXCEPT == {
        "middlewares/cache.py",
        "middlewares/circuit_breaker.py",
        "middlewares/switchboard.py",
        "pipeline/stage_state/limit_states.py",
        "pipeline/engine/compose/last_failures.py",
        "pipeline/engine/compose/resources.py",
        "pipeline/base/event_loops/portal.py",
        "pipeline/mcp/known_clients.py",
        "pipeline/once/in_process.py",
        "pipeline/once/undecided.py",
        "pipeline/journal/journal.py",
        "pipeline/policies/rule_file.py",
        "pipeline/engine/retries.py",
        "pipeline/stage_state/cache_answers.py",
        "pipeline/stage_state/loop_guard_calls.py",
        "pipeline/stores/batched.py",
        "pipeline/stores/memory.py",
        "pipeline/telemetry/deferred.py",
        "pipeline/telemetry/events.py",
        "pipeline/telemetry/queues.py",
        "pipeline/telemetry/sdk.py",
        "pipeline/tools/view.py",
    }
    assert all("register_after_fork" in names[name] for name in makers - EXCEPT)


def _names(path: Path) -> set[str]:
    """The names that a module uses, but for the attributes of anyio."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    of_threading = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "threading"
    }
    return of_threading | {node.id for node in nodes if isinstance(node, ast.Name)}

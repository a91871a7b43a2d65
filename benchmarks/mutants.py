"""``make mutants ARGS=audit``: of small changes of a room's source, how many do its tests notice?

cosmic-ray makes the changes and runs the tests; this file says which tests a room has, takes a sample, and gives each
process a copy of the checkout of its own, for a mutant is written into the file.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "build" / "mutants"
# The test files of a room, as patterns inside of tests/: quick ones, about it. Those that fail first stand first: the
# first failure ends a run. A folder inside of a room has `test_FOLDER*.py`.
TESTS = {
    "adapters": "test_wires.py test_adapters_*.py test_history.py test_renamed_properties.py test_reply_kinds.py "
    "test_schema_fitting.py test_sending_back.py test_silent_ends.py test_text_calls.py",
    "approvals": "test_approve.py test_approval_*.py test_watch_store.py test_intents.py test_cli_approvals.py "
    "test_policy_total.py",
    "audit": "test_audit_chain.py test_audit.py test_accepted_json.py",
    "base": "test_nesting.py test_options.py test_adapters_names.py test_configure.py test_forking.py test_portal.py "
    "test_policy_options.py test_mcp_policy.py test_metrics.py test_plain_data.py test_public_api.py test_execute.py "
    "test_stray_cancellation.py test_report.py test_messages_names.py test_concurrency.py test_secrets.py "
    "test_redact.py test_gateway_config.py test_outside_text.py test_fake_clock.py test_log_export.py test_mistakes.py",
    "builtin": "test_builtin.py test_read_result.py test_batch.py",
    "cli": "test_cli*.py test_journal_commands.py test_operator_commands.py test_improve.py test_outside_text.py",
    "dialogue": "test_dialogue*.py test_agents.py test_last_failures.py test_repeated_refusals.py test_wording.py",
    "engine": "test_compose.py test_planner.py test_guards.py test_errors.py test_report.py test_call_state.py "
    "test_batch.py test_resource*.py test_effects.py test_retry.py test_describe.py test_tool_names.py "
    "test_straight_bodies.py test_own_*.py test_faults.py test_hedging.py test_lifetime.py test_phases.py "
    "test_callers.py test_budget.py test_exits.py test_stacks.py test_promises.py test_railways.py "
    "test_last_failures.py test_live_events.py test_span_places.py test_mistakes.py test_odd_fields.py "
    "test_options.py test_stray_cancellation.py test_timeout.py test_totality.py test_decided_by.py test_secrets.py",
    "executors": "test_execute.py test_thread.py test_process*.py test_ray_pool.py test_exits.py",
    "hosts": "test_hosts.py test_exported_tools.py test_gateway_config.py test_approval_uses.py test_lifetime.py",
    "journal": "test_journal*.py test_improve.py test_recovery_figures.py test_promises.py",
    "mcp": "test_mcp_[a-jl-z]*.py test_add_server.py test_wording.py",
    "messages": "test_messages_*.py test_author_words.py test_odd_fields.py test_outside_text.py test_reword.py "
    "test_right_places.py test_shape.py test_source_examples.py test_wording.py",
    "middlewares": "test_options.py test_compose.py test_describe.py test_approve.py test_audit.py test_available.py "
    "test_cache.py test_check_result.py test_circuit_breaker.py test_classify.py test_concurrency.py test_quota.py "
    "test_execute.py test_ledger.py test_loop_guard.py test_policy.py test_policy_*.py test_rate_limit.py "
    "test_redact.py test_resolve.py test_retry.py test_reword.py test_shape.py test_stacks.py test_switchboard.py "
    "test_timeout.py test_trace*.py test_validate.py test_shared_limits.py test_once.py test_intents.py "
    "test_decided_by.py test_effects.py test_accepted_json.py test_promises.py test_span_places.py test_tool_names.py",
    "once": "test_once.py test_digests.py test_intents.py test_ledger.py test_loop_guard.py test_row_versions.py "
    "test_dialogue_repeats.py test_lost_answers.py test_strict_keys.py test_two_equalities.py",
    "parameters": "test_param*.py test_validate.py test_problems.py test_form.py test_repair*.py test_signature.py "
    "test_accepted_json.py test_messages_[ef]*.py test_exact_values.py test_undeclared_fields.py test_hints.py "
    "test_limits.py test_meanings.py test_pydantic_errors.py test_right_places.py test_given.py test_docstrings.py "
    "test_strictness.py test_schemas_agree.py test_schema_fitting.py test_soundness.py test_shapes.py "
    "test_repeated_parts.py test_messages_closing.py test_messages_default.py test_digests.py",
    "policies": "test_policy_options.py test_policy.py test_policy_*.py test_mcp_policy.py test_digests.py "
    "test_quota.py test_accepted_json.py",
    "privacy": "test_masking.py test_redact.py test_secret*.py test_messages_scrub.py test_outside_text.py "
    "test_leaks.py test_freed.py test_log.py test_repeated_parts.py test_promises.py test_messages_enhance.py",
    "stage_state": "test_plain_data.py test_cache.py test_circuit_breaker.py test_concurrency.py test_loop_guard.py "
    "test_quota.py test_rate_limit.py test_read_result.py test_shared_limits.py test_strict_keys.py "
    "test_switchboard.py",
    "stores": "test_stores.py test_stores_*.py test_shared_limits.py test_store_durations.py test_watch_store.py",
    "telemetry": "test_trace*.py test_metrics.py test_events.py test_log*.py test_span_places.py test_deferred.py "
    "test_configure.py test_flush_deferred.py test_live_events.py test_own_attributes.py test_agents.py "
    "test_assert_trace.py test_secret*.py test_decided_by.py",
    "testing": "test_testing.py test_assert_trace.py test_chaos.py test_check_stage.py test_fake_clock.py "
    "test_measure.py test_stores.py",
    "tools": "test_tool.py test_registry*.py test_names.py test_name_scans.py test_resolve.py test_classif*.py "
    "test_client_exceptions.py test_error_tables.py test_detect.py test_signature.py test_tool_memory.py "
    "test_decorating.py test_http_failures.py test_one_request.py test_schema_handlers.py test_shapes.py "
    "test_containers.py",
}
# Only `make test-stores` runs these, with servers.
_WITH_SERVERS = {"stores/redis.py", "stores/postgres.py"}
# `X | None` of an annotation is never run, and twelve operators could stand in its place.
_NEVER_RUN = "ReplaceBinaryOperator_BitOr_"
_CONFIG = """[cosmic-ray]
module-path = {modules}
timeout = {timeout}
excluded-modules = []
test-command = "{command}"
[cosmic-ray.distributor]
name = "local"
"""


def find_room(name: str) -> Path:
    """The folder of a room, wherever in the package it stands, without the link of the checkout."""
    found = [each for each in (ROOT / "pipeline").rglob(name) if each.is_dir()]
    if not found:
        raise SystemExit(f"no folder in pipeline/ has the name {name!r}")
    return min(found, key=lambda each: len(each.parts)).relative_to(ROOT)


def find_modules(room: str) -> list[str]:
    """The files of a room that its tests run."""
    found = [each.relative_to(ROOT) for each in sorted((ROOT / find_room(room)).rglob("*.py"))]
    return [str(each) for each in found if "/".join(each.parts[-2:]) not in _WITH_SERVERS]


def find_tests(room: str) -> list[str]:
    """The test files of a room in the order of its patterns, each once. A pattern that finds no file ends the run."""
    found: dict[str, None] = {}
    for pattern in TESTS.get(room, f"test_{room}*.py").split():
        files = sorted(str(each.relative_to(ROOT)) for each in (ROOT / "tests").glob(pattern))
        if not files:
            raise SystemExit(f"no file in tests/ matches {pattern!r}, of the room {room!r}")
        found.update(dict.fromkeys(files))
    return list(found)


def copy_checkout(folder: Path) -> None:
    """Copy what git knows, and what is new, with links as links."""
    shutil.rmtree(folder, ignore_errors=True)
    listed = subprocess.run(  # git of the machine
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if os.path.lexists(ROOT / name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)


def sample(session: Path, share: int, shares: int, most: int, seed: str) -> int:
    """Leave every ``shares``-th of at most ``most`` mutants in a session, and say how many these are.

    Of the changes of one kind at one place one counts, else a single ``+`` would have ten. The order is that of a
    hash, so the same source has the same sample, and an edit leaves the sample of what it does not touch alone.
    """
    with sqlite3.connect(session) as connection:
        rows = connection.execute(
            "select job_id, module_path, operator_name, occurrence, start_pos_row, start_pos_col from mutation_specs"
        ).fetchall()
        kept: dict[object, tuple[str, str]] = {}
        for job, module, operator, occurrence, row, column in rows:
            place = (module, row, column, re.split(r"_|Replacer|With", operator)[0])
            rank = sha256(f"{seed} {module} {operator} {occurrence}".encode()).hexdigest()
            if _NEVER_RUN not in operator and rank < kept.get(place, ("g", ""))[0]:
                kept[place] = (rank, job)
        chosen = {job for _, job in sorted(kept.values())[:most][share::shares]}
        left_out = [(job,) for job, *_ in rows if job not in chosen]
        for table in ("mutation_specs", "work_items"):
            connection.executemany(f"delete from {table} where job_id = ?", left_out)  # noqa: S608  # one of two names
    connection.close()
    return len(chosen)


def read_results(session: Path) -> list[tuple[bool, str]]:
    """Whether each mutant was noticed, and what it was."""
    with sqlite3.connect(session) as connection:
        rows = connection.execute(
            "select test_outcome, worker_outcome, diff from work_results order by job_id",
        ).fetchall()
    connection.close()
    return [
        ("KILLED" in f"{test}".upper() or "NORMAL" not in f"{worker}".upper(), diff or "")
        for test, worker, diff in rows
    ]


def run(room: str, most: int, jobs: int, seed: str) -> int:
    """Measure a room and print its figure; the mutants that nobody noticed come first. Return 0, or 1 without tests."""
    tests = find_tests(room)
    command = f"{sys.executable} -m pytest -q -x -n 0 -p no:cacheprovider -m 'not long' -k 'not trio' --examples=5"
    command += " " + " ".join(tests)
    modules = find_modules(room)
    folders = [FOLDER / f"{room}-{number}" for number in range(jobs)]
    environments = [{**os.environ, "PYTHONPATH": f"{each}:{each}/tests/support"} for each in folders]
    for folder in folders:
        copy_checkout(folder)
    began = perf_counter()
    alone = subprocess.run(command, shell=True, cwd=folders[0], env=environments[0], check=False)  # noqa: S602  # ours
    if alone.returncode:
        print("these tests fail without a mutant, or there are none")
        return 1
    limit = 5 * (perf_counter() - began) + 10
    cosmic_ray = str(Path(sys.executable).with_name("cosmic-ray"))
    for number, (folder, environment) in enumerate(zip(folders, environments, strict=True)):
        (folder / "c.toml").write_text(_CONFIG.format(modules=modules, timeout=limit, command=command))
        subprocess.run([cosmic_ray, "init", "c.toml", "s.sqlite"], cwd=folder, env=environment, check=True)  # noqa: S603
        sample(folder / "s.sqlite", number, jobs, most, seed)
    running = [
        subprocess.Popen([cosmic_ray, "exec", "c.toml", "s.sqlite"], cwd=folder, env=environment)  # noqa: S603
        for folder, environment in zip(folders, environments, strict=True)
    ]
    for process in running:
        process.wait()
    results = [each for folder in folders for each in read_results(folder / "s.sqlite")]
    for _, diff in (each for each in results if not each[0]):
        print(diff)
    noticed = sum(each for each, _ in results)
    seconds = perf_counter() - began
    print(f"{room}: {noticed} of {len(results)} mutants noticed, {noticed / max(1, len(results)):.0%}, {seconds:.0f} s")
    return 0


def main() -> int:
    """Measure the rooms of the command line."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("rooms", nargs="+", help=f"folders in pipeline/: {', '.join(TESTS)}, …")
    parser.add_argument("--sample", type=int, default=60, help="mutants of a room, at most (default 60)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="at the same time")
    parser.add_argument("--seed", default="", help="another sample")
    options = parser.parse_args()
    return max([run(room, options.sample, options.jobs, options.seed) for room in options.rooms])


if __name__ == "__main__":
    sys.exit(main())

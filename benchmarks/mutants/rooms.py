"""The files that are mutated, and the test files that have to notice."""

from __future__ import annotations

from pathlib import Path

import attrs


@attrs.frozen
class Room:
    """Some files, and the tests that hold them."""

    sources: tuple[str, ...]  # glob patterns from the root of the checkout
    tests: tuple[str, ...]  # glob patterns inside of tests/

    def files(self, root: Path) -> list[str]:
        """The files that are mutated; an ``__init__.py`` only hands names on."""
        found = {each for pattern in self.sources for each in root.glob(pattern) if each.stem != "__init__"}
        return sorted(str(each.relative_to(root)) for each in found)

    def test_files(self, root: Path) -> list[str]:
        """The test files."""
        return sorted(
            {
                str(each.relative_to(root))
                for pattern in self.tests
                for folder in ("tests", "benchmarks/tests")
                for each in (root / folder).glob(pattern)
            }
        )


_OF_ALL_HOSTS = tuple(
    f"toolcall_pipeline/hosts/{each}.py" for each in ("host", "framework*", "exporting", "approving", "signed_calls")
)
ROOMS = {
    "resolve": Room(
        (
            "toolcall_pipeline/middlewares/resolve.py",
            "toolcall_pipeline/tools/matching.py",
            "toolcall_pipeline/tools/canonical.py",
            "toolcall_pipeline/tools/transport_noise.py",
        ),
        (
            "test_resolve.py",
            "test_names.py",
            "test_soundness.py",
            "test_oracle.py",
            "test_hints.py",
            "test_registry.py",
            "test_adapters_names.py",
        ),
    ),
    "validate": Room(
        (
            "toolcall_pipeline/middlewares/validate.py",
            "toolcall_pipeline/parameters/*.py",
            "toolcall_pipeline/privacy/*.py",
        ),
        (
            "test_validate.py",
            "test_param*.py",
            "test_repair*.py",
            "test_suggestions.py",
            "test_problems.py",
            "test_pydantic_errors.py",
            "test_limits.py",
            "test_signature.py",
            "test_docstrings.py",
            "test_oracle.py",
            "test_soundness.py",
            "test_given.py",
            "test_strictness.py",
            "test_schemas_agree.py",
            "test_secrets.py",
            "test_masking.py",
            "test_outside_text.py",
            "test_totality.py",
            "test_tool.py",
            "test_messages_example.py",
            "test_messages_reading.py",
            "test_messages_repairs.py",
        ),
    ),
    "classify": Room(
        (
            "toolcall_pipeline/middlewares/classify.py",
            "toolcall_pipeline/tools/classification.py",
            "toolcall_pipeline/tools/client_*.py",
            "toolcall_pipeline/tools/error_*.py",
        ),
        (
            "test_classif*.py",
            "test_client_exceptions.py",
            "test_error_tables.py",
            "test_detect.py",
            "test_errors.py",
            "test_faults.py",
        ),
    ),
    "messages": Room(
        ("toolcall_pipeline/messages/*.py", "toolcall_pipeline/messages/profiles/*.py"),
        (
            "test_messages_*.py",
            "test_author_words.py",
            "test_mcp_content.py",
            "test_odd_fields.py",
            "test_outside_text.py",
            "test_shape.py",
            "test_adapters_anthropic.py",
            "test_leaks.py",
            "test_errors.py",
            "test_hints.py",
        ),
    ),
    "retries": Room(
        ("toolcall_pipeline/retries.py", "toolcall_pipeline/middlewares/retry.py"),
        ("test_retry.py", "test_planner.py", "test_budget.py", "test_effects.py"),
    ),
    "compose": Room(
        ("toolcall_pipeline/compose/*.py",),
        (
            "test_compose.py",
            "test_own_time.py",
            "test_report.py",
            "test_effects.py",
            "test_trace*.py",
            "test_assert_trace.py",
            "test_retry.py",
            "test_cache.py",
            "test_stacks.py",
            "test_check_stage.py",
            "test_describe.py",
            "test_faults.py",
            "test_log.py",
            "test_options.py",
            "test_phases.py",
            "test_resources.py",
            "test_stray_cancellation.py",
            "test_timeout.py",
            "test_call_state.py",
            "test_callers.py",
            "test_decided_by.py",
            "test_wording.py",
        ),
    ),
    "guards": Room(
        ("toolcall_pipeline/guards/*.py",),
        (
            "test_guards.py",
            "test_effects.py",
            "test_timeout.py",
            "test_execute.py",
            "test_thread.py",
            "test_retry.py",
            "test_available.py",
            "test_stray_cancellation.py",
            "test_compose.py",
            "test_cli_begun.py",
        ),
    ),
    "batch": Room(
        ("toolcall_pipeline/batch/*.py",),
        ("test_batch.py", "test_portal.py", "test_builtin.py", "test_effects.py"),
    ),
    "telemetry": Room(
        ("toolcall_pipeline/telemetry/*.py",),
        (
            "test_trace*.py",
            "test_assert_trace.py",
            "test_log.py",
            "test_log_export.py",
            "test_metrics.py",
            "test_live_events.py",
            "test_events.py",
            "test_configure.py",
            "test_deferred.py",
            "test_flush_deferred.py",
            "test_own_attributes.py",
            "test_agents.py",
            "test_decided_by.py",
            "test_leaks.py",
            "test_secrets.py",
        ),
    ),
    "mcp": Room(
        ("toolcall_pipeline/mcp/*.py",),
        ("test_mcp_*.py", "test_add_server.py", "test_cli_serve.py"),
    ),
    "adapters": Room(
        ("toolcall_pipeline/adapters/*.py",),
        (
            "test_adapters_*.py",
            "test_wires.py",
            "test_sending_back.py",
            "test_text_calls.py",
            "test_strict_schemas.py",
            "test_definable.py",
            "test_reply_kinds.py",
            "test_agent_loops.py",
            "test_totality.py",
        ),
    ),
    "dialogue": Room(
        ("toolcall_pipeline/dialogue/*.py",),
        ("test_dialogue*.py", "test_messages_changes.py", "test_agent_loops.py"),
    ),
    "stage_state": Room(
        ("toolcall_pipeline/stage_state/*.py",),
        (
            "test_loop_guard.py",
            "test_circuit_breaker.py",
            "test_concurrency.py",
            "test_cache.py",
            "test_rate_limit.py",
            "test_quota.py",
            "test_shared_limits.py",
            "test_plain_data.py",
            "test_repeated_parts.py",
        ),
    ),
    "hosts": Room(
        _OF_ALL_HOSTS,
        ("test_hosts.py", "test_exported_tools.py", "test_adapters_names.py"),
    ),
    "identity": Room(
        ("toolcall_pipeline/once/*.py",),
        (
            "test_digests.py",
            "test_intents.py",
            "test_ledger.py",
            "test_batch.py",
            "test_dialogue*.py",
            "test_loop_guard.py",
        ),
    ),
    "ledger": Room(
        (
            "toolcall_pipeline/once/owners.py",
            "toolcall_pipeline/once/ledger_records.py",
            "toolcall_pipeline/once/kept_outcomes.py",
            "toolcall_pipeline/middlewares/ledger.py",
        ),
        ("test_digests.py", "test_ledger*.py", "test_intents.py", "test_cli_ledger.py", "test_stores*.py"),
    ),
    "policies": Room(
        ("toolcall_pipeline/policies/*.py", "toolcall_pipeline/middlewares/policy.py"),
        ("test_digests.py", "test_policy.py", "test_mcp_policy.py"),
    ),
    "approvals": Room(
        ("toolcall_pipeline/approvals/*.py", "toolcall_pipeline/middlewares/approve.py"),
        ("test_approv*.py", "test_cli_approvals.py", "test_policy.py"),
    ),
}

# Each in the environment of its framework, as in `make test-hosts` and `make test-mcp`:
# .venv-hosts/langchain/bin/python -m benchmarks.mutants --only langchain
# .venv-mcp/bin/python -m benchmarks.mutants --only mcp_sdk
WITH_FRAMEWORKS = {
    "mcp_sdk": Room(
        ("toolcall_pipeline/mcp/*.py",),
        ("mcp_added_tools.py", "mcp_asking_tools.py", "mcp_served_tools.py", "mcp_urls.py"),
    ),
} | {
    name: Room((*_OF_ALL_HOSTS, f"toolcall_pipeline/hosts/{name.split('_')[0]}*.py"), (f"hosts_in_{name}.py",))
    for name in ("adk", "agent_framework", "anthropic_runner", "fastmcp", "langchain", "openai_agents", "pydantic_ai")
}

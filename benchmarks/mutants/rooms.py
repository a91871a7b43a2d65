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


ROOMS = {
    "resolve": Room(
        (
            "middlewares/resolve.py",
            "pipeline/tools/matching.py",
            "pipeline/tools/canonical.py",
            "pipeline/tools/transport_noise.py",
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
        ("middlewares/validate.py", "pipeline/parameters/*.py", "pipeline/privacy/*.py"),
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
            "test_known_texts.py",
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
            "middlewares/classify.py",
            "pipeline/tools/classification.py",
            "pipeline/tools/client_*.py",
            "pipeline/tools/error_*.py",
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
        ("pipeline/messages/*.py", "pipeline/messages/profiles/*.py"),
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
        ("pipeline/retries.py", "middlewares/retry.py"),
        ("test_retry.py", "test_planner.py", "test_budget.py", "test_effects.py"),
    ),
    "chain": Room(
        ("pipeline/compose/*_chain.py",),
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
        ),
    ),
    "guards": Room(
        ("pipeline/guards/*.py", "pipeline/compose/deadline.py"),
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
        ("pipeline/batch/*.py",),
        ("test_batch.py", "test_portal.py", "test_builtin.py", "test_effects.py"),
    ),
}

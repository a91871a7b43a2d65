"""``python -m benchmarks.scale.families``: the attacks that the tests make, by promise, and what got through.

A family is one test, with all its cases: a way to break a promise. The figures are those of the run that prints them.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).parents[2]
PROMISES = {
    "a change that may have happened is not made again": (
        "effects", "exits", "intents", "ledger", "lost_answers", "one_request", "own_middlewares", "repeated_parts",
        "row_versions", "two_equalities",
    ),
    "what a person approved runs, once": ("approval_attacks", "approve", "mcp_approvals"),
    "no declared secret leaves": ("secrets", "secret_values", "masking"),
    "a rule that cannot say denies": ("accepted_json", "policy", "policy_reload", "policy_total", "mcp_policy"),
    "nothing is raised at the caller": ("dialogue_odd", "messages_odd", "odd_fields", "reply_kinds", "totality"),
    "no waiter depends on another": ("cancelled_groups", "shared_limits", "stray_cancellation", "lifetime"),
    "no message passes that the policy did not see": ("mcp_hostile", "mcp_lines", "mcp_relay"),
    "a call that validates is not changed": ("exact_values", "repair_cases", "strictness", "strict_keys"),
}  # fmt: skip


@attrs.define
class Tally:
    """Counts the cases of each test."""

    tried: Counter[tuple[str, str]] = attrs.field(factory=Counter[tuple[str, str]])
    through: Counter[tuple[str, str]] = attrs.field(factory=Counter[tuple[str, str]])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a case; one whose set-up failed was not tried."""
        file, _, test = report.nodeid.partition("::")
        family = Path(file).stem.removeprefix("test_"), test.partition("[")[0].removeprefix("test_").replace("_", " ")
        if report.when == "call" and not report.skipped:
            self.tried[family] += 1
        if report.failed:
            self.through[family] += 1


def main() -> int:
    """Run the tests and print the table; 1 if anything got through."""
    tally = Tally()
    files = [f"tests/test_{name}.py" for names in PROMISES.values() for name in names]
    options = ["-q", "-q", "-n", "auto", "--dist", "worksteal", "--no-header", "--no-summary", "-p", "no:cacheprovider"]
    code = pytest.main([*options, "--rootdir", str(ROOT), "-m", "not long", "--examples=10", *files], plugins=[tally])
    print(f"\n{'tried':>6}  {'through':>7}  family")
    for promise, names in PROMISES.items():
        mine = sorted(family for family in tally.tried if family[0] in names)
        print(f"{promise}: {len(mine)} families")
        for family in mine:
            print(f"{tally.tried[family]:6}  {tally.through[family]:7}  {family[1]}")
    print(f"{len(tally.tried)} families, {tally.tried.total()} cases, {tally.through.total()} got through")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())

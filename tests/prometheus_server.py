"""Every rule and every panel on a real Prometheus that scrapes calls that fail; run by `make test-operations`.

Debian's package `prometheus`, unpacked into build/, is enough: no service is installed.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import anyio
import pytest

from benchmarks.scale.servers import HOST, get, hold_port, running, wait_for
from failing_calls import live_exporter
from test_operations import FOLDER, QUERIES, RULES

ROOT = Path(__file__).parent.parent
BIN = ROOT / "build" / "prometheus" / "usr" / "bin"
CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs: [{{job_name: shop, static_configs: [{{targets: ["{address}"]}}]}}]
"""
AT_ONCE = {  # need no second look after minutes
    "SideEffectUnknown",
    "ToolCrashing",
    "ToolNotSetUp",
    "SpansDropped",
    "CallsUndecided",
    "ApprovalWaiting",
}
BEGUN = {"StoreSlow"}  # fires after ten minutes in which it is so
QUIET = {"CallsStuck"}  # nothing is stuck

Ask = Any


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Asks a Prometheus that has the rules, and has scraped an application before and after a round of calls."""
    folder = tmp_path_factory.mktemp("prometheus")
    port = hold_port()

    def ask(path: str, **parameters: str) -> Any:
        return json.loads(get(f"http://{HOST}:{port}/api/v1/{path}?{urlencode(parameters)}"))["data"]

    def count(query: str) -> float:
        return sum(float(each["value"][1]) for each in ask("query", query=query)["result"])

    with live_exporter() as (address, call_all):
        config = folder / "prometheus.yml"
        config.write_text(CONFIG.format(rules=FOLDER / "alerts.yml", address=address))
        options = (f"config.file={config}", f"storage.tsdb.path={folder / 'data'}", f"web.listen-address={HOST}:{port}")
        command = [str(BIN / "prometheus"), *(f"--{each}" for each in options)]
        with running(command, folder / "log", lambda: get(f"http://{HOST}:{port}/-/ready")):
            for calls in (1, 2, 3):  # rate() wants two samples of a series, and "before" wants one
                anyio.run(call_all)
                seen = f'gen_ai_execute_tool_duration_seconds_count{{gen_ai_tool_name="pay"}} >= {calls}'
                wait_for("The calls were not scraped", partial(count, seen))
            yield ask


@pytest.mark.parametrize("command", [("check", FOLDER / "alerts.yml"), ("test", ROOT / "tests" / "alerts_test.yml")])
def test_promtool_accepts_the_rules(command: tuple[str, Path]) -> None:
    """Prometheus's own tool finds no fault with the rules, and the unit test of each alert passes."""
    what, file = command
    found = subprocess.run([BIN / "promtool", what, "rules", file], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def test_each_alert_has_a_unit_test() -> None:
    """Each alert fires in one unit test, and does not fire in another."""
    cases = (ROOT / "tests" / "alerts_test.yml").read_text()
    for rule in RULES:
        if rule.kind == "alert":
            assert re.search(rf"alertname: {rule.name}, exp_alerts: \[\]", cases)
            assert re.search(rf"alertname: {rule.name}\n        exp_alerts:\n          - exp_labels", cases)


def test_the_rules_are_evaluated(ask: Ask) -> None:
    """No rule has an error, those that need one failure only fire, and those that need minutes as well have begun."""

    def all_rules() -> dict[str, Any]:
        rules = {rule["name"]: rule for group in ask("rules")["groups"] for rule in group["rules"]}
        firing = {name for name, rule in rules.items() if rule.get("state") == "firing"}
        pending = {name for name, rule in rules.items() if rule.get("state") == "pending"}
        return rules if firing >= AT_ONCE and pending >= BEGUN else {}

    rules = wait_for("The alerts did not fire", all_rules)
    assert [rule.get("lastError") for rule in rules.values() if rule["health"] != "ok"] == []
    assert set(rules) == {rule.name for rule in RULES}


@pytest.mark.parametrize("name", sorted(set(QUERIES) - QUIET))
def test_each_query_finds_something(ask: Ask, name: str) -> None:
    """A rule without its threshold, and a panel with its variables filled in, has data after a round of calls."""
    query = QUERIES[name].replace("$__rate_interval", "1m").replace("$job", ".*").replace("$tool", ".*")
    query = re.sub(r" > [\d.]+", "", query)
    assert wait_for(f"{name} finds nothing", lambda: ask("query", query=query)["result"])

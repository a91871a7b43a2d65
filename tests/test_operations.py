"""The alert rules and the dashboard, against what a live Prometheus exporter shows of calls that fail."""

from __future__ import annotations

import json
from importlib.resources import files
from itertools import combinations
from typing import Any
from urllib.request import ProxyHandler, build_opener

import anyio
import pytest

from failing_calls import live_exporter
from promql import read_query, read_rules, read_scrape
from toolcall_pipeline.base.semconv import OTHER
from toolcall_pipeline.engine.errors import ERROR_TYPES
from toolcall_pipeline.engine.report import CANCELLED

FOLDER = files("toolcall_pipeline.telemetry") / "operations"
RULES = list(read_rules((FOLDER / "alerts.yml").read_text(encoding="utf-8")))
ALERTS = [rule.name for rule in RULES if rule.kind == "alert"]
RECORDED = {rule.name: rule.query for rule in RULES if rule.kind == "record"}
PANELS: list[dict[str, Any]] = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))["panels"]
QUERIES = {rule.name: rule.query for rule in RULES} | {
    f"{panel['title']} {target['refId']}": target["expr"] for panel in PANELS for target in panel["targets"]
}
ADDED = {"job"}  # by Prometheus itself: the application

Scrape = dict[str, dict[str, set[str]]]


@pytest.fixture(scope="module")
def scrape() -> Scrape:
    """The series that the exporter shows, with their labels and the values of these."""
    with live_exporter() as (address, call_all):
        anyio.run(call_all)
        with build_opener(ProxyHandler({})).open(f"http://{address}/metrics", timeout=10) as answer:
            return read_scrape(answer.read().decode())


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_what_a_query_names_is_exported(scrape: Scrape, query: str) -> None:
    """Every metric of a rule or a panel exists; so do the labels, and the values that they are compared with."""
    read = read_query(query)
    labels = set(ADDED)
    for metric in read.metrics:
        assert metric in RECORDED or metric in scrape
        labels |= read_query(RECORDED[metric]).labels if metric in RECORDED else set(scrape[metric])
    assert read.labels <= labels
    exported = {(label, value) for of_one in scrape.values() for label in of_one for value in of_one[label]}
    assert read.values <= exported | {("error_type", "")}


def test_rules_ask_for_no_kind_that_does_not_exist() -> None:
    """The kinds of error in rules and panels are those of the pipeline."""
    compared = {
        value for query in QUERIES.values() for label, value in read_query(query).values if label == "error_type"
    }
    assert compared - {""} <= {each.kind for each in ERROR_TYPES} | {CANCELLED}


def test_the_reader_of_queries_sees_every_name() -> None:
    """Metrics and labels are found in matchers, groupings and joins; functions, words and numbers are none."""
    read = read_query('sum by (a) (rate(b_count{c=~"d|e"}[5m])) / on (f) group_left () g:h:i > 0.5 unless j offset 15m')
    assert read.metrics == frozenset(("b_count", "g:h:i", "j"))
    assert read.labels == frozenset(("a", "c", "f"))
    assert read.values == frozenset((("c", "d"), ("c", "e")))


def test_the_rules_leave_names_out_that_no_tool_has() -> None:
    """Models invent names without bound: they are no failure of a tool."""
    (failing,) = (rule.query for rule in RULES if rule.name == "ToolFailing")
    assert f'gen_ai_tool_name!="{OTHER}"' in failing


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_has_a_panel_and_a_runbook(alert: str) -> None:
    """An alert is named by the panel to look at, by a section of the guide, and by a unit test of promtool."""
    assert any(alert in panel["description"] for panel in PANELS)
    guide = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert f"\n### {alert}\n" in guide


def test_the_dashboard_is_well_formed() -> None:
    """Panels have ids of their own, do not overlap, and read from the data source that is chosen."""
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    for one, other in combinations([panel["gridPos"] for panel in PANELS], 2):
        apart = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert apart or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    for panel in PANELS:
        for each in (panel, *panel["targets"]):
            assert each["datasource"]["uid"] == "${datasource}"

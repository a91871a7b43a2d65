"""Two runs side by side: what got better, worse, or stayed the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias, cast

import attrs

Verdict: TypeAlias = Literal["better", "worse", "same", "new", "gone"]
_STEP = 0.04  # a share of a figure: two runs that differ by less are the same
_LEAST = 50.0  # ns; as above: where objects lie in memory moves a figure by that much
_OTHER_MACHINE = 0.1  # a share of the probe


@attrs.frozen
class Change:
    """One figure of two runs, in ns: CPU and waits together. None: that run does not have it."""

    what: str
    before: float | None
    now: float | None
    verdict: Verdict


def compare_runs(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> list[Change]:
    """Compare two runs, each as `Overhead.as_json` keeps it.

    A figure is better or worse if the quartiles of the two runs do not touch, and the figures differ by more than 4 %
    and by more than 50 ns.

    Raises:
        KeyError, TypeError: One of them is not such a run.
    """
    before, now = dict(_list_figures(earlier)), dict(_list_figures(later))
    changes = [
        Change(what, _sum(before.get(what)), _sum(row), _judge(before.get(what), row)) for what, row in now.items()
    ]
    gone = [Change(what, _sum(row), None, "gone") for what, row in before.items() if what not in now]
    return changes + gone


def explain_speed(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> str:
    """A sentence if a fixed piece of work took another time in the earlier run; else ""."""
    ratio = float(later["probe_ns"]) / float(earlier["probe_ns"])
    if abs(ratio - 1) <= _OTHER_MACHINE:
        return ""
    return f"A fixed piece of work takes {ratio:.2f} times as long as then: this is another machine, or a busy one."


def _list_figures(run: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for stage in run["stages"]:
        if stage["ns"] is not None:
            yield str(stage["name"]), stage
    yield "(whole)", run["whole"]
    for failure in run["failures"]:
        yield f"({failure['kind']})", failure


def _sum(row: Mapping[str, Any] | None) -> float | None:
    return None if row is None else float(row["ns"]) + float(row["waited_ns"])


def _judge(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> Verdict:
    if before is None:
        return "new"
    old, new = cast("float", _sum(before)), cast("float", _sum(now))
    if abs(new - old) <= max(_STEP * abs(old), _LEAST):
        return "same"
    waits = float(before["waited_ns"]), float(now["waited_ns"])
    low, high = (each + waits[0] for each in before["quartiles"])
    if max(now["quartiles"]) + waits[1] < low:
        return "better"
    return "worse" if min(now["quartiles"]) + waits[1] > high else "same"

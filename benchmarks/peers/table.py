"""The results as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.peers.catalogue import OURS, PEERS, REASONS
from benchmarks.peers.results import Row, find_faults, find_ours
from benchmarks.peers.scenarios import BY_KEY, SCENARIOS

_SHOWN = 110  # characters of the text for the model


def write_table(rows: Sequence[Row], about: Mapping[str, object], absent: Mapping[str, str]) -> str:
    """The page."""
    return "\n".join([*_head(about, absent), *_costs(rows), *_not_first(rows), *_told(rows), *_peers(rows), ""])


def _head(about: Mapping[str, object], absent: Mapping[str, str]) -> Iterator[str]:
    yield "# This pipeline beside the agent frameworks"
    yield ""
    yield f"`{about['command']}`, {about['date']}, CPython {about['python']}, {about['cores']} cores, "
    yield f"load {about['load']}, {about['rounds']} processes for each."
    yield "[How it is measured](../PEERS.md)"
    for name, reason in absent.items():
        yield ""
        yield f"{PEERS[name].label} is not in the tables: {reason}"


def _costs(rows: Sequence[Row]) -> Iterator[str]:
    yield from ("", "## What a call costs", "")
    yield "In loops by hand, and in brackets as a multiple of ours. † says that something went wrong, as told below."
    yield ""
    yield "| |" + "|".join(f" {each.label} " for each in SCENARIOS) + "|"
    yield "|---" * (len(SCENARIOS) + 1) + "|"
    ours = find_ours(rows)
    for row in rows:
        figures: list[str] = []
        for scenario in SCENARIOS:
            cell = row.cells.get(scenario.key)
            if cell is None:
                figures.append(" - ")
                continue
            times = "" if row is ours else f" ({format_number(cell.cost / ours.cells[scenario.key].cost)})"
            mark = " †" if find_faults(scenario, cell) else ""
            figures.append(f" {format_number(cell.cost)}{times}{mark} ")
        yield f"| {row.label} |" + "|".join(figures) + "|"


def format_number(number: float) -> str:
    """Two digits, or all of those before the point."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"  # noqa: PLR2004


def find_cheaper(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Those that cost less than ours, cheapest first, by the scenarios where there are any."""
    ours = find_ours(rows)
    found: dict[str, list[Row]] = {}
    for key, cell in ours.cells.items():
        cheaper = [row for row in rows if row.name != OURS and row.cells[key].cost < cell.cost]
        if cheaper:
            found[key] = sorted(cheaper, key=lambda row: row.cells[key].cost)
    return found


def _not_first(rows: Sequence[Row]) -> Iterator[str]:
    yield from ("", "## Where something costs less than ours", "")
    yield "Ours is the first row, whose tools declare their effects. Its other rows stand beside it in brackets:"
    yield "`undeclared` declares nothing, `stages=False` and `plain` leave out what most of the others do not do."
    yield ""
    found = find_cheaper(rows)
    if not found:
        yield "Nothing does."
    ours = find_ours(rows)
    for key, cheaper in found.items():
        scenario = BY_KEY[key]
        others = [row for row in rows if row.name == OURS and row is not ours and key in row.cells]
        mine = "".join(f"; {row.variant}: {format_number(row.cells[key].cost)}" for row in others)
        yield f"- **{scenario.label}** ({format_number(ours.cells[key].cost)} loops{mine}; why: {REASONS[key]}):"
        for row in cheaper:
            faults = find_faults(scenario, row.cells[key])
            but = f", but {'; '.join(faults)}" if faults else ""
            spans = _spans(row.cells[key].spans) if scenario.traced else ""
            yield f"  - {row.label}: {format_number(row.cells[key].cost)}{spans}{but}"


def _spans(count: int) -> str:
    return f", {count} span{'' if count == 1 else 's'}"


def _told(rows: Sequence[Row]) -> Iterator[str]:
    yield from ("", "## What becomes of a call", "")
    yield "`began` and `took effect` count what the body of the tool did. A secret stands in an exception, or in an"
    yield "argument of the traced call. It is looked for in what the model is told, in exported spans and, if it is an"
    yield "argument, in the log."
    for scenario in SCENARIOS:
        yield from ("", f"### {scenario.label}", "")
        call = scenario.calls[0]
        many = f", {len(scenario.calls):,} times; what is told is told of the first" if len(scenario.calls) > 1 else ""
        yield f"`{call.name}` with `{call.arguments}`{many}"
        yield ""
        yield "| | the model is told | began | took effect |" + (" spans |" if scenario.traced else "") + " wrong |"
        yield "|---|---|---|---|---|" + ("---|" if scenario.traced else "")
        for row in rows:
            cell = row.cells.get(scenario.key)
            if cell is None:
                continue
            spans = f" {cell.spans} |" if scenario.traced else ""
            faults = "; ".join(find_faults(scenario, cell))
            yield f"| {row.label} | {_excerpt(cell.told)} | {cell.begun:,} | {cell.done:,} |{spans} {faults} |"


def _excerpt(text: str) -> str:
    short = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    return f"`{short.replace('|', '¦').replace('`', chr(39))}`" if short else ""


def _peers(rows: Sequence[Row]) -> Iterator[str]:
    yield from ("", "## Who does more, and who does less", "")
    yield "All but ours keep conversations and call models, or speak a protocol; ours stands inside of most of them"
    yield "([hosts](../../pipeline/hosts/README.md))."
    for name in dict.fromkeys(row.name for row in rows):
        peer = PEERS[name]
        yield from ("", f"### {peer.label}", "")
        mine = [row for row in rows if row.name == name]
        yield ", ".join(f"{package} {version}" for package, version in mine[0].versions.items())
        yield ""
        yield from (f"- {row.variant or 'measured'}: {row.path}" for row in mine)
        if peer.less:
            yield from (f"- more: {peer.more}.", f"- less: {peer.less}.")

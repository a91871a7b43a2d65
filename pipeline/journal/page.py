"""write_page: the figures of a journal as one page of HTML, with charts, without a script and without a request.

All that a model, a tool or a file named is escaped, and control characters are made visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

from ..privacy import neutralise
from .recovery import Recoveries, Share
from .summary import Summary, Tally, by_calls, find_percentiles

_MOST_ROWS: Final = 30
_MOST_HOURS: Final = 72  # columns of the chart over time
_TIMES: Final = ("p5", "p9")  # how the titles of columns begin that a phone has no room for
_NAME: Final = 120  # characters of a name
_FAULT_WORDS: Final = {
    "model": "the model",
    "tool": "the tool or its set-up",
    "backend": "the backend",
    "policy": "a rule or a limit",
    "person": "a person has to answer",
}

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c1f23; --soft: #5f6873; --line: #dfe3e8; --paper: #ffffff; --card: #f6f7f9;
  --good: #4c8bb5; --bad: #c2513f; --model: #c2513f; --tool: #a8721b; --backend: #6b58b0; --policy: #3f7f6b;
  --person: #6f7885; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --soft: #a3acb7; --line: #343a42; --paper: #15181c;
  --card: #1e2228; --good: #5fa3d0; --bad: #e0705c; --model: #e0705c; --tool: #d79b3f; --backend: #9a88e0;
  --policy: #5fae94; --person: #98a2ae; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 70rem; padding: 1.5rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.05rem; margin: 2.2rem 0 .6rem; }
p { margin: .3rem 0; color: var(--soft); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: .7rem; margin-top: 1rem; }
.card { background: var(--card); border-radius: .5rem; padding: .7rem .9rem; }
.card b { display: block; font-size: 1.35rem; line-height: 1.2; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
.card span { color: var(--soft); font-size: .85rem; }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); gap: 0 2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: right; padding: .3rem .5rem; border-bottom: 1px solid var(--line); white-space: nowrap;
  font-variant-numeric: tabular-nums; vertical-align: top; }
th { color: var(--soft); font-weight: 500; }
th:first-child, td:first-child, td.text, th.text { text-align: left; white-space: normal; min-width: 8rem; }
td.text { color: var(--soft); min-width: 12rem; }
.bar { display: grid; grid-template-columns: minmax(6rem, 13rem) 1fr 7.5rem; gap: .6rem; align-items: center;
  margin: .25rem 0; font-size: .9rem; }
.bar i { display: block; height: .85rem; border-radius: .2rem; background: var(--good); min-width: 2px; }
.bar span:last-child { text-align: right; color: var(--soft); font-variant-numeric: tabular-nums; }
svg { width: 100%; height: 9rem; display: block; } svg text { fill: var(--soft); font-size: 11px; }
.key { font-size: .85rem; color: var(--soft); } .key i { display: inline-block; width: .7rem; height: .7rem;
  border-radius: .15rem; margin: 0 .3rem 0 .8rem; }
@media (max-width: 34rem) { .bar { grid-template-columns: 1fr 6.5rem; } .bar > span:first-child { grid-column: 1 / -1; }
  .bar > div { grid-row: 2; } td, th { padding: .3rem .35rem; } .times { display: none; }
  th:first-child, td:first-child { min-width: 6rem; } td.text { min-width: 6.5rem; } }
"""


def write_page(found: Summary, title: str) -> str:
    """Return the page."""
    faults = [(_FAULT_WORDS[name], count, name) for name, count in found.total.faults.most_common()]
    parts = [
        _make_head(found, title),
        _make_time_chart(found),
        '<div class="two">',
        _make_bars("Whose fault it was", faults, found),
        _make_bars("Failures by kind", [(kind, n, "bad") for kind, n in found.total.kinds.most_common()], found),
        "</div>",
        _make_groups("Tools", "tool", by_calls(found.tools)),
        _make_groups("Principals", "principal", by_calls(found.principals)) if len(found.principals) > 1 else "",
        _make_groups("Wordings", "wording", by_calls(found.wordings)) if len(found.wordings) > 1 else "",
        '<div class="two">',
        _make_attempts(found),
        _make_next_steps(found),
        _make_counts(
            "Repairs",
            f"{found.repaired[0]:,} calls were repaired; {found.repaired[1]:,} of them succeeded.",
            ("rule", "calls", "succeeded"),
            [(rule, calls, str(Share(good, calls))) for rule, (calls, good) in found.list_repairs()[:_MOST_ROWS]],
        ),
        _make_counts(
            "Retries",
            f"{found.retried[0]:,} calls ran more than once; {found.retried[1]:,} of them succeeded. "
            f"They waited {found.waited:.3g} seconds in all.",
            ("decision", "times"),
            found.decisions.most_common(_MOST_ROWS),
        ),
        "</div>",
        _make_recovery(found.recovery),
        _make_stages(found),
    ]
    body = "\n".join(part for part in parts if part)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{_text(title)}: tool calls</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _text(value: object) -> str:
    return escape(neutralise(str(value), limit=_NAME))


def _make_head(found: Summary, title: str) -> str:
    total = found.total
    span = f"{_time(found.first)} to {_time(found.last)}" if total.calls else "no calls"
    ms = find_percentiles(total.seconds)
    cards = [
        (f"{total.calls:,}", "calls"),
        (f"{total.failures:,}", f"failed ({_share(total.failures, total.calls)})"),
        (f"{total.cancelled:,}", "cancelled"),
        (f"{found.repaired[0]:,}", "repaired"),
        (f"{found.retried[0]:,}", "ran more than once"),
        (f"{ms['p50']:.3g} ms" if ms else "-", "median"),
        (f"{ms['p99']:.3g} ms" if ms else "-", "99th percentile"),
    ]
    if found.replayed:
        cards.append((f"{found.replayed:,}", "got an earlier outcome"))
    if found.dropped:
        cards.append((f"{found.dropped:,}", "dropped, not in here"))
    shown = "".join(
        f'<div class="card"><b>{_text(number)}</b><span>{_text(what)}</span></div>' for number, what in cards
    )
    return f'<h1>{_text(title)}</h1>\n<p>{_text(span)}</p>\n<div class="cards">{shown}</div>'


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1e9, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "0%"


def _make_time_chart(found: Summary) -> str:
    """Calls by time, in at most 72 columns: those that succeeded, and on them those that did not."""
    hours = sorted(found.hours)
    if len(hours) < 2:  # noqa: PLR2004  # one column is no chart
        return ""
    width = -(-(hours[-1] - hours[0] + 1) // _MOST_HOURS)
    columns: dict[int, list[int]] = {}
    for hour, (calls, failed) in found.hours.items():
        column = columns.setdefault((hour - hours[0]) // width, [0, 0])
        column[0] += calls
        column[1] += failed
    last = max(columns)
    most = max(calls for calls, _ in columns.values())
    step = 1000 / (last + 1)
    shapes: list[str] = []
    for place, (calls, failed) in sorted(columns.items()):
        good, bad = 110 * (calls - failed) / most, 110 * failed / most
        label = f"{_time((hours[0] + place * width) * 3_600_000_000_000)}: {calls:,} calls, {failed:,} did not succeed"
        x, size = place * step, max(step - 1.5, 1)
        shapes.append(
            f"<g><title>{_text(label)}</title>"
            f'<rect x="{x:.1f}" y="{125 - good - bad:.1f}" width="{size:.1f}" height="{bad:.1f}" fill="var(--bad)"/>'
            f'<rect x="{x:.1f}" y="{125 - good:.1f}" width="{size:.1f}" height="{good:.1f}" fill="var(--good)"/></g>'
        )
    unit = "hour" if width == 1 else f"{width} hours"
    return (
        f"<h2>Calls per {unit}</h2>\n"
        '<p class="key"><i style="background:var(--good)"></i>succeeded'
        '<i style="background:var(--bad)"></i>failed or cancelled</p>\n'
        '<svg viewBox="0 0 1000 130" preserveAspectRatio="none" role="img" aria-label="Calls by time">'
        f"{''.join(shapes)}</svg>"
        f"<p>{_text(_time(found.first))} to {_text(_time(found.last))}, at most {most:,} calls per {unit}</p>"
    )


def _make_bars(title: str, rows: Sequence[tuple[str, int, str]], found: Summary) -> str:
    if not rows:
        return ""
    most, calls = max(count for _, count, _ in rows), found.total.calls
    bars = "".join(
        f'<div class="bar"><span>{_text(name)}</span><div><i style="width:{100 * count / most:.1f}%;'
        f'background:var(--{color})"></i></div><span>{count:,} ({_share(count, calls)})</span></div>'
        for name, count, color in rows[:_MOST_ROWS]
    )
    return f"<section><h2>{_text(title)}</h2>\n<p>Of {calls:,} calls.</p>\n{bars}</section>"


def _make_groups(title: str, first: str, groups: Sequence[tuple[str, Tally]]) -> str:
    rows: list[Sequence[str]] = []
    for name, tally in groups[:_MOST_ROWS]:
        ms = find_percentiles(tally.seconds)
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in tally.kinds.most_common(4))
        times = [f"{ms[each]:.3g}" for each in ("p50", "p90", "p99")] if ms else ["", "", ""]
        share = _share(tally.failures, tally.calls)
        rows.append((name or "(none)", f"{tally.calls:,}", f"{tally.failures:,}", share, *times, kinds))
    more = f"<p>and {len(groups) - _MOST_ROWS:,} more</p>" if len(groups) > _MOST_ROWS else ""
    titles = (first, "calls", "failed", "share", "p50 ms", "p90", "p99", "failures by kind")
    return f"<h2>{_text(title)}</h2>\n{_make_table(titles, rows, last_is_text=True)}{more}"


def _make_attempts(found: Summary) -> str:
    rows = [
        (f"{count} times" if count else "not at all", f"{calls:,}", f"{good:,}", _share(good, calls))
        for count, (calls, good) in sorted(found.attempts.items())
    ]
    table = _make_table(("the body ran", "calls", "succeeded", "share"), rows)
    return f"<section><h2>Success by attempt</h2>\n{table}</section>" if rows else ""


def _make_next_steps(found: Summary) -> str:
    steps: dict[str, int] = {}
    for counts in found.next_steps.values():
        for step, count in counts.items():
            steps[step] = steps.get(step, 0) + count
    rows = sorted(steps.items(), key=lambda each: -each[1])
    whole = sum(steps.values())
    if not rows:
        return ""
    shown = [(step, f"{count:,}", _share(count, whole)) for step, count in rows]
    table = _make_table(("in the same conversation", "times", "share"), shown)
    return f"<section><h2>What the model did after a failure</h2>\n{table}</section>"


def _make_recovery(found: Recoveries) -> str:
    total = found.total
    rows = [
        (kind, str(each.at_2), str(each.by_3), f"{each.repeats:,}", f"{each.told:,}", f"{tool}, {wording}")
        for (kind, tool, wording), each in found.list_groups()[:_MOST_ROWS]
    ]
    if not rows:
        return ""
    about = (
        f"Of the first failures in a conversation, the second attempt mended {total.at_2}, and the second or third "
        f"{total.by_3} (95 % intervals by Wilson). {Share(total.repeats, total.attempts)} attempts sent the same "
        f"arguments again. {total.seconds:,.3g} s passed until what was mended."
    )
    titles = ("first failure", "mended at 2", "by 3", "repeats", "characters told", "tool, wording")
    return f"<h2>Recovery</h2>\n<p>{escape(about)}</p>\n{_make_table(titles, rows, last_is_text=True)}"


def _make_counts(
    title: str, about: str, titles: tuple[str, ...], rows: Iterable[tuple[str, int] | tuple[str, int, str]]
) -> str:
    shown = [(name, f"{count:,}", *more) for name, count, *more in rows]
    return f"<section><h2>{title}</h2>\n<p>{_text(about)}</p>\n{_make_table(titles, shown)}</section>" if shown else ""


def _make_stages(found: Summary) -> str:
    rows: list[Sequence[str]] = []
    for name, stage in sorted(found.stages.items(), key=lambda each: -each[1].total)[:_MOST_ROWS]:
        ms = find_percentiles(stage.seconds)
        times = [f"{ms[each]:.3g}" for each in ("p50", "p99")] if ms else ["", ""]
        rows.append((name, f"{stage.runs:,}", f"{stage.decided:,}", f"{stage.total:.3g}", *times))
    titles = ("stage", "runs", "made failures", "seconds in all", "p50 ms", "p99 ms")
    return f"<h2>Stages, slowest first</h2>\n{_make_table(titles, rows)}" if rows else ""


def _make_table(titles: Sequence[str], rows: Iterable[Sequence[str]], *, last_is_text: bool = False) -> str:
    def cell(tag: str, place: int, value: str) -> str:
        name = "text" if last_is_text and place == len(titles) - 1 else "times" if titles[place][:2] in _TIMES else ""
        kind = f' class="{name}"' if name else ""
        return f"<{tag}{kind}>{_text(value)}</{tag}>"

    head = "".join(cell("th", place, title) for place, title in enumerate(titles))
    body = "".join(f"<tr>{''.join(cell('td', place, each) for place, each in enumerate(row))}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'

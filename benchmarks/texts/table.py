"""The table of a comparison, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.texts.cases import KINDS
from benchmarks.texts.comparison import Comparison
from benchmarks.texts.judging import MEASURES


def format_lines(found: Comparison) -> Iterator[str]:
    """The lines."""
    first = found.shares[found.against]
    width = max(map(len, found.variants)) + 2
    counts = {kind: first[kind]["right"].n for kind in ("all", *KINDS)}
    yield f"{counts['all']} cases" + (f"; {found.left_out} have no answer for some variant" if found.left_out else "")
    kinds = [kind for kind in KINDS if counts[kind]]
    heads = [f"{kind}, of {counts[kind]}" for kind in kinds]
    yield f"{'':{width}}{'chars':>6}{'right %':>9}{'valid %':>9}{'again %':>9}   right: " + "   ".join(heads)
    for variant, shares in found.shares.items():
        overall = "".join(f"{shares['all'][each].percent:9.1f}" for each in MEASURES)
        by_kind = "   ".join(f"{shares[k]['right'].count:>{len(h)}}" for k, h in zip(kinds, heads, strict=True))
        yield f"{variant:{width}}{found.characters[variant]:6.0f}{overall}          {by_kind}"
    yield f"minus `{found.against}`, in points, with an interval of 95 % (cases won : lost)"
    for variant, by_measure in found.differences.items():
        each = by_measure["right"]
        yield f"{variant:{width}}{each.points:+6.1f} [{each.low:+.1f}, {each.high:+.1f}]  {each.won} : {each.lost}"

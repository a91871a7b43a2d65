"""Comparison: shares of each variant, and its paired difference to another one with a bootstrap interval of 95 %."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import attrs

from benchmarks.texts.answers import Answer
from benchmarks.texts.cases import KINDS, Case

_SAMPLES = 4_000
_TAIL = 0.025  # on each side of the interval
_ALL = "all"


@attrs.frozen
class Share:
    """Number of cases that a measure holds in."""

    n: int
    count: int

    @property
    def percent(self) -> float:
        """Of the cases; 0 for none."""
        return 100 * self.count / self.n if self.n else 0.0


@attrs.frozen
class Difference:
    """A variant minus the one that it is compared with, in percentage points.

    Args:
        points: Of all cases.
        low: The lower end of the interval.
        high: The upper end.
        won: Cases that only the variant has.
        lost: Cases that only the other one has.
    """

    points: float
    low: float
    high: float
    won: int
    lost: int


@attrs.frozen
class Comparison:
    """The cases that have an answer for each variant.

    Args:
        variants: In the order of the table.
        against: The variant with which the others are compared.
        characters: Of the text of each variant, on average.
        shares: By variant, kind of case (or ``all``) and measure.
        differences: By variant and measure, over all cases.
        left_out: Cases without an answer for each variant.
    """

    variants: Sequence[str]
    against: str
    characters: Mapping[str, float]
    shares: Mapping[str, Mapping[str, Mapping[str, Share]]]
    differences: Mapping[str, Mapping[str, Difference]]
    left_out: int

    def as_json(self) -> dict[str, Any]:
        """All figures."""
        return attrs.asdict(self)


def compare(
    cases: Sequence[Case], answers: Sequence[Answer], variants: Sequence[str], against: str, measures: Sequence[str]
) -> Comparison:
    """Compare variants over the cases that have an answer for each of them."""
    by_case: defaultdict[str, dict[str, Answer]] = defaultdict(dict)
    for answer in answers:
        by_case[answer.case][answer.variant] = answer  # of two, the last one
    asked = [case for case in cases if case.id in by_case]
    whole = [case for case in asked if all(variant in by_case[case.id] for variant in variants)]
    samples = _draw_samples(len(whole))

    def holds(variant: str, measure: str, chosen: Sequence[Case]) -> list[bool]:
        return [by_case[case.id][variant].measures[measure] for case in chosen]

    shares: dict[str, dict[str, dict[str, Share]]] = {}
    for variant in variants:
        kinds = {_ALL: whole, **{kind: [case for case in whole if case.kind == kind] for kind in KINDS}}
        shares[variant] = {
            kind: {each: Share(len(chosen), sum(holds(variant, each, chosen))) for each in measures}
            for kind, chosen in kinds.items()
        }
    differences = {
        variant: {
            each: _difference(holds(variant, each, whole), holds(against, each, whole), samples) for each in measures
        }
        for variant in variants
        if variant != against
    }
    lengths = {v: sum(len(by_case[case.id][v].text) for case in whole) / max(1, len(whole)) for v in variants}
    return Comparison(variants, against, lengths, shares, differences, len(asked) - len(whole))


def _draw_samples(n: int) -> list[list[int]]:
    """The same ones for each comparison of so many cases."""
    random = Random(1)  # noqa: S311  # a bootstrap, and the same from run to run
    return [random.choices(range(n), k=n) for _ in range(_SAMPLES)] if n else []


def _difference(one: Sequence[bool], other: Sequence[bool], samples: Sequence[Sequence[int]]) -> Difference:
    each = [a - b for a, b in zip(one, other, strict=True)]
    if not each:
        return Difference(0, 0, 0, 0, 0)
    means = sorted(100 * sum(each[index] for index in sample) / len(sample) for sample in samples)
    edge = int(len(means) * _TAIL)
    return Difference(100 * sum(each) / len(each), means[edge], means[-1 - edge], each.count(1), each.count(-1))

"""``python -m benchmarks.corpus.recovery``: is our text enough for a model to put a refused call right?

It runs the recorded calls that the pipeline refuses, with the text-only model. The calls of that model are well-formed
and no more: an error does not say what the user meant. The share at attempt 2 is of all calls that failed,
also of those that the model gave up, because source document 003 asks for it ("more than 60 % of retries should succeed
on attempt 2"). Of the attempts that were made, the share is printed too. Without recordings nothing is measured.
``--check`` also compares what is printed with the figures in ``benchmarks/CHECKS.md``.

The same failures are told as the constant text "Error" too, which is what a model gets of a runtime that says nothing.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import anyio
import attrs

from benchmarks.corpus.recordings import RecordedCall, default_folder, has_calls, read_calls
from benchmarks.corpus.second_attempts import SecondAttempt, run_second_attempts
from benchmarks.corpus.text_only_model import TextOnlyModel
from toolcall_pipeline import SetupError
from toolcall_pipeline.dialogue import run_turn
from toolcall_pipeline.dialogue.records import Turn, success_rates
from toolcall_pipeline.journal.recovery import Share

# Percent recovered at attempt 2 so far, by kind of error. Most unknown names fit no tool, and most malformed arguments
# are prose: then there is nothing to send again.
FLOORS: Mapping[str, float] = {"validation": 99.0, "unknown_tool": 9.7, "malformed_call": 9.5}
ATTEMPTS = 3
BASELINE = "Error"  # the text that says nothing
LIMIT_OF_A_REPLAY = (
    "A replay cannot say how often a model recovers, since its recorded next call answered another text. It says what",
    'a text makes possible: so much can be read from ours; "Error" names nothing: a model finds its mistake itself.',
)
_GUIDE = Path(__file__).parents[1] / "CHECKS.md"
_FIGURES = re.compile(r"^\$ make recovery\n(.*?)^```$", re.MULTILINE | re.DOTALL)

T = TypeVar("T")


@attrs.frozen
class Retried:
    """A call that the pipeline refused, and the result of asking the model again.

    Args:
        recorded: the call.
        turn: all attempts.
        stuck: why the model gave up; empty if it did not.
        made_up: whether it sent a value where the text gives only the form.
    """

    recorded: RecordedCall
    turn: Turn
    stuck: str = ""
    made_up: bool = False

    @property
    def kind(self) -> str:
        """The kind of the first error."""
        return self.turn.records[0].kind or ""

    @property
    def mistakes(self) -> Iterable[str]:
        """The mistakes, by the record."""
        name = self.recorded.name_mistake
        return (f"name: {name}",) if name is not None else self.recorded.mistakes or ("by the schema only",)

    @property
    def succeeded_at(self) -> int | None:
        """The number of the attempt that succeeded; None if none did."""
        return next((each.attempt for each in self.turn.records if each.success), None)

    @property
    def reason(self) -> str:
        """The reason why no attempt succeeded."""
        return f"{self.kind}: {self.stuck or 'still wrong after the last attempt'}"


async def ask_again(calls: Iterable[RecordedCall], constant: str | None = None) -> list[Retried]:
    """Run a turn for each call with a mistake, and return those that were not repaired outright.

    Args:
        calls: the calls.
        constant: what the model reads in place of each text. Default None: the texts as they are.
    """
    retried: list[Retried] = []
    for each in calls:
        if each.mistakes or each.name_mistake is not None or not each.valid_by_schema:
            model = TextOnlyModel(constant)
            turn = await run_turn(model, [each.call], each.pipeline, attempts=ATTEMPTS)
            if turn.error is not None:
                raise turn.error  # a bug of the text-only model
            if not turn.records[0].success:
                retried.append(Retried(each, turn, model.stuck, model.made_up))
    return retried


def split(retried: Iterable[Retried], keys: Callable[[Retried], Iterable[str]]) -> dict[str, Sequence[Retried]]:
    """Split by key, the largest part first; a call with several keys is in several parts."""
    parts: dict[str, list[Retried]] = {}
    for each in retried:
        for key in keys(each):
            parts.setdefault(key, []).append(each)
    return dict(sorted(parts.items(), key=lambda part: -len(part[1])))


def shares(retried: Sequence[Retried]) -> tuple[float, float]:
    """Percent recovered at attempt 2, and by the last attempt."""
    second, last = (sum(each.succeeded_at in numbers for each in retried) for numbers in ((2,), (2, ATTEMPTS)))
    whole = max(1, len(retried)) / 100
    return second / whole, last / whole


def lines(retried: Sequence[Retried]) -> Iterator[str]:
    """The table as it is printed."""
    yield f"  {'':36}{'refused':>8}{'at 2, %':>10}{'by 3, %':>10}"
    tables: dict[str, dict[str, Sequence[Retried]]] = {
        "by error": split(retried, lambda each: (each.kind,)),
        "by mistake": split(retried, lambda each: each.mistakes),
        "in all": {
            "": retried,
            "without unknown names": [each for each in retried if each.kind != "unknown_tool"],
        },
    }
    for title, parts in tables.items():
        yield title
        for key, part in parts.items():
            second, last = shares(part)
            yield f"  {key:36}{len(part):>8,}{second:>10.1f}{last:>10.1f}"
    yield "attempts that were made and succeeded"
    for number, rate in success_rates(each.turn for each in retried).by_attempt.items():
        yield f"  {number}: {rate.succeeded:,} of {rate.tried:,} ({100 * rate.share:.1f} %)"
    made_up = sum(each.made_up for each in retried if each.succeeded_at is not None)
    yield f"recovered with a value that just has the right form: {made_up:,}"
    yield "not recovered"
    for reason, count in Counter(each.reason for each in retried if each.succeeded_at is None).most_common():
        yield f"  {reason}: {count:,}"


def compare(retried: Sequence[Retried], baseline: Sequence[Retried], seconds: Sequence[SecondAttempt]) -> Iterator[str]:
    """The table of our texts beside the constant one, as it is printed, with denominators and intervals.

    Args:
        retried: the failures, told in our texts.
        baseline: the same ones, told in the constant text.
        seconds: failures with the recorded next call of their model, told in our texts.
    """
    told = [each for each in seconds if each.text is not None]
    counted: tuple[tuple[str, Callable[[Retried], bool]], ...] = (
        ("names what to change", lambda each: len(each.turn.records) > 1),
        ("mended from the text alone, at 2", lambda each: each.succeeded_at == 2),  # noqa: PLR2004
        ("mended from the text alone, by 3", lambda each: each.succeeded_at is not None),
    )
    kinds, baseline_kinds = (split(each, lambda one: (one.kind,)) for each in (retried, baseline))
    rows: list[tuple[str, Share, Share]] = []
    for title, counts in counted:
        rows.append((title, _share(retried, counts), _share(baseline, counts)))
        for kind, part in kinds.items():
            rows.append((f"  {kind}", _share(part, counts), _share(baseline_kinds.get(kind, ()), counts)))
    rows.append(
        (
            "names all that its model changed next",
            _share(told, lambda each: not each.unnamed),
            _share([attrs.evolve(each, text=BASELINE) for each in told], lambda each: not each.unnamed),
        )
    )
    yield f"{'what a text makes possible, % [95 %]':38}{'our text':>36}{f'constant {BASELINE}':>30}"
    yield from (f"  {title:38}{_write(ours):>34}{_write(other):>30}" for title, ours, other in rows)
    yield from LIMIT_OF_A_REPLAY


def _share(parts: Sequence[T], counts: Callable[[T], bool]) -> Share:
    return Share(sum(map(counts, parts)), len(parts))


def _write(share: Share) -> str:
    """In percent, with the interval of 95 %."""
    if not share.of:
        return "of 0"
    low, high = share.interval
    return f"{share.part:,} of {share.of:,} = {100 * share.part / share.of:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def regressions(retried: Sequence[Retried]) -> Iterator[str]:
    """The shares that are below their floors."""
    for kind, part in split(retried, lambda each: (each.kind,)).items():
        second, _ = shares(part)
        if second < FLOORS.get(kind, 0.0) - 0.05:  # floors are rounded to a tenth
            yield f"{kind}: {second:.1f} % recovered at attempt 2, and it was {FLOORS[kind]:.1f} %"


def outdated(guide: str, printed: Iterable[str]) -> Iterator[str]:
    """The lines of the guide that are not printed; ``...`` stands for any lines."""
    figures = _FIGURES.search(guide)
    known = {*printed, "..."}
    yield from (line for line in ([] if figures is None else figures[1].splitlines()) if line not in known)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; with ``--check``, return 1 if a share is below its floor, or the guide has other figures."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.corpus.recovery", description="Ask again for recorded calls that were refused."
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="the recordings; default: $TOOLCALL_CORPORA")
    parser.add_argument("--check", action="store_true", help="exit 1 if a figure is worse than it was")
    options = parser.parse_args(arguments)
    folder = options.data or default_folder()
    if not has_calls(folder):
        print(f"There are no recorded calls in {folder}: nothing was measured.")
        return 0
    try:
        calls = read_calls(folder)
    except (OSError, ValueError, KeyError, SetupError) as exc:
        parser.error(f"{folder} does not hold recorded calls: {exc!r}")
    retried = anyio.run(ask_again, calls)
    baseline = anyio.run(ask_again, [each.recorded for each in retried], BASELINE)
    seconds = anyio.run(run_second_attempts, folder).attempts
    printed = [*lines(retried), *compare(retried, baseline, seconds)]
    print(*printed, sep="\n")
    if not options.check:
        return 0
    wrong = [f"worse: {each}" for each in regressions(retried)]
    wrong += [f"benchmarks/CHECKS.md has another figure: {each}" for each in outdated(_GUIDE.read_text(), printed)]
    for each in wrong:
        print(each)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

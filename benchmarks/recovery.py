"""Asked again, is our text enough to put a call right? ``python -m benchmarks.recovery [--data DIR] [--check]``.

Over the recorded calls that the pipeline refuses, with the model of `literal_model`. What it sends is well-formed and
no more: whether it is what the user meant, nobody can read from an error, nor is it claimed. The share of document 003
("more than 60 % of retries should succeed on attempt 2") is that of the second attempts among all calls that failed,
whether they were made or given up; of those that were made it is printed too. The data is no part of the project, as
`corpus` says.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import anyio
import attrs

from benchmarks.literal_model import LiteralModel
from benchmarks.recorded import Recorded, default_data, is_data, read
from pipeline import SetupError
from pipeline.dialogue import run_turn
from pipeline.dialogue.records import Turn, success_rates

# Percent recovered at attempt 2, by kind of error. Most names that no tool has fit none of the tools, and of what is no
# JSON most is prose: there is nothing to send again.
REACHED: Mapping[str, float] = {"validation": 99.0, "unknown_tool": 15.6, "malformed_call": 15.2}
ATTEMPTS = 3


@attrs.frozen
class Tried:
    """A call that the pipeline refused, and what came of asking again."""

    recorded: Recorded
    turn: Turn
    stuck: str = ""  # as the model has it
    formed: bool = False

    @property
    def kind(self) -> str:
        """Of the first error."""
        return self.turn.records[0].kind or ""

    @property
    def mistakes(self) -> Iterable[str]:
        """What was wrong, as it was recorded."""
        name = self.recorded.name_kind
        return (f"name: {name}",) if name is not None else self.recorded.mistakes or ("by the schema only",)

    @property
    def at(self) -> int | None:
        """The attempt that succeeded, if one did."""
        return next((each.attempt for each in self.turn.records if each.success), None)

    @property
    def why_not(self) -> str:
        """Why none did."""
        return f"{self.kind}: {self.stuck or 'still wrong after the last attempt'}"


async def ask_again(calls: Iterable[Recorded]) -> list[Tried]:
    """A turn for each call with a mistake that is not repaired outright."""
    tried: list[Tried] = []
    for each in calls:
        if each.mistakes or each.name_kind is not None or not each.valid_by_schema:
            model = LiteralModel()
            turn = await run_turn(model, [each.call], each.pipeline, attempts=ATTEMPTS)
            if turn.error is not None:
                raise turn.error  # a bug in here
            if not turn.records[0].success:
                tried.append(Tried(each, turn, model.stuck, model.formed))
    return tried


def by(tried: Iterable[Tried], keys: Callable[[Tried], Iterable[str]]) -> dict[str, Sequence[Tried]]:
    """Parts of them, the largest first; one stands in several where it has several keys."""
    parts: dict[str, list[Tried]] = {}
    for each in tried:
        for key in keys(each):
            parts.setdefault(key, []).append(each)
    return dict(sorted(parts.items(), key=lambda part: -len(part[1])))


def shares(tried: Sequence[Tried]) -> tuple[float, float]:
    """Percent recovered at attempt 2, and by the last one."""
    second, last = (sum(each.at in at for each in tried) for at in ((2,), (2, ATTEMPTS)))
    whole = max(1, len(tried)) / 100
    return second / whole, last / whole


def lines(tried: Sequence[Tried]) -> Iterator[str]:
    """As it is printed."""
    yield f"  {'':36}{'refused':>8}{'at 2, %':>10}{'by 3, %':>10}"
    tables: dict[str, dict[str, Sequence[Tried]]] = {
        "by error": by(tried, lambda each: (each.kind,)),
        "by mistake": by(tried, lambda each: each.mistakes),
        "in all": {
            "": tried,
            "but for names that no tool has": [each for each in tried if each.kind != "unknown_tool"],
        },
    }
    for title, parts in tables.items():
        yield title
        for key, part in parts.items():
            second, last = shares(part)
            yield f"  {key:36}{len(part):>8,}{second:>10.1f}{last:>10.1f}"
    yield "attempts that were made, and succeeded"
    for number, rate in success_rates(each.turn for each in tried).by_attempt.items():
        yield f"  {number}: {rate.succeeded:,} of {rate.tried:,}"
    formed = sum(each.formed for each in tried if each.at is not None)
    yield f"recovered, but with a value that just has the right form: {formed:,}"
    yield "not recovered"
    for why, count in Counter(each.why_not for each in tried if each.at is None).most_common():
        yield f"  {why}: {count:,}"


def fallen(tried: Sequence[Tried]) -> Iterator[str]:
    """What is worse than it was."""
    for kind, part in by(tried, lambda each: (each.kind,)).items():
        second, _ = shares(part)
        if second < REACHED.get(kind, 0.0) - 0.05:  # they are noted to a tenth
            yield f"{kind}: {second:.1f} % recovered at attempt 2, and it was {REACHED[kind]:.1f} %"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and judge if asked to. Without data nothing is measured, and that is no failure."""
    parser = argparse.ArgumentParser(description="Ask again for recorded calls that were refused.")
    parser.add_argument("--data", type=Path, metavar="DIR", help="the recorded calls")
    parser.add_argument("--check", action="store_true", help="fail where less was reached than before")
    options = parser.parse_args(arguments)
    data = options.data or default_data()
    if not is_data(data):
        print(f"There are no recorded calls in {data}: nothing was measured.")
        return 0
    try:
        calls = read(data)
    except (OSError, ValueError, KeyError, SetupError) as exc:
        parser.error(f"{data} is not as recorded calls are: {exc!r}")
    tried = anyio.run(ask_again, calls)
    print(*lines(tried), sep="\n")
    worse = list(fallen(tried)) if options.check else []
    for each in worse:
        print(f"fallen: {each}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())

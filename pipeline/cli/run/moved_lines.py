"""Moves: where the lines of an earlier run stand now. CALLS may have been put in another order since."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

import attrs

from ..terminal_text import CommandError
from .results_file import FinishedLines

_MOST_SHOWN = 5  # lines that an error names


@attrs.frozen
class Moves:
    """The lines that stand elsewhere, each with its new number.

    Attributes:
        results: Those with a result.
        begun: Those that had begun and have none.
        dropped: Malformed lines that are gone, and in whose place another line stands that has a result.
    """

    results: dict[int, int]
    begun: dict[int, int]
    dropped: frozenset[int]

    @staticmethod
    def find(read: Callable[[], Iterable[tuple[int, str]]], finished: FinishedLines, begun: Mapping[int, str]) -> Moves:
        """Find each line again: in its place if the line there is the same, else wherever an equal one stands.

        Args:
            read: Reads the numbers and the digests of the lines of CALLS.
            finished: The lines with a result.
            begun: The digests of the lines that had begun and have none, by number.

        Raises:
            CommandError: CALLS no longer has one of them: it was changed or removed.
        """
        results, waiting, last = dict[int, str](), dict(begun), 0
        for last, digest in read():  # its last value is read behind the loop
            if waiting.get(last) == digest:
                del waiting[last]
            elif last in finished and not finished.is_result_of(last, digest):
                results[last] = finished.digest_at(last)
        results |= {number: finished.digest_at(number) for number in finished.numbers_behind(last)}
        moved, moved_begun = dict[int, int](), dict[int, int]()
        if results or waiting:
            by_digest, begun_by_digest = _group(results), _group(waiting)
            for number, digest in read():
                if begun.get(number) == digest or finished.is_result_of(number, digest):
                    continue  # it is in its place
                if found := by_digest.get(digest):
                    moved[found.pop(0)] = number
                elif found := begun_by_digest.get(digest):
                    moved_begun[found.pop(0)] = number
        gone = results.keys() - moved.keys()
        malformed = {number for number in gone if number in finished.malformed}
        _refuse(gone - malformed, "result has a line", "results have lines")
        _refuse(
            waiting.keys() - moved_begun.keys(), "call that had begun has a line", "calls that had begun have lines"
        )
        taken = {*moved.values(), *moved_begun.values()}
        return Moves(moved, moved_begun, frozenset(number for number in malformed if number in taken or number > last))


def _group(lines: Mapping[int, str]) -> dict[str, list[int]]:
    grouped = defaultdict[str, list[int]](list)
    for number in sorted(lines):
        grouped[lines[number]].append(number)
    return grouped


def _refuse(numbers: Iterable[int], one: str, several: str) -> None:
    gone = sorted(numbers)
    if gone:
        shown = f"{', '.join(map(str, gone[:_MOST_SHOWN]))}{', …' if len(gone) > _MOST_SHOWN else ''}"
        have, lines = (one, "line") if len(gone) == 1 else (several, "lines")
        raise CommandError(f"{len(gone):,} {have} that CALLS no longer has, changed or removed since: {lines} {shown}")

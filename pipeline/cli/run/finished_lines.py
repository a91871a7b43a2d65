"""FinishedLines: which lines of CALLS have a result from an earlier run, and whether they are still the same calls."""

from __future__ import annotations

from zlib import crc32

from ..command_error import CommandError
from .calls_file import CallLine

_PAGE = 1 << 12  # lines
_MALFORMED = 1  # the mark of a malformed line, whose id and name are not compared


class FinishedLines:
    """One byte per line: 0 without a result, else a mark that tells the call from most others.

    Attributes:
        unmatched: Results whose line has not been read yet in this run.
        repaired: Lines that were malformed in an earlier run and are valid calls now.
    """

    def __init__(self) -> None:
        self.unmatched = 0
        self.repaired = 0
        self._pages: dict[int, bytearray] = {}

    def add(self, number: int, id_: object, name: object, *, malformed: bool) -> bool:
        """Note the result of a line. False if the line has one already."""
        page = self._pages.setdefault(number // _PAGE, bytearray(_PAGE))
        if page[number % _PAGE]:
            return False
        page[number % _PAGE] = _MALFORMED if malformed else _compute_mark(id_, name)
        self.unmatched += 1
        return True

    def __contains__(self, number: int) -> bool:
        """Whether the line has a result."""
        return self._get_mark(number) != 0

    def match(self, line: CallLine) -> bool:
        """Whether the line has a result. To be asked once for each line.

        Raises:
            CommandError: it has the result of a call with another id or name.
        """
        mark = self._get_mark(line.number)
        if not mark:
            return False
        if mark == _MALFORMED:
            self.repaired += line.call is not None
        elif mark != _compute_mark(line.id, line.name):
            raise CommandError(
                f"line {line.number} of CALLS has another id or name than its result: RESULTS belongs to another file"
            )
        self.unmatched -= 1
        return True

    def _get_mark(self, number: int) -> int:
        page = self._pages.get(number // _PAGE)
        return page[number % _PAGE] if page is not None else 0


def _compute_mark(id_: object, name: object) -> int:
    """A checksum from 2 to 255: one changed call in 254 goes unnoticed, a file of other calls does not."""
    return crc32(f"{id_!r} {name!r}".encode("utf-8", "surrogatepass")) % 254 + 2

"""What the pipeline made of wrong arguments, against `repairable`: mended as they were meant, or refused by name.

Three judges that know nothing of each other: the pipeline, the reader of `repairable`, and here a comparison of what
was sent with what the tool received, value by value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

import attrs

from benchmarks.judged import Judged
from benchmarks.readings import Schema, letters
from benchmarks.recorded import Recorded
from benchmarks.repairable import Reader, Wanted, text_of, wanted

_BY_NAME_ONLY = frozenset(("extra_arg", "misnamed_arg", "positional_arguments"))  # wrong only where the schema says so
_PLACED = re.compile(r"at line \d+ column \d+|arguments were cut off")
Shares: TypeAlias = dict[str, tuple[int, int]]  # of how many how many are as they should be


@attrs.frozen
class Case:
    """A call with wrong arguments, and what became of it."""

    judged: Judged
    wanted: Wanted | None  # None: it does not say what was meant
    validates: bool = False  # it was mended, and what the tool received fits the schema
    changed: tuple[str, ...] = ()  # the places of values that were right and came out otherwise
    invented: tuple[str, ...] = ()  # values that were not in what was sent
    unnamed: tuple[str, ...] = ()  # what a refusal should name and does not

    @property
    def as_wanted(self) -> bool:
        """It was mended to the very value that was meant."""
        received = self.judged.received
        return self.validates and self.wanted is not None and text_of(received) == text_of(self.wanted.arguments)

    @property
    def refused_by_name(self) -> bool:
        """The model is told what to mend."""
        return self.judged.verdict == "refused" and not self.unnamed


# What is listed by id, and never more than by id: all of it is to be mended, in the pipeline or here.
ODD: Mapping[str, Callable[[Case], object]] = {
    "not repaired": lambda case: case.wanted is not None and not case.validates,
    "repaired to another value": lambda case: case.wanted is not None and case.validates and not case.as_wanted,
    "repaired, and nobody knows what was meant": lambda case: case.wanted is None and case.judged.verdict == "repaired",
    "a right value was changed": lambda case: case.changed,
    "a value was invented": lambda case: case.invented,
    "refused, and not by name": lambda case: case.judged.verdict == "refused" and case.unnamed,
}


def case_of(judged: Judged) -> Case | None:
    """None where nothing is wrong with the arguments, or nobody can tell."""
    recorded, offered = judged.recorded, judged.recorded.offered
    if judged.kind == "malformed_call":
        return Case(judged, None, unnamed=() if _PLACED.search(judged.told) else ("the position",))
    if offered is None or offered.schema is None or offered.validator is None or recorded.valid_by_schema:
        return None
    try:
        sent: Any = recorded.sent
    except ValueError:  # no JSON, and the pipeline thought that it knew
        return Case(judged, None, unnamed=("the position",))
    meant = wanted(sent, offered.schema)
    if judged.verdict == "refused":
        missing = [name for name in names_of(recorded) if not names(judged.told, name)]
        return Case(judged, meant, unnamed=tuple(missing))
    received: Any = judged.received
    return Case(
        judged,
        meant,
        validates=judged.verdict == "repaired" and offered.validator.is_valid(received),
        changed=tuple(changed(sent, received, offered.schema, Reader(offered.schema))),
        invented=tuple(invented(sent, received)),
    )


def names(told: str, name: str) -> bool:
    """Whether a text names a parameter: at the end of a phrase, and not in a description, which stands in brackets."""
    plain = re.sub(r"\(.*\)", "", told)
    return re.search(rf"(?<![\w-]){re.escape(name)}(?=$|\n|[:,.?!'\[\]])", plain) is not None


def names_of(recorded: Recorded) -> list[str]:
    """The parameters with which something is wrong, by the record and by the schema; of a path each part."""
    found = [path.split(".") for kind, path in recorded.wrong if kind not in _BY_NAME_ONLY]
    validator = recorded.offered.validator if recorded.offered is not None else None
    for each in validator.iter_errors(recorded.sent) if validator is not None else ():
        facts: dict[str, Any] = each.kind.as_dict()
        steps = [str(step) for step in each.instance_path]
        found.append([*steps, facts["property"]] if each.kind.name == "required" else steps)
        found += [[*steps, name] for name in facts.get("unexpected", ())]
    return list(dict.fromkeys(step for steps in found for step in steps if step and not step.isdigit()))


def changed(sent: Any, received: Any, form: Schema, reader: Reader, path: str = "") -> Iterator[str]:
    """The places of what fitted its part of the schema and is no longer as it was. Of a stranger all has to be left."""
    if text_of(sent) == text_of(received):
        return
    if path and reader.fits(sent, form):
        yield path
    elif isinstance(sent, dict) and isinstance(received, dict):
        before, after = cast("dict[str, Any]", sent), cast("dict[str, Any]", received)
        declared: Schema = next(reader.forms(form)).get("properties", {})
        for name, value in before.items():
            if name in declared and (name in after or reader.fits(value, declared[name])):
                yield from changed(value, after.get(name), declared[name], reader, f"{path}.{name}".lstrip("."))
            elif name not in declared and name not in after and [*invented(after, value)]:
                yield f"{path}.{name}".lstrip(".")
    elif isinstance(sent, list) and isinstance(received, list):
        items: Schema = next(reader.forms(form)).get("items", {})
        for at, (one, other) in enumerate(zip(cast("list[Any]", sent), cast("list[Any]", received), strict=False)):
            yield from changed(one, other, items, reader, f"{path}.{at}".lstrip("."))


def invented(sent: object, received: object) -> Iterator[str]:
    """Each single value that is not to be found in what was sent, whatever its type and its punctuation there."""
    whole = letters(text_of(sent))
    for leaf in _leaves(received):
        if letters(text_of(leaf)) not in whole:
            yield text_of(leaf)


def _leaves(value: Any) -> Iterator[object]:
    if isinstance(value, (dict, list)):
        inner = cast("Iterable[Any]", value.values() if isinstance(value, dict) else value)
        for each in inner:
            yield from _leaves(each)
    else:
        yield value


@attrs.frozen
class Repairs:
    """All such calls of one source."""

    title: str
    cases: Sequence[Case]
    reached: Mapping[str, float] = attrs.field(factory=dict[str, float])  # percent, by `shares`; else all of it

    @classmethod
    def of(cls, title: str, judged: Iterable[Judged], reached: Mapping[str, float]) -> Repairs:
        """Those of them that are such calls."""
        return cls(title, [case for each in judged if (case := case_of(each)) is not None], reached)

    def shares(self) -> Shares:
        """The figures that are held."""
        repairable = [case for case in self.cases if case.wanted is not None]
        rest = [case for case in self.cases if case.wanted is None]
        refused = [case for case in self.cases if case.judged.verdict == "refused"]
        return {
            "repairable, repaired to a value that validates": _share(repairable, lambda case: case.validates),
            "repairable, repaired to the value that was meant": _share(repairable, lambda case: case.as_wanted),
            "not repairable, refused by name": _share(rest, lambda case: case.refused_by_name),
            "all that is refused, refused by name": _share(refused, lambda case: case.refused_by_name),
            "no right value changed": _share(self.cases, lambda case: not case.changed),
            "no value invented": _share(self.cases, lambda case: not case.invented),
        }

    def odd(self) -> dict[str, list[Case]]:
        """What is not as it should be."""
        found = {what: [case for case in self.cases if holds(case)] for what, holds in ODD.items()}
        return {what: cases for what, cases in found.items() if cases}

    def by(self, keys: Callable[[Case], Iterable[str]]) -> dict[str, Repairs]:
        """The same of parts of them, the largest first; a call stands in several where it has several keys."""
        parts: dict[str, list[Case]] = {}
        for case in self.cases:
            for key in keys(case):
                parts.setdefault(key, []).append(case)
        return {key: Repairs(key, cases) for key, cases in sorted(parts.items(), key=lambda item: -len(item[1]))}

    def lines(self) -> Iterator[str]:
        """As it is printed: counts, and ids of what is odd."""
        yield f"wrong arguments, {self.title}"
        heads = ("calls", "repairable", "repaired", "as meant", "the rest", "refused by name")
        yield f"  {'':36}{heads[0]:>8}" + "".join(f"{each:>{len(each) + 4}}" for each in heads[1:])
        for key, part in self.by(_kinds).items():
            counts = [count for pair in list(part.shares().values())[:3] for count in pair]
            row = (len(part.cases), counts[1], counts[0], counts[2], counts[5], counts[4])
            yield f"  {key:36}{row[0]:>8,}" + "".join(
                f"{count:>{len(head) + 4},}" for head, count in zip(heads[1:], row[1:], strict=True)
            )
        for reading, part in self.by(_readings).items():
            yield f"  to be read as {reading}: {sum(case.as_wanted for case in part.cases)} of {len(part.cases)}"
        for what, (held, whole) in self.shares().items():
            yield f"  {what}: {held:,} of {whole:,}{f' ({100 * held / whole:.2f} %)' if whole else ''}"
        for what, cases in self.odd().items():
            yield f"  {what}: {len(cases)}"
            yield from (f"    {_line(case)}" for case in cases)

    def as_json(self) -> dict[str, Any]:
        """The ids by kind, and by how they are to be read: the list of what counts as repairable."""
        return {
            "shares": self.shares(),
            "repairable": {
                title: {
                    key: [case.judged.recorded.call.id for case in part.cases if case.wanted is not None]
                    for key, part in self.by(keys).items()
                }
                for title, keys in (("by mistake", _kinds), ("by reading", _readings))
            },
            "odd": {what: [case.judged.recorded.call.id for case in cases] for what, cases in self.odd().items()},
        }

    def fallen(self) -> Iterator[str]:
        """What is worse than it was."""
        for what, (held, whole) in self.shares().items():
            reached = self.reached.get(what, 100.0)
            if whole and 100 * held / whole < reached - 0.05:  # they are noted to a tenth
                yield f"{self.title}, {what}: {100 * held / whole:.1f} %, and it was {reached:.1f} %"


def _share(cases: Sequence[Case], holds: Callable[[Case], bool]) -> tuple[int, int]:
    return sum(map(holds, cases)), len(cases)


def _kinds(case: Case) -> Iterable[str]:
    return case.judged.recorded.mistakes or ("by the schema only",)


def _readings(case: Case) -> Iterable[str]:
    return case.wanted.readings if case.wanted is not None else ()


def _line(case: Case) -> str:
    told = (*_readings(case), *case.changed, *case.unnamed)
    return f"{case.judged.recorded.call.id}  {', '.join(_kinds(case))}: {', '.join(told) or case.judged.verdict}"

"""Was a wrong call repaired to what the oracle says was meant, or refused with the wrong parameter named?

Three judges that know nothing of each other: the pipeline, the oracle, and a comparison of what was sent with what
the tool received, value by value.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias, cast

import attrs

from benchmarks.corpus.interpretations import Schema, fold
from benchmarks.corpus.oracle import Intended, Interpreter, canonical_text, find_intended
from benchmarks.corpus.recordings import RecordedCall
from benchmarks.corpus.verdicts import JudgedCall

_UNDECLARED = frozenset(("extra_arg", "misnamed_arg", "positional_arguments"))  # wrong only if the schema says so
_POSITION = re.compile(r"at line \d+ column \d+|arguments were cut off")
Shares: TypeAlias = dict[str, tuple[int, int]]  # how many are right, of how many


@attrs.frozen
class Case:
    """A call with wrong arguments, and its outcome.

    Args:
        judged: the call and its verdict.
        intended: what was meant; None: the call does not say.
        validates: whether it was repaired and the tool received arguments that fit the schema.
        changed: paths of values that were right when sent and are not as they were.
        invented: values that were not in what was sent.
        unnamed: what the text of a refusal should name and does not.
    """

    judged: JudgedCall
    intended: Intended | None
    validates: bool = False
    changed: tuple[str, ...] = ()
    invented: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()

    @property
    def as_intended(self) -> bool:
        """Whether the tool received exactly the intended arguments."""
        received = self.judged.received
        if not self.validates or self.intended is None:
            return False
        return canonical_text(received) == canonical_text(self.intended.arguments)

    @property
    def refused_by_name(self) -> bool:
        """Whether it was refused with a text that names everything that is wrong."""
        return self.judged.verdict == "refused" and not self.unnamed


# Findings are listed by id only, and each is worth a look: either the pipeline or the oracle is wrong.
FINDINGS: Mapping[str, Callable[[Case], object]] = {
    "not repaired": lambda case: case.intended is not None and not case.validates,
    "repaired to another value": lambda case: case.intended is not None and case.validates and not case.as_intended,
    "repaired, and nobody knows what was meant": lambda case: (
        case.intended is None and case.judged.verdict == "repaired"
    ),
    "a right value was changed": lambda case: case.changed,
    "a value was invented": lambda case: case.invented,
    "refused without the name": lambda case: case.judged.verdict == "refused" and case.unnamed,
}


def examine(judged: JudgedCall) -> Case | None:
    """Compare the outcome of a call with the oracle; None if its arguments are right or cannot be judged."""
    recorded, offered = judged.recorded, judged.recorded.offered
    if judged.kind == "malformed_call":
        return Case(judged, None, unnamed=() if _POSITION.search(judged.text) else ("the position",))
    if offered is None or offered.schema is None or offered.validator is None or recorded.valid_by_schema:
        return None
    try:
        sent: Any = recorded.sent
    except ValueError:  # it is not JSON, but the pipeline made something of it
        sent = read_malformed(cast("str", recorded.call.arguments))
        if sent is None:
            return Case(judged, None, unnamed=("the position",))
    intended = find_intended(sent, offered.schema)
    if judged.verdict == "refused":
        unnamed = [
            name
            for name in wrong_parameters(recorded)
            if not mentions(judged.text, name) and not has_one_reading(sent, name, offered.schema)
        ]
        return Case(judged, intended, unnamed=tuple(unnamed))
    received: Any = judged.received
    return Case(
        judged,
        intended,
        validates=judged.verdict == "repaired" and offered.validator.is_valid(received),
        changed=tuple(find_changed(sent, received, offered.schema, Interpreter(offered.schema))),
        invented=tuple(find_invented(sent, received)),
    )


def read_malformed(text: str) -> object:
    """Read text as JSON with control characters in its strings, or as a Python literal; None if it is neither."""
    for read in (partial(json.loads, strict=False), ast.literal_eval):
        with suppress(ValueError, SyntaxError):
            return cast("object", read(text))
    return None


def has_one_reading(sent: object, name: str, schema: Schema) -> bool:
    """Whether the oracle reads the value of a parameter in one way: then its repair holds, and a refusal skips it."""
    properties: Any = schema.get("properties", {})
    given = cast("dict[str, Any]", sent) if isinstance(sent, dict) else {}
    if name not in given or name not in properties:
        return False
    required = [each for each in schema.get("required", ()) if each == name]
    alone = {**schema, "properties": {name: properties[name]}, "required": required}
    return find_intended({name: given[name]}, alone) is not None


def mentions(text: str, name: str) -> bool:
    """Whether the text names the parameter: at the end of a phrase, and not within a description in brackets."""
    plain = re.sub(r"\(.*\)", "", text)
    return re.search(rf"(?<![\w-]){re.escape(name)}(?=$|\n|[:,.?!'\[\]])", plain) is not None


def wrong_parameters(recorded: RecordedCall) -> list[str]:
    """The parameters that the record or the schema finds wrong; of a path, each part."""
    found = [path.split(".") for kind, path in recorded.mistakes_at if kind not in _UNDECLARED]
    validator = recorded.offered.validator if recorded.offered is not None else None
    for error in validator.iter_errors(recorded.sent) if validator is not None else ():
        details: dict[str, Any] = error.kind.as_dict()
        steps = [str(step) for step in error.instance_path]
        found.append([*steps, details["property"]] if error.kind.name == "required" else steps)
        found += [[*steps, name] for name in details.get("unexpected", ())]
    return list(dict.fromkeys(step for steps in found for step in steps if step and not step.isdigit()))


def find_changed(sent: Any, received: Any, schema: Schema, interpreter: Interpreter, path: str = "") -> Iterator[str]:
    """Paths of values that fitted their part of the schema and arrived otherwise; nothing undeclared may be lost."""
    if canonical_text(sent) == canonical_text(received):
        return
    if path and interpreter.fits(sent, schema):
        yield path
    elif isinstance(sent, dict) and isinstance(received, dict):
        before, after = cast("dict[str, Any]", sent), cast("dict[str, Any]", received)
        declared: Schema = next(interpreter.branches(schema)).get("properties", {})
        for name, value in before.items():
            inner = f"{path}.{name}".lstrip(".")
            if name in declared and (name in after or interpreter.fits(value, declared[name])):
                yield from find_changed(value, after.get(name), declared[name], interpreter, inner)
            elif name not in declared and name not in after and [*find_invented(after, value)]:
                yield inner
    elif isinstance(sent, list) and isinstance(received, list):
        items: Schema = next(interpreter.branches(schema)).get("items", {})
        for at, (one, other) in enumerate(zip(cast("list[Any]", sent), cast("list[Any]", received), strict=False)):
            yield from find_changed(one, other, items, interpreter, f"{path}.{at}".lstrip("."))


def find_invented(sent: object, received: object) -> Iterator[str]:
    """Every single value that is not in what was sent, whatever its type and punctuation are there."""
    whole = fold(canonical_text(sent))
    for leaf in _leaves(received):
        if fold(canonical_text(leaf)) not in whole:
            yield canonical_text(leaf)


def _leaves(value: Any) -> Iterator[object]:
    if isinstance(value, (dict, list)):
        inner = cast("Iterable[Any]", value.values() if isinstance(value, dict) else value)
        for each in inner:
            yield from _leaves(each)
    else:
        yield value

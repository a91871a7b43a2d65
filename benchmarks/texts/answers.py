"""Answers: asks for each case and variant once; what came is kept in a file, so a run can go on where it ended."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from benchmarks.texts.cases import Case
from benchmarks.texts.endpoint import EndpointError, Reply
from benchmarks.texts.judging import judge
from toolcall_pipeline import SetupError

_FAILURES = 3  # in a row, after which the endpoint is given up

Ask = Callable[[Case, str], Reply]
Texts = Mapping[str, Mapping[str, str]]  # by case, by variant


@attrs.frozen
class Answer:
    """The reaction of a model to a text.

    Args:
        case: The id of the case.
        variant: The name of the text.
        setting: The model, and how it was asked: both decide the answer.
        text: The text.
        said: The call or the text that came back.
        measures: Whether each of `MEASURES` holds.
        seconds: How long it took. 0: the same text was answered before.
    """

    case: str
    variant: str
    setting: str
    text: str
    said: str
    measures: Mapping[str, bool]
    seconds: float


def read_answers(path: Path) -> list[Answer]:
    """The answers of a file; none if it is not there. A last line that was cut off is left out.

    Raises:
        SetupError: A line is not an answer.
    """
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    try:
        return [Answer(**json.loads(line)) for line in lines if line.endswith("\n")]
    except (ValueError, TypeError) as exc:
        raise SetupError(f"{path} does not hold answers: {exc!r}") from exc


def ask_all(
    cases: Sequence[Case], texts: Texts, variants: Sequence[str], ask: Ask, path: Path, setting: str
) -> Iterator[Answer]:
    """Ask for what the file does not have yet, and add it. The variants of a case follow each other, for prompt caches.

    Args:
        cases: The cases.
        texts: The text of each variant of each case.
        variants: Those to ask for.
        ask: Asks the model.
        path: The file of answers.
        setting: As in `Answer`.

    Raises:
        EndpointError: The endpoint failed three times in a row.
    """
    known = {(each.case, each.text): each for each in read_answers(path) if each.setting == setting}
    there = {(each.case, each.variant, each.text) for each in read_answers(path) if each.setting == setting}
    failures = 0
    with _open_for_adding(path) as file:
        for case, variant, text in _list_todo(cases, texts, variants, there):
            if (same := known.get((case.id, text))) is not None:
                answer = attrs.evolve(same, variant=variant, seconds=0)
            else:
                begin = time.perf_counter()
                try:
                    reply = ask(case, text)
                except EndpointError as exc:
                    failures += 1
                    print(f"{case.id} {variant}: {exc}")
                    if failures == _FAILURES:
                        raise
                    continue
                failures, seconds = 0, round(time.perf_counter() - begin, 1)
                answer = Answer(case.id, variant, setting, text, _show(reply), judge(case, reply), seconds)
            known[case.id, text] = answer
            file.write(json.dumps(attrs.asdict(answer), ensure_ascii=False) + "\n")
            file.flush()
            yield answer


def _open_for_adding(path: Path) -> Any:
    """The file, without a last line that was cut off."""
    if path.exists() and not (content := path.read_bytes()).endswith(b"\n"):
        path.write_bytes(content[: content.rfind(b"\n") + 1])
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("a", encoding="utf-8")


def _list_todo(
    cases: Iterable[Case], texts: Texts, variants: Sequence[str], there: set[tuple[str, str, str]]
) -> Iterator[tuple[Case, str, str]]:
    for case in cases:
        for variant in variants:
            text = texts[case.id].get(variant)
            if text is not None and (case.id, variant, text) not in there:
                yield case, variant, text


def _show(reply: Reply) -> str:
    return reply.text if reply.call is None else f"{reply.call.name} {reply.call.arguments}"

"""``python -m benchmarks.texts``: ask a model for its second attempts, with each text, and print what came of them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.texts.answers import ask_all, read_answers
from benchmarks.texts.cases import OURS, Case, read_cases, with_safe_names
from benchmarks.texts.comparison import compare
from benchmarks.texts.endpoint import Endpoint, EndpointError
from benchmarks.texts.judging import MEASURES
from benchmarks.texts.table import format_lines
from benchmarks.texts.variants import PROFILES_AND_VERBOSITIES, check_names, texts_of
from toolcall_pipeline import SetupError


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask and print; return 1 if the endpoint fails."""
    parser = _make_parser()
    options = parser.parse_args(arguments)
    try:
        return _run(options)
    except SetupError as exc:
        parser.error(str(exc))
    except EndpointError as exc:
        print(f"The endpoint failed: {exc}. The answers so far are kept.", file=sys.stderr)
        return 1


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.texts", description="Which texts does a model follow?")
    add = parser.add_argument
    add("--endpoint", required=True, metavar="URL", help="OpenAI-compatible, such as http://127.0.0.1:8080/v1")
    add("--model", required=True, help="its name there")
    add("--variants", metavar="A,B", help="profiles, verbosities and libraries; default: all")
    add("--against", default="default", metavar="A", help="compare with this one")
    add("--kinds", metavar="A,B", help="kinds of cases; default: all")
    add("--half", choices=("a", "b"), help="only half of the cases")
    add("--limit", type=int, metavar="N", help="at most so many cases of each kind")
    add("--cases", type=Path, default=OURS, metavar="FILE", help="other cases")
    add("--texts", type=Path, metavar="FILE", help='texts of your own, as {"variant": {"id of a case": "text"}}')
    add("--write-texts", type=Path, metavar="FILE", help="write the texts in that form, and ask nothing")
    add("--answers", type=Path, default=Path("build/texts.jsonl"), metavar="FILE", help="where answers are kept")
    add("--as-text", action="store_true", help="tools in the system message, calls as text")
    add("--begin", default="", metavar="TEXT", help="with --as-text: how each answer begins")
    add("--safe-names", action="store_true", help="no dots in the names of tools, as OpenAI's own API wants it")
    add("--json", type=Path, metavar="FILE", help="write the figures")
    return parser


def _run(options: argparse.Namespace) -> int:
    cases = _choose(options)
    own: dict[str, dict[str, str]] = {}
    if options.texts is not None:
        own = json.loads(options.texts.read_text(encoding="utf-8"))
    texts = {case.id: texts_of(case, own) for case in cases}
    known: list[str] = [*PROFILES_AND_VERBOSITIES, *dict.fromkeys(name for case in cases for name in case.peers), *own]
    if options.write_texts is not None:
        by_variant = {name: {case.id: texts[case.id][name] for case in cases if texts[case.id]} for name in known}
        options.write_texts.write_text(json.dumps(by_variant, indent=1) + "\n", encoding="utf-8")
        return 0
    variants: list[str] = options.variants.split(",") if options.variants else known
    check_names([*variants, options.against], known)
    if options.against not in variants:
        variants = [options.against, *variants]
    endpoint = Endpoint(options.endpoint, options.model, options.as_text, options.begin.replace("\\n", "\n"))
    setting = f"{options.model}{', as text' if options.as_text else ''}{', begun' if options.begin else ''}"
    for answer in ask_all(cases, texts, variants, endpoint.ask, options.answers, setting):
        what = "right" if answer.measures["right"] else "valid" if answer.measures["valid"] else "again"
        print(f"{answer.case} {answer.variant:12} {what if answer.measures[what] else '-':6} {answer.seconds:5.1f} s")
    answers = [
        each
        for each in read_answers(options.answers)
        if each.setting == setting and texts.get(each.case, {}).get(each.variant) == each.text
    ]
    found = compare(cases, answers, variants, options.against, list(MEASURES))
    print(*format_lines(found), sep="\n")
    if options.json is not None:
        options.json.write_text(json.dumps(found.as_json(), indent=1) + "\n", encoding="utf-8")
    return 0


def _choose(options: argparse.Namespace) -> list[Case]:
    cases = read_cases(options.cases)
    if options.safe_names:
        cases = [with_safe_names(case) for case in cases]
    kinds = options.kinds.split(",") if options.kinds else list(dict.fromkeys(case.kind for case in cases))
    chosen = [case for case in cases if case.kind in kinds and options.half in (None, case.half)]
    if options.limit is not None:
        chosen = [each for kind in kinds for each in [case for case in chosen if case.kind == kind][: options.limit]]
    return chosen


if __name__ == "__main__":
    sys.exit(main())

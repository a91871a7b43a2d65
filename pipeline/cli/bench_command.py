"""``toolcall bench``: says what a pipeline and each of its stages cost."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO, cast

import attrs

from ..base.setup_error import SetupError
from ..engine.call import Call
from ..privacy import neutralise
from ..testing.overhead import (
    Overhead,
    compare_runs,
    draw_bars,
    explain_speed,
    format_changes,
    format_overhead,
)
from ..testing.overhead.measurement import ASKED, Measurement, Options
from ..testing.overhead.measuring import Backend, run_measurement
from .asker import Asker
from .loading import load_pipeline
from .run.calls_file import parse_line
from .run.interruption import exit_without_threads
from .stdio import redirect_to_stderr
from .terminal_text import CommandError, fit_on_one_line

_MAX_TEXT = 500  # characters of a SetupError
_INTERRUPTED = 130  # by Ctrl-C


@attrs.frozen
class BenchOptions:
    """The options of the command."""

    call: tuple[str, str] | None
    calls: Path | None
    result: str | None
    run_tools: bool
    stages: tuple[str, ...]
    concurrency: int
    backend: Backend
    as_json: bool
    svg: Path | None
    compare: Path | None


def bench(target: str, asker: Asker, options: BenchOptions) -> int:
    """Measure, and print what was found."""
    earlier = None if options.compare is None else _read_run(options.compare)
    if options.svg is not None:
        _check_writable(options.svg)  # before all the work
    with redirect_to_stderr():
        pipeline = load_pipeline(target)
        calls = _read_calls(options)
        result = ASKED if options.result is None else _read_json("--result", options.result)
        stages = frozenset(options.stages) or None
        chosen = Options(
            concurrency=options.concurrency,
            backend=options.backend,
            stages=stages,
            run_tools=options.run_tools,
            result=result,
        )
        _say("which stages cost the most")
        try:
            found = run_measurement("bench", pipeline, calls, chosen, _measure_all, asker.bind)
        except SetupError as exc:
            raise CommandError(f"{target}: {fit_on_one_line(str(exc), _MAX_TEXT)}") from exc
        except LookupError:  # of anyio
            raise CommandError(f"--backend {options.backend} is not installed") from None
        except KeyboardInterrupt:
            return _INTERRUPTED
    if options.svg is not None:
        options.svg.write_text(draw_bars(found, target), encoding="utf-8")
    _print(found, earlier, options)
    if cast("TextIO | None", sys.stdout) is not None:  # it is None where the shell closed it: `>&-`
        sys.stdout.flush()
    exit_without_threads(0)
    return 0


def _print(found: Overhead, earlier: dict[str, Any] | None, options: BenchOptions) -> None:
    now = found.as_json()
    if options.as_json:
        if earlier is not None:
            now["compared"] = [attrs.asdict(each) for each in compare_runs(earlier, now)]
        print(json.dumps(now, indent=1))
        return
    print(neutralise(format_overhead(found), keep_lines=True))
    if earlier is not None:
        print(neutralise(f"\n{format_changes(compare_runs(earlier, now))}", keep_lines=True))
        if speed := explain_speed(earlier, now):
            print(speed)


async def _measure_all(measurement: Measurement) -> Overhead:
    failures = measurement.options.stages is None  # what a failing call costs is no cost of one stage
    return await measurement.measure_all(failures=failures, say=_say)


def _say(what: str) -> None:
    """Say on stderr what is measured now: all figures take about a minute."""
    print(f"measuring {what}", file=sys.stderr, flush=True)


def _read_calls(options: BenchOptions) -> Sequence[Call] | None:
    if options.call is not None:
        if options.calls is not None:
            raise CommandError("--call and --calls exclude each other")
        name, arguments = options.call
        return [Call(name, arguments, "call_1")]
    if options.calls is None:
        return None
    try:
        lines: Iterable[bytes] = options.calls.read_bytes().splitlines()
    except OSError as exc:
        raise CommandError(f"--calls {options.calls}: {exc.strerror}") from None
    parsed = [parse_line(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    for each in parsed:
        if each.call is None:
            raise CommandError(f"--calls {options.calls}, line {each.number}: {each.problem}")
    if not parsed:
        raise CommandError(f"--calls {options.calls} has no calls")
    return [each.call for each in parsed if each.call is not None]


def _read_json(option: str, text: str) -> object:
    try:
        return cast("object", json.loads(text))
    except ValueError as exc:
        raise CommandError(f"{option}: not JSON: {exc}") from None


def _read_run(file: Path) -> dict[str, Any]:
    try:
        earlier: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        compare_runs(earlier, earlier)
    except OSError as exc:
        raise CommandError(f"--compare {file}: {exc.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise CommandError(f"--compare {file}: not what `toolcall bench --json` has printed") from None
    return earlier


def _check_writable(file: Path) -> None:
    try:
        file.open("a").close()
    except OSError as exc:
        raise CommandError(f"--svg {file}: {exc.strerror}") from None

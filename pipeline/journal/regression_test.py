"""write_test: a file for pytest that says what each recorded call comes to in a pipeline."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pprint import pformat
from typing import Final

from ..engine.report.json_form import Form, is_replayable
from .replaying import Replay

_MOST: Final = 10_000  # calls in one file

_TEST: Final = '''"""Recorded calls come to what they came to when `toolcall replay --pytest` wrote this file."""

import json

import anyio

from toolcall_pipeline import Pipeline
from toolcall_pipeline.journal import replay
from toolcall_pipeline.middlewares import standard

from {module} import {name}

CALLS = json.loads(
    {calls}
)


def test_recorded_calls() -> None:
    """No tool runs: each body is answered with what is recorded of it."""
    loaded = {path}
    if not isinstance(loaded, Pipeline) and not hasattr(loaded, "definitions"):
        loaded = loaded()
    pipeline = loaded if isinstance(loaded, Pipeline) else standard(loaded)
    found = anyio.run(replay, pipeline, CALLS)
    assert found.replayed == len(CALLS)
    changed = {{name: dict(tool.changes) for name, tool in found.tools.items() if tool.changes}}
    assert changed == {changed}
'''


def write_test(forms: Iterable[Form], found: Replay, target: str) -> str:
    """Return the text of the test, without the recorded calls that cannot be replayed."""
    kept = [form for form in forms if is_replayable(form) and form["outcome"] != "cancelled"][:_MOST]
    module, _, path = target.partition(":")
    changed = {name: dict(tool.changes) for name, tool in found.tools.items() if tool.changes}
    return _TEST.format(
        module=module,
        name=path.partition(".")[0],
        path=path,
        calls=pformat(json.dumps(kept), width=110),
        changed=changed,
    )

"""The file that a `RelayPolicy` is read from, in TOML. A mistake in it is reported with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import attrs

from ..toml_file import TomlFile
from .relay_policy import RelayLimits, RelayPolicy, TelemetryPolicy, ToolPolicy


def read_policy(path: Path) -> RelayPolicy:
    """Read a policy.

    Raises:
        SetupError: The file cannot be read, or something in it is wrong. The text begins with the file and the line.
    """
    file = TomlFile.read(path)
    given = dict(file.found)
    tools = {
        name: file.make(ToolPolicy, file.table(each, "tools", name), "tools", name)
        for name, each in file.table(given.pop("tools", {}), "tools").items()
    }
    limits = file.make(RelayLimits, file.table(given.pop("limits", {}), "limits"), "limits")
    telemetry = None
    if "telemetry" in given:
        telemetry = file.make(TelemetryPolicy, file.table(given.pop("telemetry"), "telemetry"), "telemetry")
    redact = given.get("redact", [])
    if not isinstance(redact, list):
        raise file.mistake(f"`redact` must be an array of names, not {redact!r}", "redact")
    given["redact"] = tuple(cast("list[Any]", redact))
    made = file.make(RelayPolicy, given, tools=tools, limits=limits, telemetry=telemetry)
    return attrs.evolve(made, locate=file.locate)

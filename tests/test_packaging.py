"""The distribution: its files, its names, its dependencies."""

from __future__ import annotations

import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.wheel import WheelBuilder
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    where = tmp_path_factory.mktemp("dist")
    make: Any = WheelBuilder  # its own types are incomplete
    builder = make(str(ROOT), plugin_manager=PluginManager(), metadata=ProjectMetadata(str(ROOT), PluginManager()))
    (built,) = builder.build(directory=str(where), versions=["standard"])
    return zipfile.ZipFile(built)


def test_the_wheel_holds_two_packages(wheel: zipfile.ZipFile) -> None:
    """The wheel holds exactly pipeline and middlewares, both typed, and nothing of tests or benchmarks."""
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"pipeline", "middlewares"}
    assert {"pipeline/py.typed", "middlewares/py.typed"} <= set(wheel.namelist())
    files = {
        str(path.relative_to(ROOT))
        for package in ("pipeline", "middlewares")
        for path in (ROOT / package).rglob("*.py")
    }
    operations = {f"pipeline/telemetry/operations/{name}" for name in ("README.md", "alerts.yml", "dashboard.json")}
    assert files | operations <= set(wheel.namelist())


def test_the_metadata(wheel: zipfile.ZipFile) -> None:
    """The distribution, its command, its licence and its extras have their names."""
    info = next(name for name in wheel.namelist() if name.endswith("/METADATA")).split("/")[0]
    assert info.startswith("toolcall_pipeline-")
    metadata = wheel.read(f"{info}/METADATA").decode()
    for line in (
        "Name: toolcall-pipeline",
        "License-Expression: Apache-2.0",
        "Provides-Extra: cli",
        "Provides-Extra: otel",
    ):
        assert line in metadata
    assert "toolcall = pipeline.cli:main" in wheel.read(f"{info}/entry_points.txt").decode()
    assert f"{info}/licenses/LICENSE" in wheel.namelist()


def test_the_core_depends_on_little() -> None:
    """The SDK, exporters and the command line are extras; every dependency has a lower bound."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core = {spec.split(">=")[0] for spec in project["dependencies"]}
    assert core == {
        "anyio",
        "attrs",
        "griffelib",
        "jsonschema-rs",
        "opentelemetry-api",
        "pydantic",
        "rapidfuzz",
        "returns",
        "typing-extensions",
    }
    specs = [*project["dependencies"], *(spec for extra in project["optional-dependencies"].values() for spec in extra)]
    assert [spec for spec in specs if ">=" not in spec and not spec.startswith("toolcall-pipeline[")] == []

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


def test_the_wheel_holds_one_package(wheel: zipfile.ZipFile) -> None:
    """The wheel holds toolcall_pipeline alone, typed and with every module, and nothing of tests or benchmarks."""
    held = set(wheel.namelist())
    assert {name.split("/")[0] for name in held if ".dist-info/" not in name} == {"toolcall_pipeline"}
    files = {
        f"toolcall_pipeline/{path.relative_to(start)}"
        for folder, start in (("pipeline", ROOT / "pipeline"), ("middlewares", ROOT))
        for path in (ROOT / folder).rglob("*.py")
    }
    operations = {f"telemetry/operations/{name}" for name in ("README.md", "alerts.yml", "dashboard.json")}
    assert files | {f"toolcall_pipeline/{name}" for name in (*operations, "py.typed", "__init__.pyi")} <= held


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
    assert "toolcall = toolcall_pipeline.cli:main" in wheel.read(f"{info}/entry_points.txt").decode()
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

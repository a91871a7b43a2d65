"""The distribution: its files, its names, its dependencies."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

pytestmark = pytest.mark.long  # wheels are built and installed

ROOT = Path(__file__).parent.parent


# Two tools that an application has, and what of the package has to work beside its own modules.
APPLICATION = """
import pickle, sys
from pathlib import Path
import anyio
import middlewares, pipeline, toolcall_pipeline
from toolcall_pipeline import Call, ToolRegistry
from toolcall_pipeline.executors import Process
from toolcall_pipeline.middlewares import standard

tools = ToolRegistry()

@tools.tool(effect="read")
def add(a: int, b: int) -> int:
    \"\"\"Add two numbers.\"\"\"
    return a + b

async def main() -> None:
    async with standard(tools, executor=Process(workers=1)) as run:
        outcome = await run.call("add", {"a": 1, "b": 2})
    assert outcome.unwrap() == 3
    failed = await run.call("ad", {})
    assert pickle.loads(pickle.dumps(failed)).failure() == failed.failure()
    assert pickle.loads(pickle.dumps(Call("add"))) == Call("add")

if __name__ == "__main__":
    anyio.run(main)
    assert (middlewares.OWN, pipeline.OWN) == ("middlewares", sys.argv[1])
    print(Path(toolcall_pipeline.__file__).parent.parent)
"""


def build(make: Any, root: Path, where: Path) -> Path:  # the builders' own types are incomplete
    builder = make(str(root), plugin_manager=PluginManager(), metadata=ProjectMetadata(str(root), PluginManager()))
    (built,) = builder.build(directory=str(where), versions=["standard"])
    return Path(built)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return zipfile.ZipFile(build(WheelBuilder, ROOT, tmp_path_factory.mktemp("dist")))


def run(*command: str, cwd: Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(path or cwd)}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_a_wheel_from_the_sdist(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """The sdist, which has no links, makes the same wheel as the checkout."""
    with tarfile.open(build(SdistBuilder, ROOT, tmp_path)) as archive:
        archive.extractall(tmp_path, filter="data")
    (root,) = (each for each in tmp_path.iterdir() if each.is_dir())
    assert (root / "pipeline" / "README.md").is_file()  # the sdist has the guides, and the wheel none
    assert not (root / "toolcall_pipeline").exists()
    assert zipfile.ZipFile(build(WheelBuilder, root, tmp_path)).namelist() == wheel.namelist()


@pytest.mark.parametrize("owner", ["application", "installed"])
def test_beside_modules_of_the_same_names(wheel: zipfile.ZipFile, tmp_path: Path, owner: str) -> None:
    """Beside other modules `pipeline` and `middlewares` the package, its workers, its command and its types work."""
    installed, application = tmp_path / "installed", tmp_path / "application"
    wheel.extractall(installed)
    (application / "middlewares").mkdir(parents=True)
    (application / "middlewares" / "__init__.py").write_text('OWN = "middlewares"\n')
    (tmp_path / owner / "pipeline.py").write_text(f'OWN = "{owner}"\n')
    (application / "main.py").write_text(APPLICATION)
    path = Path(f"{application}{os.pathsep}{installed}")
    done = run(sys.executable, "main.py", owner, cwd=application, path=path)
    assert (done.stdout, done.stderr) == (f"{installed}\n", "")
    command = "from toolcall_pipeline.cli import main; main()"  # as the script `toolcall` does
    done = run(
        sys.executable, "-c", command, "call", "main:tools", "add", '{"a": 1, "b": 2}', cwd=application, path=path
    )
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


def test_the_types_of_an_installed_wheel(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """Mypy reads the types of an installed package: a wrong argument is found."""
    wheel.extractall(tmp_path / "installed")
    (tmp_path / "main.py").write_text("from toolcall_pipeline import Call\nCall(5)\n")
    options = ("--strict", "--follow-imports=silent", f"--cache-dir={tmp_path / 'cache'}")
    done = run(sys.executable, "-m", "mypy", *options, "main.py", cwd=tmp_path, path=tmp_path / "installed")
    assert 'Argument 1 to "Call" has incompatible type "int"; expected "str"' in done.stdout, done.stdout
    assert "Found 1 error" in done.stdout


@pytest.mark.parametrize(
    ("folder", "name"), [("pipeline", "toolcall_pipeline"), ("middlewares", "toolcall_pipeline.middlewares")]
)
def test_the_name_to_import(folder: str, name: str) -> None:
    """A folder of the checkout is refused as a name to import, with the right one."""
    done = run(sys.executable, "-c", f"import {folder}", cwd=ROOT)
    assert done.stderr.splitlines()[-1] == f"ImportError: import {name}: {folder} is only the folder of its source"


@pytest.mark.parametrize(
    "command", ["make -n lint", f"{sys.executable} -m pytest --collect-only"], ids=["make", "pytest"]
)
def test_a_checkout_without_links(tmp_path: Path, command: str) -> None:
    """A checkout whose links are text files fails with the way out, in make and in pytest."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path / "tests")
    (tmp_path / "toolcall_pipeline").write_text("pipeline")
    done = run(*command.split(), cwd=tmp_path)
    assert done.returncode != 0
    assert "git config core.symlinks true" in done.stdout + done.stderr


def test_the_wheel_holds_one_package(wheel: zipfile.ZipFile) -> None:
    """The wheel holds toolcall_pipeline alone, typed and with every module, and nothing of tests or benchmarks."""
    held = set(wheel.namelist())
    assert {name.split("/")[0] for name in held if ".dist-info/" not in name} == {"toolcall_pipeline"}
    files = {
        f"toolcall_pipeline/{path.relative_to(start)}"
        for folder, start in (("pipeline", ROOT / "pipeline"), ("middlewares", ROOT))
        for path in (ROOT / folder).rglob("*.py")
    }
    operations = {f"telemetry/operations/{name}" for name in ("alerts.yml", "dashboard.json")}
    assert files | {f"toolcall_pipeline/{name}" for name in (*operations, "py.typed", "__init__.pyi")} <= held
    assert [name for name in held if name.endswith(".md")] == []


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


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({}, "URL=https://"),
        ({"URL": "https://repository.invalid"}, "URL=https://"),
        ({"URL": "http://forge.test/a"}, "URL=https://"),
        ({"URL": "https://forge.test/a b"}, "URL=https://"),
        ({"URL": "https://forge.test/a"}, "CONTACT="),
        ({"URL": "https://forge.test/a", "CONTACT": "somebody"}, "CONTACT="),
        ({"URL": "https://forge.test/a", "CONTACT": "a@security-contact.invalid"}, "CONTACT="),
    ],
)
def test_a_release_asks_for_what_only_its_owner_knows(given: dict[str, str], missing: str) -> None:
    """Without the repository and the contact nothing is built."""
    environment = {name: value for name, value in os.environ.items() if name not in ("URL", "CONTACT")}
    done = subprocess.run(
        [ROOT / "make" / "release"], env=environment | given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert missing in done.stderr


@pytest.mark.parametrize(
    ("file", "placeholder"),
    [("pyproject.toml", "https://repository.invalid"), ("SECURITY.md", "security-contact.invalid")],
)
def test_a_placeholder_stands_where_a_release_looks_for_it(file: str, placeholder: str) -> None:
    """Once, and in no other guide."""
    assert (ROOT / file).read_text().count(placeholder) == 1
    assert f"fill {placeholder} " in (ROOT / "make" / "release").read_text()

"""The README on top and the guides beside the code are true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fake_providers import NOTES_TURN, FakeProvider, client_environment
from snippets import snippets

ROOT = Path(__file__).parent.parent
GUIDES = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not path.relative_to(ROOT).parts[0].startswith((".", "build"))
    and path.name != "TUTORIAL.md"  # has its own tests
)
SNIPPETS = [  # each is a process of its own
    pytest.param(
        code,
        id=f"{path.relative_to(ROOT)}:{line}",
        marks=[] if path == ROOT / "README.md" else pytest.mark.long,
    )
    for path in GUIDES
    for line, code in snippets(path.read_text())
]


@pytest.mark.parametrize("code", SNIPPETS)
def test_every_snippet_runs_as_it_stands(code: str, tmp_path: Path) -> None:
    """Each Python block is a whole program, and prints what its comments `#> …` say; the provider is a local server."""
    script = tmp_path / "snippet.py"
    script.write_text(code)
    (tmp_path / "notes.txt").write_text("milk\na lamp\n")
    with FakeProvider(*NOTES_TURN) as server:
        environment = os.environ | client_environment(server)
        command = [sys.executable, "-W", "error", str(script)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False, env=environment)
    assert done.stderr == ""
    assert done.stdout.splitlines() == re.findall(r"^\s*#> ?(.*)$", code, re.MULTILINE)


def anchors(guide: Path) -> set[str]:
    """The anchors that GitHub makes of the headings of a guide."""
    text = re.sub(r"```.*?```", "", guide.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


PAGES = sorted({*GUIDES, ROOT / "TUTORIAL.md"})


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_guide_names_exists(path: Path) -> None:
    """Each `make …` of a guide is a target of the Makefile, and each relative link leads to a file and a heading."""
    text = path.read_text()
    made = "".join((ROOT / each).read_text() for each in ("Makefile", "make/checks.mk"))
    targets = set(re.findall(r"^([a-z-]+):", made, re.MULTILINE))
    assert [
        name
        for name in re.findall(r"\btest_\w+\.py", text)
        if f"`{name}`:" not in text  # a file that the reader writes
        and not any((ROOT / folder / name).exists() for folder in ("tests", "benchmarks/tests"))
    ] == []
    assert set(re.findall(r"(?:^    |`)make ([a-z-]+)", text, re.MULTILINE)) <= targets
    prose = re.sub(r"^```python$.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)  # key[T]("name") is no link
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose)
    assert [link for link in links if "://" not in link and not (path.parent / link).exists()] == []
    places = re.findall(r"\]\(([^)#:]*)#([^)]*)\)", text)
    assert [place for place in places if place[1] not in anchors(path.parent / place[0] if place[0] else path)] == []

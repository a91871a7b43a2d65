"""A file of settings: what is wrong with it, and in which line."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolcall_pipeline import SetupError
from toolcall_pipeline.base.toml_file import IN_CODE, TomlFile, find_line


@attrs.frozen
class Settings:
    size: int = 1
    kept: int = attrs.field(init=False, default=2)
    deny_size: int = 3
    name: str = attrs.field(default="", metadata={IN_CODE: True})

    def __attrs_post_init__(self) -> None:
        if self.size > 9 or self.deny_size > 9:
            raise SetupError("Settings: `size` must be a number or None, at most 9")


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"a = 1\nb = '\xff'\n", ":2: the file is not UTF-8"),
        (b"\xff", ":1: the file is not UTF-8"),
        (b"a = 1\nb =\n", ":2: Invalid value"),
        (b"a = 1\nb = [\n\n", ":2: Invalid value"),
        (b"a = 1\nb = " + b"9" * 5_000 + b"\nc = 1\n", ":2: Exceeds the limit"),
        (b"a = 1\n\nb = " + b"[" * 50_000 + b"]" * 50_000, ":3: the value is nested too deeply"),
        (b"a = 1 #" + b"a" * 999_994, ": the file is longer than 1,000,000 bytes"),
    ],
    ids=["bytes", "a byte", "a value", "the end", "digits", "levels", "size"],
)
def test_what_cannot_be_read_is_told_with_its_line(tmp_path: Path, raw: bytes, told: str) -> None:
    """The file, the line where there is one, and what the parser says of it, once."""
    path = tmp_path / "a.toml"
    path.write_bytes(raw)
    with pytest.raises(SetupError) as raised:
        TomlFile.read(path)
    assert str(raised.value).startswith(f"{path}{told}")
    assert "(at " not in str(raised.value)


def test_a_file_of_a_million_bytes_is_read(tmp_path: Path) -> None:
    """It has a version of twelve digits, which another text does not have."""
    path = tmp_path / "a.toml"
    path.write_bytes(b"a = 1 #" + b"a" * 999_993)
    file = TomlFile.read(path)
    assert file.found == {"a": 1}
    assert len(file.version) == 12
    path.write_text("a = 2")
    assert TomlFile.read(path).version != file.version
    with pytest.raises(SetupError, match=r"none.toml: No such file"):
        TomlFile.read(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("given_", "told"),
    [
        ({"deny_size": 3, "sise": 3}, ":3: unknown option `sise`; known: size, deny_size"),
        ({"deny_size": 3, "kept": 3}, ":3: unknown option `kept`; known: size, deny_size"),
        ({"deny_size": 3, "name": "a"}, ":3: unknown option `name`; known: size, deny_size"),
        ({"deny_size": 3, "size": 10}, ":3: `size` must be a number, at most 9"),
        ({"deny_size": 10}, ":2: `deny_size` must be a number, at most 9"),
    ],
)
def test_a_wrong_option_is_told_by_its_own_name_and_line(given_: dict[str, Any], told: str) -> None:
    """Of what code alone may set nothing is offered, and no value that a file cannot write is either."""
    text = "[limits]\n" + "".join(f"{name} = {value!r}\n" for name, value in given_.items())
    file = TomlFile(Path("a.toml"), text, "", {})
    with pytest.raises(SetupError) as raised:
        file.make(Settings, given_, "limits")
    assert str(raised.value) == f"a.toml{told}"
    assert file.make(Settings, {"size": 9}, "limits", name="here") == Settings(size=9, name="here")


WRONG_TABLES = {
    "`rules` must be an array of tables, not 1": "rules = 1",
    "`rules.1` must be a table, not 1": "rules = [{}, 1]",
}


@pytest.mark.parametrize("told", WRONG_TABLES)
def test_what_has_to_be_a_table_is_told(told: str) -> None:
    """By its place, also inside of an array."""
    text = f"a = 1\n{WRONG_TABLES[told]}\n"
    file = TomlFile(Path("a.toml"), text, "", tomllib.loads(text))
    with pytest.raises(SetupError) as raised:
        file.tables(file.found["rules"], "rules")
    assert str(raised.value) == f"a.toml:2: {told}"


@example([0] * 9, 2)
@example([3, 0, 2, 5, 0], 1)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=12), st.integers(0, 2))
def test_each_place_of_a_document_has_its_line(sizes: list[int], head: int) -> None:
    """That of a table is its header, that of a key its line, also where an array of several lines stands before it."""
    lines = [f"h{number} = [\n  1,\n]" for number in range(head)]
    places: dict[tuple[str | int, ...], int] = {(f"h{number}",): 3 * number + 1 for number in range(head)}
    at = 3 * head + 1
    for item, size in enumerate(sizes):
        lines.append("[[rules]]")
        places["rules", item] = at
        for key in range(size):
            lines.append(f"k{key} = {key}")
            places["rules", item, f"k{key}"] = at + 1 + key
        at += size + 1
    text = "\n".join(lines) + "\n"
    assert {place: find_line(text, place) for place in places} == places

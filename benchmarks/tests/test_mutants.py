"""Which files ``make mutants`` changes, and which tests it runs on them."""

import pytest

from benchmarks.mutants import ROOT, TESTS, find_modules, find_tests


@pytest.mark.parametrize("room", TESTS)
def test_rooms_and_tests_of_the_table_exist(room: str) -> None:
    """Each room of the table has files to change, and each of its patterns finds tests, which run once."""
    tests = find_tests(room)
    assert find_modules(room)
    assert len(tests) == len(set(tests)) >= len(TESTS[room].split())


def test_each_room_of_the_package_stands_in_the_table() -> None:
    """A room that the table lacks would be measured by the few tests that have its name, and its figure too low."""
    assert sorted(TESTS) == sorted(each.parent.name for each in (ROOT / "pipeline").glob("*/__init__.py"))


def test_a_pattern_without_a_file_ends_the_run() -> None:
    """A room whose tests are gone is refused, by name: pytest without a file would run all of them."""
    with pytest.raises(SystemExit, match=r"'test_nowhere\*\.py'"):
        find_tests("nowhere")


def test_files_that_need_servers_are_left_out() -> None:
    """Nothing in tests/ runs the stores of servers, so their mutants say nothing about it."""
    names = [each.rpartition("/")[2] for each in find_modules("stores")]
    assert "sqlite.py" in names
    assert not {"redis.py", "postgres.py"} & set(names)

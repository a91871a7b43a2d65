"""The scans for names that are similar to a wrong one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz import fuzz, process

from toolcall_pipeline.tools.matching import Spelling, SuggestionIndex

WORDS = st.sampled_from(("get", "got", "list", "file", "files", "read", "weather", "whether", "forecast", "7", "fs"))
PARTS = st.sampled_from(("_", ".", "__", "/", "-", " "))
NAMES = st.lists(st.tuples(WORDS, PARTS), min_size=1, max_size=5).map(
    lambda parts: "".join(word + part for word, part in parts).rstrip(" ._-/")
)
WAYS = (("joined", 1.0), ("sorted", 0.98), ("tail", 0.95), ("tail_sorted", 0.98 * 0.95))


def scan_all(sent: Spelling, known: list[Spelling]) -> set[int]:
    """The definition: the six best of all names in each of the four ways."""
    near: set[int] = set()
    for way, weight in WAYS:
        found = process.extract(
            getattr(sent, way),
            [getattr(each, way) for each in known],
            scorer=fuzz.ratio,
            limit=6,
            score_cutoff=70.0 / weight,
        )
        near.update(place for _, _, place in found)
    return near


@pytest.mark.hypothesis
@given(NAMES, st.lists(NAMES, unique=True, max_size=40))
def test_names_are_found_as_by_four_scans_of_all(sent: str, names: list[str]) -> None:
    """To scan names with and without a prefix apart, and each only once, changes no suggestion."""
    spellings = {name: Spelling.of(name) for name in names}
    index = SuggestionIndex(spellings, names)
    assert index.find_similar(Spelling.of(sent)) == scan_all(Spelling.of(sent), index.spellings)

"""The descriptions of a tool and its parameters in a docstring, in the styles of Google, NumPy and Sphinx."""

from __future__ import annotations

import re
from typing import Literal, cast

_GOOGLE = r"Arg(?:ument)?s|Param(?:eter)?s|(?:Keyword|Other) (?:[Aa]rg(?:ument)?s|[Pp]aram(?:eter)?s)"
_NUMPY = r"(?:Other )?Parameters"
_SPHINX = r"param|parameter|arg|argument|key|keyword"
_OTHERS = r"Returns|Yields|Receives|Raises|Warns|Attributes|Examples|Notes|References|See Also"


def _make_pattern(google: str, numpy: str, sphinx: str) -> re.Pattern[str]:
    """Match where a section begins. A title without the body that its style asks for is text."""
    return re.compile(
        r"^(?P<indent>[ \t]*)(?:"
        rf"(?P<google>(?:{google}):[ \t]*(?=\s*\Z|\n\s*^(?P=indent)[ \t]+\S))"
        rf"|(?P<numpy>(?:{numpy})[ \t]*\n[ \t]*-{{3,}}[ \t]*$)"
        rf"|(?P<sphinx>:(?:{sphinx})\b[^:\n]*:))",
        re.MULTILINE,
    )


_SECTIONS = _make_pattern(
    rf"{_GOOGLE}|{_OTHERS}|Exceptions|Example|Note",
    rf"{_NUMPY}|{_OTHERS}|Warnings",
    rf"{_SPHINX}|type|returns?|rtype|raises?|except|exception|var|ivar|cvar|vartype",
)
_PARAMETERS = _make_pattern(_GOOGLE, _NUMPY, _SPHINX)
_GAP = re.compile(r"\A([^\n]*)\n\s*\n")  # between a title and its body
_BETWEEN = re.compile(r"\n[ \t]*\n(?![ \t:]).*?(?=\n:|\Z)", re.DOTALL)  # paragraphs between Sphinx's fields


def read_description(text: str) -> str:
    """Return the text before the first section."""
    section = _SECTIONS.search(text)
    return (text[: section.start()] if section else text).strip()


def read_parameters(text: str) -> dict[str, str]:
    """Return the description of each parameter that has one, as one line, by name.

    The names come from the docstring: they need not be parameters of the function.
    """
    found = _PARAMETERS.search(text)
    if found is None:
        return {}
    import griffe  # 105 ms

    style = cast("Literal['google', 'numpy', 'sphinx']", found.lastgroup)
    lines = text[found.start() :].replace(r"\*", "*").splitlines()  # reStructuredText has to escape *args
    section = "\n".join(line.removeprefix(found["indent"]) for line in lines)
    section = _BETWEEN.sub("", section) if style == "sphinx" else _GAP.sub(r"\1\n", section)
    # A text comes first, or griffe takes the whole section as indented. The types are the signature's business.
    parts = griffe.Docstring(f"Text.\n\n{section}").parse(style, warnings=False)
    return {
        name.strip().lstrip("*"): " ".join(item.description.split())
        for part in parts
        if isinstance(part, (griffe.DocstringSectionParameters, griffe.DocstringSectionOtherParameters))
        for item in part.value
        for name in item.name.split(",")
        if item.description.strip()
    }

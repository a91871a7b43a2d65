"""Read the descriptions of a tool and of its parameters from a docstring in Google, NumPy or Sphinx style."""

from __future__ import annotations

import re
from typing import Literal, cast

_GOOGLE = r"Arg(?:ument)?s|Param(?:eter)?s|(?:Keyword|Other) (?:[Aa]rg(?:ument)?s|[Pp]aram(?:eter)?s)"
_NUMPY = r"(?:Other )?Parameters"
_SPHINX = r"param|parameter|arg|argument|key|keyword"
_OTHERS = r"Returns|Yields|Receives|Raises|Warns|Attributes|Examples|Notes|References|See Also"


def _make_pattern(google: str, numpy: str, sphinx: str) -> re.Pattern[str]:
    """Match the beginning of a section. A title without the body that its style requires is plain text."""
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
    """Return the descriptions in a docstring, each as one line, by the name of the parameter.

    The function need not have a parameter of each of these names.
    """
    found = _PARAMETERS.search(text)
    if found is None:
        return {}
    import griffe  # 105 ms

    style = cast("Literal['google', 'numpy', 'sphinx']", found.lastgroup)
    lines = text[found.start() :].replace(r"\*", "*").splitlines()  # reStructuredText has to escape *args
    section = "\n".join(line.removeprefix(found["indent"]) for line in lines)
    section = _BETWEEN.sub("", section) if style == "sphinx" else _GAP.sub(r"\1\n", section)
    # Without a text before the section griffe takes all of it as indented. Types come from the signature.
    parts = griffe.Docstring(f"Text.\n\n{section}").parse(style, warnings=False)
    return {
        name.strip().lstrip("*"): " ".join(item.description.split())
        for part in parts
        if isinstance(part, (griffe.DocstringSectionParameters, griffe.DocstringSectionOtherParameters))
        for item in part.value
        for name in item.name.split(",")
        if item.description.strip()
    }

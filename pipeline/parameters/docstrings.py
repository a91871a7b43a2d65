"""What a docstring tells a model: of the tool, and of each parameter; Google's, NumPy's and Sphinx's style."""

from __future__ import annotations

import re
from typing import Literal, cast

_GOOGLE = r"Arg(?:ument)?s|Param(?:eter)?s|(?:Keyword|Other) (?:[Aa]rg(?:ument)?s|[Pp]aram(?:eter)?s)"
_NUMPY = r"(?:Other )?Parameters"
_SPHINX = r"param|parameter|arg|argument|key|keyword"
_BESIDES = r"Returns|Yields|Receives|Raises|Warns|Attributes|Examples|Notes|References|See Also"


def _marks(google: str, numpy: str, sphinx: str) -> re.Pattern[str]:
    """Where a section begins; what is no section to its style, as a title with nothing under it, is text."""
    return re.compile(
        r"^(?P<indent>[ \t]*)(?:"
        rf"(?P<google>(?:{google}):[ \t]*(?=\s*\Z|\n\s*^(?P=indent)[ \t]+\S))"
        rf"|(?P<numpy>(?:{numpy})[ \t]*\n[ \t]*-{{3,}}[ \t]*$)"
        rf"|(?P<sphinx>:(?:{sphinx})\b[^:\n]*:))",
        re.MULTILINE,
    )


_SECTIONS = _marks(
    rf"{_GOOGLE}|{_BESIDES}|Exceptions|Example|Note",
    rf"{_NUMPY}|{_BESIDES}|Warnings",
    rf"{_SPHINX}|type|returns?|rtype|raises?|except|exception|var|ivar|cvar|vartype",
)
_PARAMETERS = _marks(_GOOGLE, _NUMPY, _SPHINX)
_GAP = re.compile(r"\A([^\n]*)\n\s*\n")  # between a title and what stands under it
_BETWEEN = re.compile(r"\n[ \t]*\n(?![ \t:]).*?(?=\n:|\Z)", re.DOTALL)  # paragraphs between Sphinx's fields


def description(text: str) -> str:
    """The text up to its sections."""
    section = _SECTIONS.search(text)
    return (text[: section.start()] if section else text).strip()


def parameters(text: str) -> dict[str, str]:
    """What it says of each parameter, in a line; names may be no parameter's, or not all of them."""
    found = _PARAMETERS.search(text)
    if found is None:
        return {}
    import griffe  # 105 ms

    style = cast("Literal['google', 'numpy', 'sphinx']", found.lastgroup)
    lines = text[found.start() :].replace(r"\*", "*").splitlines()  # reST has to escape *args
    section = "\n".join(line.removeprefix(found["indent"]) for line in lines)
    section = _BETWEEN.sub("", section) if style == "sphinx" else _GAP.sub(r"\1\n", section)
    # After a text, or all under the title would be taken for indented; and the signature knows the types better.
    parts = griffe.Docstring(f"Text.\n\n{section}").parse(style, warnings=False)
    return {
        name.strip().lstrip("*"): " ".join(item.description.split())
        for part in parts
        if isinstance(part, (griffe.DocstringSectionParameters, griffe.DocstringSectionOtherParameters))
        for item in part.value
        for name in item.name.split(",")
        if item.description.strip()
    }

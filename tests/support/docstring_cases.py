"""Docstrings in three styles, with the descriptions that should be read from them."""

from __future__ import annotations

# By style and case: the docstring, the description of the tool, and those of its parameters.
CASES: dict[str, tuple[str, str, dict[str, str]]] = {
    "no sections": ("Read: a file.\n\nSlowly, of course.", "Read: a file.\n\nSlowly, of course.", {}),
    "none": ("", "", {}),
    "a title in a sentence": ("Args: none.\n\nReturns: x.", "Args: none.\n\nReturns: x.", {}),
    "a role, not a field": (":class:`File` is read.", ":class:`File` is read.", {}),
    "a rule, not a section": ("Read.\n\nFiles\n-----\nx : int", "Read.\n\nFiles\n-----\nx : int", {}),
    "google": (
        "Read.\n\nArgs:\n    x: Where.\n    y: When.\n\nReturns:\n    It.",
        "Read.",
        {"x": "Where.", "y": "When."},
    ),
    "google, several lines": (
        "Read.\n\n    Indented.\n\nArgs:\n    x: Where,\n        or so.\n\n        Mostly.\n    y:\n        When.",
        "Read.\n\n    Indented.",
        {"x": "Where, or so. Mostly.", "y": "When."},
    ),
    "google, stars": (
        "Read.\n\nArgs:\n    *args: More.\n    **kwargs: Named.\n    \\*\\*more: Escaped.",
        "Read.",
        {"args": "More.", "kwargs": "Named.", "more": "Escaped."},
    ),
    "google, types": (
        "Read.\n\nArgs:\n    x (str): Where.\n    y (dict[str, int], optional): When: now.\n    z (a b): How.",
        "Read.",
        {"x": "Where.", "y": "When: now.", "z": "How."},
    ),
    "google, two in a line": ("Read.\n\nArgs:\n    x, y: Both.", "Read.", {"x": "Both.", "y": "Both."}),
    "google, default": ("Read.\n\nArgs:\n    x: Where. Defaults to 3.", "Read.", {"x": "Where. Defaults to 3."}),
    "google, indented": ("Read.\n\n  Args:\n      x: Where.\n  Returns:\n      It.", "Read.", {"x": "Where."}),
    "google, nothing indented": ("Read.\n\nArgs:\nx: Where.", "Read.\n\nArgs:\nx: Where.", {}),
    "google, a blank below": ("Read.\n\nArgs:\n\n    x: Where.", "Read.", {"x": "Where."}),
    "google, no blank above": ("Read.\nArgs:\n    x: Where.", "Read.", {"x": "Where."}),
    "google, an item that is none": ("Read.\n\nArgs:\n    where\n    x: Where.", "Read.", {"x": "Where."}),
    "google, an empty title": ("Read.\n\nArgs:", "Read.", {}),
    "google, non-ASCII": (
        "Läs «filen».\n\nArgs:\n    größe: 大きさ, в байтах.",
        "Läs «filen».",
        {"größe": "大きさ, в байтах."},
    ),
    "google, in the middle": ("Read.\n\nArgs:\n    x: Where.\n\nSlowly.", "Read.", {"x": "Where."}),
    "google, an example first": ("Read.\n\nExample:\n    >>> f()\n\nArgs:\n    x: Where.", "Read.", {"x": "Where."}),
    "google, only a section": ("Args:\n    x: Where.", "", {"x": "Where."}),
    "google, only returns": ("Returns:\n    It.", "", {}),
    "google, keywords": (
        "Read.\n\nArguments:\n    x: Where.\n\nKeyword Args:\n    y: When.",
        "Read.",
        {"x": "Where.", "y": "When."},
    ),
    "numpy": (
        "Read.\n\nParameters\n----------\nx : str\n    Where.\ny\n    When.\n\nReturns\n-------\nint\n    It.",
        "Read.",
        {"x": "Where.", "y": "When."},
    ),
    "numpy, several lines": (
        "Read.\n\nParameters\n----------\nx : str\n    Where,\n    or so.\n\n    Mostly.",
        "Read.",
        {"x": "Where, or so. Mostly."},
    ),
    "numpy, stars": (
        "Read.\n\nParameters\n----------\n*args : int\n    More.\n\\**kwargs\n    Named.",
        "Read.",
        {"args": "More.", "kwargs": "Named."},
    ),
    "numpy, types": (
        "Read.\n\nParameters\n----------\nx : {'a', 'b'}\n    Which.\ny : array_like of (N, 3), optional\n    What.",
        "Read.",
        {"x": "Which.", "y": "What."},
    ),
    "numpy, two in a line": (
        "Read.\n\nParameters\n----------\nx, other : int\n    Both.",
        "Read.",
        {"x": "Both.", "other": "Both."},
    ),
    "numpy, default": ("Read.\n\nParameters\n----------\nx : int, default 3\n    Where.", "Read.", {"x": "Where."}),
    "numpy, indented": (
        "Read.\n\n  Parameters\n  ----------\n  x : int\n      Where.\n  y : int\n      When.",
        "Read.",
        {"x": "Where.", "y": "When."},
    ),
    "numpy, indented too little": ("Read.\n\nParameters\n----------\nx : int\n  Where.", "Read.", {"x": "Where."}),
    "numpy, non-ASCII": ("Läs.\n\nParameters\n----------\nx : int\n    大きさ.", "Läs.", {"x": "大きさ."}),
    "numpy, in the middle": (
        "Read.\n\nRaises\n------\nOSError\n    No.\n\nParameters\n---\nx : int\n    Where.\n\nNotes\n-----\nSlow.",
        "Read.",
        {"x": "Where."},
    ),
    "numpy, only a section": ("Parameters\n----------\nx : int\n    Where.", "", {"x": "Where."}),
    "numpy, others": (
        "Read.\n\nParameters\n----------\nx : int\n    Where.\n\nOther Parameters\n---\ny : int\n    When.",
        "Read.",
        {"x": "Where.", "y": "When."},
    ),
    "numpy, no descriptions": ("Read.\n\nParameters\n----------\nx : int\ny : int", "Read.", {}),
    "sphinx": ("Read.\n\n:param x: Where.\n:param y: When.\n:returns: It.", "Read.", {"x": "Where.", "y": "When."}),
    "sphinx, several lines": (
        "Read.\n\n:param x: Where,\n    or so.\n\n    Mostly.\n:param y:\n    When.",
        "Read.",
        {"x": "Where, or so. Mostly.", "y": "When."},
    ),
    "sphinx, stars": (
        "Read.\n\n:param \\*args: More.\n:param **kwargs: Named.",
        "Read.",
        {"args": "More.", "kwargs": "Named."},
    ),
    "sphinx, types": (
        "Read.\n\n:type x: str\n:param x: Where.\n:param int y: When.\n:param dict[str, int] z: How: so.",
        "Read.",
        {"x": "Where.", "y": "When.", "z": "How: so."},
    ),
    "sphinx, default": (
        "Read.\n\n:param x: Where, defaults to 3\n:type x: int, optional",
        "Read.",
        {"x": "Where, defaults to 3"},
    ),
    "sphinx, indented": ("Read.\n\n  :param x: Where.\n  :param y: When.", "Read.", {"x": "Where.", "y": "When."}),
    "sphinx, non-ASCII": ("Läs.\n\n:param größe: 大きさ.", "Läs.", {"größe": "大きさ."}),
    "sphinx, in the middle": (
        "Read.\n\n:raises OSError: No.\n:param x: Where.\n\nSlowly.\n\nOf course.\n:param y: When.",
        "Read.",
        {"x": "Where.", "y": "When."},
    ),
    "sphinx, only a section": (":param x: Where.", "", {"x": "Where."}),
    "sphinx, other words": (
        "Read.\n\n:arg x: Where.\n:keyword y: When.\n:rtype: int",
        "Read.",
        {"x": "Where.", "y": "When."},
    ),
    "sphinx, no descriptions": ("Read.\n\n:param x:\n:type x: int", "Read.", {}),
}

"""The site: Sphinx over a copy of the guides, each at its own path, and a reference made from the docstrings."""

from __future__ import annotations

import importlib
import inspect
import posixpath
import re
import subprocess
from pathlib import Path
from typing import Any

import attrs

ROOT = Path(__file__).resolve().parents[1]
TRACKED = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).split()
ADAPTERS = ("openai", "anthropic", "gemini", "bedrock", "ollama", "mistral")
PACKAGES = (
    "middlewares",
    "telemetry",
    "messages",
    "parameters",
    "executors",
    "approvals",
    "policies",
    "stores",
    "journal",
    "dialogue",
    "builtin",
    "hosts",
    "mcp",
    "testing",
    "privacy",
)
ROOMS = [
    "toolcall_pipeline",
    *(f"toolcall_pipeline.{name}" for name in PACKAGES if (ROOT / "toolcall_pipeline" / name).is_dir()),
    *(f"toolcall_pipeline.adapters.{name}" for name in ADAPTERS),
]

project = "toolcall-pipeline"
project_copyright = "the authors of toolcall-pipeline, under the Apache License 2.0"  # in the footer
html_title = project
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_external_toc",
    "sphinx_copybutton",
    "sphinx_llms_txt",
]
external_toc_path = str(Path(__file__).with_name("toc.yml"))
html_theme = "furo"
html_show_sphinx = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["tables.js"]
html_search_scorer = str(Path(__file__).with_name("static") / "scorer.js")
myst_heading_anchors = 4  # as GitHub makes them
myst_enable_extensions = ["colon_fence"]
default_role = "py:obj"  # `Name` in a docstring is a link
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
napoleon_use_ivar = True
copybutton_exclude = ".linenos, .gp"
llms_txt_exclude = ["reference/*"]  # their sources are directives, not words


class _Shown:
    """A default, written as its author would write it."""

    def __init__(self, value: object) -> None:
        self.text = "..." if value is attrs.NOTHING else getattr(value, "__name__", None) or repr(value)

    def __repr__(self) -> str:
        return self.text


def _show_defaults(cls: type) -> None:
    """Give a class of attrs the signature that a reader wants: autodoc finds no source of its ``__init__``."""
    if attrs.has(cls) and "__signature__" not in vars(cls):
        made = inspect.signature(cls)
        shown = [
            each if each.default is each.empty else each.replace(default=_Shown(each.default))
            for each in made.parameters.values()
        ]
        cls.__signature__ = made.replace(parameters=shown)  # type: ignore[attr-defined]


def _describe(room: str, name: str, first_places: dict[int, str]) -> str:
    """The directive for one public name; a name that an earlier room has is a link to it."""
    full = f"{room}.{name}"
    obj: Any = getattr(importlib.import_module(room), name)
    if inspect.ismodule(obj):
        return ""
    if (first := first_places.setdefault(id(obj), full)) != full:
        return f"* ``{name}``: see `{first}`\n"
    if isinstance(obj, type):
        _show_defaults(obj)
        return f".. autoclass:: {full}\n   :members:\n"
    if inspect.isroutine(obj):
        return f".. autofunction:: {full}\n"
    if type(obj).__module__ in ("builtins", "types", "typing"):  # an alias: autodoc would show the words of typing
        words = re.sub(r"\b(?:\w+\.)+(?=\w)", "", str(obj))
        return f".. py:data:: {full}\n\n   ``{words[:300].rstrip()}``\n"
    return f".. autodata:: {full}\n   :no-value:\n"


def _write_reference(app: Any, _config: Any) -> None:
    """Write a page for each room, with the names of its ``__all__``."""
    first_places: dict[int, str] = {}
    folder = Path(app.srcdir, "reference")
    folder.mkdir(exist_ok=True)
    for room in ROOMS:
        module = importlib.import_module(room)
        own = [name for name, obj in vars(module).items() if getattr(obj, "__module__", "") == room and name[0] != "_"]
        names = sorted(getattr(module, "__all__", own), key=str.lower)
        lines = [f"{room}\n{'=' * len(room)}\n\n.. automodule:: {room}\n   :no-members:\n"]
        lines += [_describe(room, name, first_places) for name in names if not name.startswith("__")]
        folder.joinpath(f"{room}.rst").write_text("\n".join(lines))
    folder.joinpath("index.rst").write_text(
        "Reference of names\n==================\n\nEach public name, with the room to import it from.\n"
    )


def _point_at_source(app: Any, docname: str, content: list[str]) -> None:
    """A link to a tracked file that is no page shows its path; a link that leads nowhere stays, and is an error."""

    def point(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(docname), match[2]))
        is_source = target in TRACKED or any(path.startswith(f"{target}/") for path in TRACKED)
        return match[0] if not is_source or Path(app.srcdir, target).is_file() else f"{match[1]} (`{target}`)"

    content[0] = re.sub(r"(?<!!)\[([^\]]*)\]\(([^)#:\s]+)\)", point, content[0])


def setup(app: Any) -> None:
    """Connect the two steps."""
    app.connect("config-inited", _write_reference)
    app.connect("source-read", _point_at_source)

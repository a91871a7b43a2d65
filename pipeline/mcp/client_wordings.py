"""ClientWordings: how the texts of a served call are worded for its client, by what it asks for and by its name."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final, cast

from ..base.foreign_values import or_default
from ..base.options import check_type
from ..base.setup_error import SetupError
from ..messages.wording import Wording

PROFILE: Final = "toolcall/profile"  # in the `_meta` of a request: the name of a profile
VERBOSITY: Final = "toolcall/verbosity"  # as above: terse, normal or full


class ClientWordings:
    """Finds the wording for the client of a request.

    Args:
        wordings: By the name that a client gives itself, or a pattern such as ``claude-*``; the first that fits counts.
        default: For the other clients. None: as by default.

    Raises:
        SetupError: It is no mapping of names to wordings.
    """

    def __init__(self, wordings: Mapping[str, Wording] | None, default: Wording | None) -> None:
        check_type("make_server", "wordings", wordings, Mapping, optional=True)
        for name, wording in (wordings or {}).items():
            check_type("make_server", "wordings", name, str)
            check_type("make_server", f"wordings[{name!r}]", wording, Wording)
        self._wordings, self._default = dict(wordings or {}), default

    def find(self, request: Any) -> Wording | None:
        """The wording that the ``_meta`` of a request asks for, else that of the client's name, where it is known."""
        found = self._default
        if self._wordings:
            name = _read_name(request)
            found = next((each for key, each in self._wordings.items() if fnmatchcase(name, key)), found)
        meta: Mapping[str, object] = getattr(request, "meta", None) or {}
        for key, option in ((PROFILE, "profile"), (VERBOSITY, "verbosity")):
            if isinstance(wanted := meta.get(key), str):
                try:
                    found = (found or Wording()).changed(**cast("Any", {option: wanted}))
                except SetupError:  # a model or its client is told no mistake of set-up
                    continue
        return found


@or_default("")
def _read_name(request: Any) -> str:
    return str(request.session._connection.client_params.client_info.name)  # noqa: SLF001  # no public name (mcp 2.3)

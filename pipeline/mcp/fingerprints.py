"""Fingerprints of tool definitions: whether a definition is still the one that was accepted.

A server may show one definition while somebody looks at it and another one later ("rug pull"); so what was seen first
counts until a person accepts something else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

# What a model reads and what decides how a call is treated. Icons and `_meta` are neither.
_PARTS: Final = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")


def make_fingerprint(definition: Mapping[str, Any]) -> str:
    """The fingerprint of a tool definition: ``sha256:`` and 64 digits. The order of keys makes no difference.

    Args:
        definition: As it stands in the result of ``tools/list``.

    Raises:
        ValueError: It is no JSON, or too deep.
    """
    parts = {name: definition[name] for name in _PARTS if definition.get(name) is not None}
    try:
        text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    except (RecursionError, TypeError) as exc:
        raise ValueError(f"the definition is no JSON, or too deep: {type(exc).__name__}") from exc
    return f"sha256:{sha256(text.encode()).hexdigest()}"

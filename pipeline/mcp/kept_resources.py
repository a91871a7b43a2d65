"""KeptResources: the results that `Shape` keeps, as resources that a client of MCP reads by their links.

Source: https://modelcontextprotocol.io/specification (server/resources; server/tools, "Resource Links").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..base import timing
from ..engine.call import Call
from ..engine.compose import Pipeline
from ..privacy import get_logger
from ..stores import StoreError
from .jsonrpc import Message

if TYPE_CHECKING:
    from ..stage_state.kept_results import KeptResults

SCHEME: Final = "toolcall-result:///"
LONGEST: Final = 5_000_000  # characters of a resource, which is in memory as a whole
_MOST_LINKS: Final = 20  # of one result
_MEDIA_TYPE: Final = "text/plain"  # also of JSON: it is what the model would have read
_LONGEST_WAIT: Final = 10.0  # seconds for the store
_ABOUT: Final = "The whole text of a result of which a part was left out."
_LOG = get_logger()


class KeptResources:
    """Finds what a pipeline keeps for the caller of a call: for the same principal in the same conversation.

    Args:
        pipeline: The pipeline. It keeps nothing without a `Shape` whose results a tool reads.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        shapes: list[Any] = [stage.obj for stage in pipeline.entries if stage.placement.kind == "shape"]
        found: tuple[str, KeptResults] | None = next((each.kept for each in shapes if each.kept is not None), None)
        self.reader = "" if found is None else found[0]
        self._kept = None if found is None else found[1]

    async def list_links(self, call: Call, result: Message) -> list[Message]:
        """The links to the kept results whose handles a result names, also those of calls that it is made of.

        A handle that this caller cannot read has none, nor has a result that is longer than a resource may be.
        """
        if self._kept is None:
            return []
        from ..stage_state.kept_results import HANDLE

        texts = [block["text"] for block in result["content"] if block["type"] == "text"]
        handles = list(dict.fromkeys(found for text in texts for found in HANDLE.findall(text)))[:_MOST_LINKS]
        links: list[Message] = []
        try:
            with timing.move_on_after(_LONGEST_WAIT):
                for handle in handles:
                    kept = await self._kept.find(self._find_owner(call), handle)
                    if kept is not None and kept.characters <= LONGEST:
                        about = {"name": handle, "description": _ABOUT, "mimeType": _MEDIA_TYPE, "size": kept.size}
                        links.append({"type": "resource_link", "uri": f"{SCHEME}{handle}", **about})
        except StoreError:
            _LOG.warning("a result has no link to what is kept of it: the store gave no answer")
        return links

    async def read(self, call: Call, uri: str) -> Message | None:
        """The content of a resource.

        Args:
            call: Of the tool that reads what is kept, which the pipeline has let pass.
            uri: Of a link.

        Returns:
            The result of ``resources/read``. None: nothing is kept there for this caller, any more.

        Raises:
            StoreError: The store gave no answer, or none in ten seconds.
        """
        handle, who = read_handle(uri), self._find_owner(call)
        if self._kept is None or handle is None:
            return None
        with timing.move_on_after(_LONGEST_WAIT):
            kept = await self._kept.find(who, handle)
            if kept is None or kept.characters > LONGEST:
                return None
            text = await self._kept.read(who, handle, 0, kept.characters)
            return None if text is None else {"contents": [{"uri": uri, "mimeType": _MEDIA_TYPE, "text": text}]}
        raise StoreError("the store gave no answer in time")

    def _find_owner(self, call: Call) -> tuple[str, str]:
        known = self._pipeline.ask(call)
        return known.principal, known.conversation


def read_handle(uri: str) -> str | None:
    """The handle in the URI of a link; None: it is none of ours."""
    return uri.removeprefix(SCHEME) if uri.startswith(SCHEME) else None

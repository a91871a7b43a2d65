"""The parts of a result that are not text: images, sounds, files, links. A tool returns one, or a list of them.

Their support depends on the model provider. If it does not accept a part, the part's text is sent instead.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TypeAlias

import attrs

from .text import shorten

_LONGEST_URI = 2000  # characters, about what browsers and servers accept


@attrs.frozen
class _Data:
    """Bytes with a media type.

    Args:
        media_type: Such as ``image/png``.
        data: The bytes of the file.
        name: The name of the file. Default "": none.
    """

    media_type: str
    data: bytes = attrs.field(repr=False)
    name: str = ""

    @property
    def base64(self) -> str:
        """The bytes in the encoding that all providers take."""
        return b64encode(self.data).decode()

    def _describe(self, noun: str) -> str:
        facts = (shorten(self.name), shorten(self.media_type), f"{len(self.data)} bytes")
        return f"({', '.join([noun, *filter(None, facts)])})"


@attrs.frozen
class Image(_Data):
    """An image. Its text says type and size."""

    def __str__(self) -> str:
        return self._describe("an image")


@attrs.frozen
class Audio(_Data):
    """A sound. Its text says type and size."""

    def __str__(self) -> str:
        return self._describe("audio")


@attrs.frozen
class File(_Data):
    """Any other file. Its text says type and size."""

    def __str__(self) -> str:
        return self._describe("a file")


@attrs.frozen
class Link:
    """A resource that is named and not included. Every provider gets it as text.

    Args:
        uri: Where it is. The model reads it as it is; the library never fetches it.
        name: A display name. Default "": none.
        description: One line. Default "": none.
        media_type: Such as ``text/csv``. Default "": unknown.
    """

    uri: str
    name: str = ""
    description: str = ""
    media_type: str = ""

    def __str__(self) -> str:
        facts = (shorten(self.name), shorten(self.uri, _LONGEST_URI), shorten(self.media_type))
        text = f"(a link: {', '.join(filter(None, facts))})"
        return f"{text} {self.description}" if self.description.strip() else text


Part: TypeAlias = str | Image | Audio | File | Link
PARTS = (Image, Audio, File, Link)


def read_bytes(data: bytes) -> Part | None:
    """Detect the type of bytes by their signature: an image, a sound or a PDF file; else text if UTF-8; else None."""
    if media_type := _detect_media_type(data):
        return make_part(media_type, data)
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def make_part(media_type: str, data: bytes, name: str = "") -> Image | Audio | File:
    """Make the part for a file, by its media type."""
    family = media_type.partition("/")[0].strip().lower()
    if family == "image":
        return Image(media_type, data, name)
    return Audio(media_type, data, name) if family == "audio" else File(media_type, data, name)


def find_media(part: Part) -> Image | File | None:
    """Return the part if models accept it as a tool result: an image of a web type, or a PDF file; else None.

    Providers refuse the whole request for any other type.
    """
    if isinstance(part, Image) and part.media_type in _WEB_IMAGES:
        return part
    return part if isinstance(part, File) and part.media_type == "application/pdf" else None


def describe_bytes(data: bytes | bytearray | memoryview) -> str:
    """Return text that stands for binary data."""
    return f"({memoryview(data).nbytes} bytes of binary data)"


def join_parts(parts: list[Part]) -> str:
    """Join the parts for an API that accepts only text: other parts are mentioned."""
    return "\n".join(map(str, parts))


def _detect_media_type(data: bytes) -> str | None:
    for start, media_type in _FIRST_BYTES.items():
        if data.startswith(start):
            return media_type
    return _RIFF.get(data[8:12]) if data[:4] == b"RIFF" else None


_FIRST_BYTES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"%PDF-": "application/pdf",
    b"OggS": "audio/ogg",
    b"fLaC": "audio/flac",
    b"ID3": "audio/mpeg",
}
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
_WEB_IMAGES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))

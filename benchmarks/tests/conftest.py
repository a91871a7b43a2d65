"""The rules and fixtures of all tests also hold here; `make test-all` runs these."""

from conftest import anyio_backend

__all__ = ["anyio_backend"]

"""Pydantic's own secret types, marked as secret in the JSON Schema."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema


class SecretTypes(GenerateJsonSchema):
    """Makes the JSON Schema. Of ``SecretStr`` it says that it is secret by itself; of ``Secret[int]`` it does not."""

    def json_or_python_schema(self, schema: core_schema.JsonOrPythonSchema) -> JsonSchemaValue:
        """The schema, marked if it is that of ``Secret[…]``, which is known by how it is serialised."""
        shown = super().json_or_python_schema(schema)
        serialise: Any = schema.get("serialization", {}).get("function")
        own = getattr(serialise, "__module__", "") == "pydantic.types"
        return {**shown, "writeOnly": True} if own and "secret" in serialise.__name__ else shown

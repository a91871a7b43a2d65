"""What each provider takes of JSON Schema in the definition of a tool, as data. `schema_fitting` applies it.

Where a provider documents nothing, the rule is an error message that its users report.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

_ANNOTATIONS: Final = frozenset(("type", "title", "description", "enum"))
_NUMBERS: Final = frozenset(("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"))
_OBJECTS: Final = frozenset(("properties", "required", "additionalProperties"))
_ARRAYS: Final = frozenset(("items", "minItems", "maxItems"))


@attrs.frozen
class SchemaRules:
    """The rules of one provider. All providers refuse what JSON Schema 2020-12 refuses."""

    name: str  # as a text has it
    source: str  # where the rules come from
    keywords: frozenset[str] | None = None  # that it takes; None: all
    top: tuple[str, ...] = ()  # keywords that may not stand at the top
    top_only: frozenset[str] | None = None  # the only keywords that may stand at the top; None: any
    formats: frozenset[str] | None = None  # of texts that it takes; None: any
    names: re.Pattern[str] | None = None  # of properties that it takes; None: any
    items: bool = False  # each array says its items, as an object
    properties: bool = False  # each object says its properties
    lookaround: bool = True  # it takes patterns that look around or back
    references: str = "free"  # "free"; "alone": nothing stands beside one; "none": what it leads to stands in its place
    recursion: bool = True  # a type may hold itself in a required property
    enums: bool = True  # it takes other values than texts and numbers in `enum`
    type_lists: bool = True  # it takes a list of other types than one and `null`
    known_required: bool = False  # `required` lists declared properties alone
    told: bool = False  # it drops what it does not know: `type` says what stands in `anyOf` as well
    strict: bool = False  # it holds the model to the schema, see `adapters.openai.tools`

    def takes(self, keyword: str) -> bool:
        """Whether the provider takes a keyword."""
        return self.keywords is None or keyword in self.keywords


OPENAI: Final = SchemaRules(
    "OpenAI",
    # "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level", "array schema
    # missing items", "object schema missing properties", "regex lookaround is not supported"
    "langchain-ai/langchainjs#9804, PrefectHQ/fastmcp#2464, openai/openai-agents-python#449, vercel/ai#21037",
    top=("allOf", "anyOf", "oneOf", "enum", "not"),
    items=True,
    properties=True,
    lookaround=False,
)
OPENAI_STRICT: Final = SchemaRules(
    "OpenAI (strict)",
    "https://platform.openai.com/docs/guides/structured-outputs#supported-schemas",
    keywords=_ANNOTATIONS | _NUMBERS | _OBJECTS | _ARRAYS | {"const", "pattern", "format", "anyOf", "$ref", "$defs"},
    top=OPENAI.top,
    formats=frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")),
    items=True,
    properties=True,
    lookaround=False,
    references="alone",
    strict=True,
)
ANTHROPIC: Final = SchemaRules(
    "Anthropic",
    # No anyOf, oneOf or allOf at the top; names of properties match ^[a-zA-Z0-9_.-]{1,64}$.
    "https://docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use",
    top=("allOf", "anyOf", "oneOf"),
    names=re.compile(r"[a-zA-Z0-9_.-]{1,64}"),
)
GEMINI: Final = SchemaRules(
    "Gemini",
    # The keywords of `responseJsonSchema`; cyclic references only in properties that are not required; names of
    # parameters as those of `FunctionDeclaration.parameters`.
    "https://ai.google.dev/api/generate-content and /api/caching#FunctionDeclaration; NousResearch/hermes-agent#71804",
    keywords=_ANNOTATIONS
    | _OBJECTS
    | _ARRAYS
    | {"$defs", "$ref", "format", "prefixItems", "minimum", "maximum", "anyOf", "propertyOrdering"},
    top=("allOf", "anyOf", "oneOf", "enum", "const"),
    formats=frozenset(("date-time", "date", "time", "enum", "int32", "int64", "float", "double")),
    names=re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}"),
    items=True,
    references="alone",
    recursion=False,
    enums=False,
    type_lists=False,
    known_required=True,
)
BEDROCK: Final = SchemaRules(
    "Bedrock",
    # Most models there are Anthropic's; those of Amazon take three keywords at the top.
    f"{ANTHROPIC.source}; https://docs.aws.amazon.com/nova/latest/userguide/tool-use-definition.html",
    top=ANTHROPIC.top,
    top_only=frozenset(("type", "properties", "required")),
    names=ANTHROPIC.names,
    references="none",
)
MISTRAL: Final = SchemaRules(
    "Mistral",
    # "Invalid tool schema: … is not valid under any of the given schemas", of what is not JSON Schema 2020-12
    "https://docs.mistral.ai/capabilities/function_calling; SylphxAI/pdf-reader-mcp#63",
)
OLLAMA: Final = SchemaRules(
    "Ollama",
    # The fields of `ToolFunctionParameters` and `ToolProperty`; a type that does not fit fails the request.
    "https://github.com/ollama/ollama/blob/main/api/types.go; ollama/ollama#10328",
    keywords=frozenset(("type", "description", "enum", "items", "anyOf", "properties", "required")),
    top=("allOf", "anyOf", "oneOf", "enum", "const"),
    references="none",
    told=True,
)
RULES: Final = {
    "openai": OPENAI,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "bedrock": BEDROCK,
    "mistral": MISTRAL,
    "ollama": OLLAMA,
}

"""An OpenAI-compatible endpoint: asks a model for its second attempt, as tool calls or as text."""

from __future__ import annotations

import json
import os
import re
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import attrs

from benchmarks.texts.cases import Case
from toolcall_pipeline import Call, SetupError
from toolcall_pipeline.adapters import openai
from toolcall_pipeline.adapters.replies import Calls

# As the chat template of Qwen 2.5 puts tools and calls into text; models of other families read it as well.
_TOOLS = """

# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tools}
</tools>

For each function call, return a json object with function name and arguments in a code block:
```json
{{"name": <function-name>, "arguments": <args-json-object>}}
```"""
_SYSTEM = "You are a helpful assistant."
_BLOCK = re.compile(r"```(?:json)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)
_BEGINNINGS = ("```", "{", "<tool_call>", "<function=", "<|python_tag|>", "[TOOL_CALLS]")


class EndpointError(Exception):
    """The endpoint did not answer with a reply."""


@attrs.frozen
class Reply:
    """The answer of the model.

    Args:
        call: Its first call; None: it made none.
        text: Its text beside, or in place of, a call.
        begun: Whether it began a call, which may have been cut off.
    """

    call: Call | None
    text: str
    begun: bool


@attrs.frozen
class Endpoint:
    """The endpoint of a model.

    Args:
        url: Such as ``http://127.0.0.1:8080/v1``.
        model: The name that the endpoint has for the model.
        as_text: Whether the tools stand in the system message, and the model writes its call as text. Then no grammar
            of a server can keep the arguments to the schema.
        begin: With ``as_text``, how each answer that should be a call begins; "": the model decides.
        key: The API key. "": none.
        timeout: Seconds for one answer.
    """

    url: str
    model: str
    as_text: bool = False
    begin: str = ""
    key: str = attrs.field(factory=lambda: os.environ.get("OPENAI_API_KEY", ""), repr=False)
    timeout: float = 600

    def __attrs_post_init__(self) -> None:
        if urlsplit(self.url).scheme not in ("http", "https"):
            raise SetupError(f"ENDPOINT must be a URL such as http://127.0.0.1:8080/v1, not {self.url!r}")

    def ask(self, case: Case, text: str) -> Reply:
        """Ask for the call after the first one, which was answered with this text.

        Raises:
            EndpointError: No answer came, or none that holds a reply.
        """
        fits = bool(case.right)
        begin = self.begin if self.as_text and fits else ""
        body: dict[str, Any] = {"model": self.model, "temperature": 0, "seed": 1, "max_tokens": 300 if fits else 48}
        body["messages"] = self._build_messages(case, text, begin)
        if not self.as_text:
            body["tools"] = [{"type": "function", "function": each} for each in case.tools]
        if begin:  # llama.cpp goes on with the last message by itself, vLLM on request
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        found = openai.calls(self._post(body), text=True)
        if found.error is not None:
            raise EndpointError(found.error.message)
        said = found.text if found.text.startswith(begin) else begin + found.text
        if self.as_text and not found:
            block = _BLOCK.search(said)  # it was told to write one; words around it are no quotation here
            found = openai.calls({"role": "assistant", "content": said if block is None else block[1]}, text=True)
        begun = bool(found) or said.lstrip().startswith(_BEGINNINGS)
        return Reply(found[0] if found else None, found.text if found else said, begun)

    def _build_messages(self, case: Case, text: str, begin: str) -> list[Any]:
        call = Call(case.called, case.arguments, "call00001")  # nine characters, as Mistral wants them
        if not self.as_text:
            said, _ = openai.send_back(Calls([call]))
            said["tool_calls"][0]["function"]["name"] = case.called  # with its dots
            answer = {"role": "tool", "tool_call_id": call.id, "content": text}
            return [*case.messages, said, answer]
        first, *others = case.messages
        system = first["content"] if first["role"] == "system" else _SYSTEM
        rest = others if first["role"] == "system" else case.messages
        offered = "\n".join(json.dumps({"type": "function", "function": each}) for each in case.tools)
        sent = json.dumps({"name": case.called, "arguments": case.arguments})
        return [
            {"role": "system", "content": system + _TOOLS.format(tools=offered)},
            *rest,
            {"role": "assistant", "content": f"```json\n{sent}\n```"},
            {"role": "user", "content": f"<tool_response>\n{text}\n</tool_response>"},
            *([{"role": "assistant", "content": begin}] if begin else ()),
        ]

    def _post(self, body: dict[str, Any]) -> Any:
        base = self.url.rstrip("/")
        base = f"{base}/v1" if not urlsplit(base).path else base
        url = base if base.endswith("/chat/completions") else f"{base}/chat/completions"
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        request = Request(url, json.dumps(body).encode(), headers)  # noqa: S310  # http or https, as checked
        try:
            with urlopen(request, timeout=self.timeout) as response:  # noqa: S310
                return json.load(response)
        except HTTPError as exc:
            raise EndpointError(f"HTTP {exc.code}: {exc.read()[:300].decode(errors='replace')}") from exc
        except (OSError, HTTPException, ValueError) as exc:
            raise EndpointError(f"{type(exc).__name__}: {exc}") from exc

"""Marks of the templates of models that end up at a tool's name, or behind the arguments of a call.

Sources: the chat templates of the models, and the token lists in their configurations.
"""

from __future__ import annotations

import re
from typing import Final

# DeepSeek's control tokens, whose characters are wide; a tag around a call or a part of it; the marks of Mistral.
MARK: Final = (
    r"<\uff5c[\w\u2581]{1,40}\uff5c>|</s>|<(?:start|end)_(?:function_call|of_turn)>|\[/?(?:TOOL_CALLS?|ARGS)\]"
    r"|</?(?:\w{1,20}:)?(?:tool|function|tool_name|name|invoke|parameter|argument|arg|arg_key|arg_value)(?:_?call)?s?>"
)
_LAST_MARK = re.compile(rf"<\|\w{{1,40}}\|>|{MARK}")
_MOST = 10  # marks in a row: each is cut off with a copy of the text


def cut_marks(text: str) -> str:
    """The text without the marks at its end, and the blanks around them."""
    for _ in range(_MOST):
        text = text.rstrip()
        begin = max(text.rfind("<"), text.rfind("["))
        if begin < 0 or _LAST_MARK.fullmatch(text, begin) is None:
            break
        text = text[:begin]
    return text

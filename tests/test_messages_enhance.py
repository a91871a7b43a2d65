"""`enhance`: questions made of technical texts, by the rules of the Agentopia document."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcall_pipeline.messages import enhance
from toolcall_pipeline.privacy import find_flaws

EMAIL_MISSING = (
    "Question: What email details are missing? Please provide the recipient email address, subject line, and message "
    "content."
)
EMAIL_SET_UP = (
    "Question: It looks like the email service needs to be set up. Please ensure your email integration is properly "
    "configured with valid credentials."
)
SEARCH = "Question: What would you like me to search for? Please provide a search query or topic."
SEARCH_SET_UP = (
    "Question: The search service needs to be configured. Please add your web search API key in the integration "
    "settings."
)
SET_UP = (
    "Question: The service behind crm_find needs to be set up. Please ensure that its integration is properly "
    "configured with valid credentials."
)
ASKED = "Please provide the correct parameters for crm_find."
ENHANCED: dict[str, tuple[str, str, str]] = {
    "a question": ("Question: Who?", "crm_find", "Question: Who?"),
    "a question in words": ("Please provide a  name.", "crm_find", "Please provide a  name."),
    "what": ("What is the name", "crm_find", "What is the name"),
    "which": ("say which one", "gmail_send", "say which one"),
    "how": ("how many?", "crm_find", "how many?"),
    "a question with a status code": ("HTTP 400: which file?", "crm_find", "which file?"),
    "no question": ("it was somewhat showy", "crm_find", f"{ASKED} it was somewhat showy"),
    "email, missing": ("Missing required parameters: to, subject, body", "gmail_send", EMAIL_MISSING),
    "email by SMTP, missing": ("parameter 'to' is missing", "smtp_send", EMAIL_MISSING),
    "search, missing": ("missing parameter: query", "web_search", SEARCH),
    "news, missing": ("Missing parameter", "news_latest", SEARCH),
    "scraping, missing": ("Missing parameter", "scrape_pages", SEARCH),
    "other, missing": ("Missing parameter: name", "crm_find", f"{ASKED} Missing parameter: name"),
    "email, key": ("Invalid API key", "gmail_send", EMAIL_SET_UP),
    "email, log-in": ("Authentication failed", "smtp_send", EMAIL_SET_UP),
    "search, unauthorised": ("401 Unauthorized", "web_search", SEARCH_SET_UP),
    "other, unauthorised": ("Unauthorized", "crm_find", SET_UP),
    "other, key": ("No API key was given", "", SET_UP.replace("crm_find", "this tool")),
    "bad request": ("HTTP 400: Bad Request", "crm_find", f"{ASKED} Bad Request"),
    "class name": (
        "ValidationError: content parameter is required",
        "crm_find",
        f"{ASKED} content parameter is required",
    ),
    "nothing is left": ("HTTP 500", "crm_find", ASKED),
    "nothing": ("", "crm_find", ASKED),
    "no tool": ("oops", "", "Please provide the correct parameters for this tool. oops"),
    "an odd tool": ("oops", "/etc/passwd", "Please provide the correct parameters for this tool. oops"),
    "a tool like a status code": ("oops", "HTTP_404", "Please provide the correct parameters for this tool. oops"),
}


@pytest.mark.parametrize(("text", "tool", "told"), [pytest.param(*row, id=name) for name, row in ENHANCED.items()])
def test_each_rule_of_the_document(text: str, tool: str, told: str) -> None:
    """Questions stay, families of tools have questions for missing parameters and set-up, and the rest one text."""
    assert enhance(text, tool) == told


CODES = st.integers(100, 599)
TECHNICAL = st.one_of(
    st.builds("HTTP {}: {}".format, CODES, st.sampled_from(["Bad Request", "Not Found", "", "which?"])),
    st.builds("Request failed with status code {}".format, CODES),
    st.builds("[{}] upstream".format, st.integers(400, 599)),
    st.builds("Error code: {} - missing parameter".format, CODES),
    st.sampled_from(
        [
            "https://api.example.com/v1?key=sk-0123456789abcdef",
            "requests.exceptions.HTTPError",
            "/home/ada/.config/token.json",
            "C:\\keys\\id_rsa",
            'Traceback (most recent call last):\n  File "a.py", line 1, in f',
            "Unauthorized",
            "api key",
            "Please provide",
            "missing parameter",
        ]
    ),
    st.text(max_size=20),
)
TOOLS = st.sampled_from(["", "gmail_send", "web_search", "crm_find", "HTTP 404", "/tmp/a"]) | st.text(max_size=10)


@given(st.lists(TECHNICAL, max_size=6).map(" ".join) | st.text(), TOOLS)
def test_nothing_technical_is_left(text: str, tool: str) -> None:
    """No status code, URL, class name, stack, path or key is left, and the text is bounded and not empty."""
    told = enhance(text, tool)
    assert find_flaws(told) == ()
    assert re.search(r"\b[45]\d\d\b", told) is None
    assert "0123456789" not in told
    assert 0 < len(told) <= 2_500
    assert told.encode().decode() == told


def test_the_tool_may_be_unknown() -> None:
    """Without the name of the tool the text speaks of this tool."""
    assert enhance("oops") == enhance("oops", "") == "Please provide the correct parameters for this tool. oops"


def test_a_long_text_is_cut() -> None:
    """Only the beginning of a long text is kept."""
    assert len(enhance("word " * 100_000, "crm_find")) < 2_100

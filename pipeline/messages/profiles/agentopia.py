"""The texts of the Agentopia document, as templates: errors as questions, by family of tools and by provider."""

from __future__ import annotations

from collections.abc import Mapping

from ..default import UNAVAILABLE
from ..templates import Texts

# The families of the document's ``enhanceErrorForRetry``, and the one tool of its sequence diagram.
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "email": ("gmail_*", "smtp_*", "send_email"),
    "search": ("web_search*", "news_*", "scrape_*"),
}
MISSING = {
    "email": (
        "Question: What email details are missing? Please provide the recipient email address, subject line, "
        "and message content."
    ),
    "search": "Question: What would you like me to search for? Please provide a search query or topic.",
}
SET_UP = {
    "email": (
        "Question: It looks like the email service needs to be set up. Please ensure your email integration is "
        "properly configured with valid credentials."
    ),
    "search": (
        "Question: The search service needs to be configured. Please add your web search API key in the "
        "integration settings."
    ),
}
_URLS = "Question: Which websites would you like me to scrape and summarize? Please provide one or more URLs."
_DOCUMENT = "Question: What content should I include in the document? Please provide the text you want me to write."
_FILE = (
    "Question: Which file would you like me to process? Please provide either a file URL or upload the file content."
)
_SEARCH_ISSUE = (
    "Question: There seems to be an issue with the search parameters. Please provide a clear search query or valid "
    "URLs to scrape."
)
_MISSING_OR_EMPTY = ("required", "minLength", "minItems")  # the document tests ``!value``


def _for_missing(parameter: str, text: str) -> dict[str, Texts]:
    return {f"validation.{rule}:{parameter}": text for rule in _MISSING_OR_EMPTY}


_OF_EMAIL: Mapping[str, Texts] = {
    **_for_missing("to", "Question: Who should I send this email to? Please provide the recipient email address."),
    **_for_missing("subject", "Question: What should be the subject line of this email?"),
    **_for_missing("body", "Question: What message content should I include in the email body?"),
    **_for_missing(
        "action",
        "Question: What email action would you like me to perform? Please specify send_email, read_emails, or "
        "search_emails.",
    ),
    **_for_missing(
        "params",
        "Question: What email details would you like me to use? For sending emails, please provide recipient (to), "
        "subject, and message body.",
    ),
    **_for_missing("agent_id", "Missing agent context. Please retry with proper agent identification."),
    "validation.required": MISSING["email"],
    "validation.minProperties": (
        "Please provide the required email parameters: action, recipient details, and message content."
    ),
    "validation:to": (
        "Question: There seems to be an issue with the email address format. Please check that the recipient email "
        "address is valid."
    ),
    "configuration": (
        "Question: Your {service} service needs to be set up. {message}",
        (
            "Question: Your {service} service needs to be set up. Please ensure your {service} integration is properly "
            "configured with valid credentials."
        ),
        SET_UP["email"],
    ),
}
_OF_SEARCH: Mapping[str, Texts] = {
    "validation.required": MISSING["search"],
    **_for_missing("query", MISSING["search"]),
    **_for_missing("urls", _URLS),
    "validation:query": _SEARCH_ISSUE,
    "validation:urls": _SEARCH_ISSUE,
    "configuration": (
        "Question: The {service} service needs to be configured. {message}",
        (
            "Question: No API key found for {service}. Please add your {service} API key in the integration settings "
            "before I can perform web searches."
        ),
        SET_UP["search"],
    ),
    "provider=search:configuration": (
        "Question: No search API key found. Please add your web search API key in the integration settings before I "
        "can perform searches."
    ),
}
# Two patterns of the document are for all families: "What [parameter] should I use?" and "There seems to be an issue
# with [parameter]".
_OF_ALL: Mapping[str, Texts] = {
    "unknown_tool.empty": (
        "Question: How would you like me to go on? There is no tool named '{tool}', and no tools are available."
    ),
    "unknown_tool": (
        (
            "Question: Which tool would you like me to use? There is no tool named '{tool}'. Did you mean: "
            "{suggestions} (of {count} tools)?"
        ),
        "Question: Which tool would you like me to use? There is no tool named '{tool}'. Did you mean: {suggestions}?",
        (
            "Question: Which tool would you like me to use? There is no tool named '{tool}'. Please choose one of "
            "these: {available}."
        ),
        (
            "Question: Which tool would you like me to use? There is no tool named '{tool}', and of {count} tools "
            "none has a similar name."
        ),
        "Question: Which tool would you like me to use? There is no tool named '{tool}'.",
    ),
    "unavailable": "Question: How would you like me to go on? This tool is not available right now.",
    **{
        f"unavailable.{reason}": (
            f"Question: Should I try again in {{seconds}}? {why}",
            f"Question: Should I try again later? {why}",
        )
        for reason, why in UNAVAILABLE.items()
    },
    "unavailable.quota": "Question: How would you like me to go on? {text}",  # it may never come back
    "malformed_call": "Question: What arguments should I use? {text}",
    "malformed_call.truncated": (
        "Question: How should I split this? The arguments were cut off. Please provide a smaller payload, or split it "
        "over several calls."
    ),
    "validation": (
        "Question: There seems to be an issue with {parameter}. Please make sure that it is {expected}.",
        "Question: There seems to be an issue with the parameters. Please make sure that they are {expected}.",
    ),
    "validation.required": (
        "Question: What {parameter} should I use? Please provide {expected}.",
        "Question: What {parameter} should I use? Please provide a value.",
    ),
    "validation.additionalProperties": (
        (
            "Question: There seems to be an issue with {parameter}. Did you mean {suggestions}? "
            "Please use only these parameters: {expected}."
        ),
        "Question: There seems to be an issue with {parameter}. Please use only these parameters: {expected}.",
        "Question: There seems to be an issue with {parameter}. Please leave it out: there is no such parameter.",
    ),
    "validation.enum": (
        (
            "Question: There seems to be an issue with {parameter}. Did you mean {suggestions}? "
            "Please make sure that it is {expected}."
        ),
        "Question: There seems to be an issue with {parameter}. Please make sure that it is {expected}.",
    ),
    "validation.validator": (
        "Question: There seems to be an issue with {parameter}. Please correct it: {expected}",
        "Question: There seems to be an issue with the parameters. Please correct them: {expected}",
    ),
    **{
        f"*document*:validation.{rule}:{parameter}": _DOCUMENT
        for rule in _MISSING_OR_EMPTY
        for parameter in ("content", "text")
    },
    **{
        f"validation.required:{parameter}": _FILE
        for parameter in ("fileUrl", "fileContent", "file_url", "file_content")
    },
    "needs_input": "Question: {question}",
    "not_found": "Question: Which one did you mean? {text}",
    "awaiting_approval": "Question: Shall I go on with other work meanwhile? {text}",
    "permission": "Question: How would you like me to go on? {text}",
    "configuration": (
        "Question: Your {service} needs to be set up. {message}",
        (
            "Question: The {service} service needs to be configured. Please add your {service} credentials in the "
            "integration settings."
        ),
        "Question: {message}",
        "Question: This tool needs to be set up. Please add its credentials in the integration settings.",
    ),
    "configuration.corrupted": (
        "Question: Your {service} API key appears to be corrupted. Please delete and re-add your {service} credentials "
        "in the integration settings."
    ),
    "provider=email:configuration": (
        "Question: The email service needs to be configured. Please connect your email account in the integration "
        "settings."
    ),
    "provider=search:configuration": SET_UP["search"],
    "timeout": ("Question: Should I try something smaller? {text}",),
    "transient": (
        "Question: Should I try again in {seconds}? The service is temporarily unavailable.",
        "Question: Should I try again later? The service is temporarily unavailable.",
    ),
    "execution": "Question: What would you like me to change? {text}",
    "outcome_unknown": (
        (
            "Question: Did it take effect? The result of the call was lost. Please check with {verify_with} before "
            "repeating it."
        ),
        "Question: Did it take effect? The result of the call was lost. Please check before repeating it.",
    ),
}

AGENTOPIA: Mapping[str, Texts] = {
    **_OF_ALL,
    **{f"{tool}:{key}": texts for tool in FAMILIES["email"] for key, texts in _OF_EMAIL.items()},
    **{f"{tool}:{key}": texts for tool in FAMILIES["search"] for key, texts in _OF_SEARCH.items()},
    # "Your email service needs to be set up. …", for a tool of the family that names its service
    **{f"{tool}:provider=email:configuration": _OF_EMAIL["configuration"] for tool in FAMILIES["email"]},
    **{
        f"{whom}configuration.corrupted": _OF_ALL["configuration.corrupted"]
        for family, tools in FAMILIES.items()
        for provider in ("", f"provider={family}:")
        for whom in (provider, *(f"{tool}:{provider}" for tool in tools))
    },
}

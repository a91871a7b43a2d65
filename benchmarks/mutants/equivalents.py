"""Mutants that no test can notice, each with the reason."""

from __future__ import annotations

# By file, function, operator, change and statement, so that a row holds when lines move.
EQUIVALENT: dict[str, str] = {
    "toolcall_pipeline/guards/call_guards.py _SOME_CLOSED constant: 'unknown' -> 'XXunknown'": (
        "the mapping is only asked whether it is empty"
    ),
    "toolcall_pipeline/parameters/docstrings.py read_parameters constant: 'Text.\\n\\n' -> 'XXText.\\n\\n'"
    " in parts = griffe.Docstring(f'Text.\\n\\n{section}').parse(style, warnings=False)": (
        "any text will do, and it is not among the parameters that are read"
    ),
    "toolcall_pipeline/parameters/annotations.py _bound_flag constant: 'Input should be {expected}'"
    " -> 'XXInput should be {expected}'"
    " in raise PydanticCustomError('enum', 'Input should be {expected}', {'expected': expected})": (
        "the words of a problem are made of its kind and its facts"
    ),
    "toolcall_pipeline/parameters/given.py _is_unchanged constant: True -> False in return True": (
        "the two are one object, so either is the answer"
    ),
    "toolcall_pipeline/messages/shortening.py _fit_list removed: break -> continue": (
        "no later item fits either, since the room that is left only falls"
    ),
    "toolcall_pipeline/parameters/reading.py _Writer._separate arithmetic: commas + 1 -> commas - 1"
    " in self._levels[-1] = (opened, commas + 1)": "the commas of a bracket are only asked whether there are any",
    "toolcall_pipeline/parameters/expectations.py Expected.of removed: forms = tuple(forms) -> pass": (
        "each caller gives a list of its own, and nobody changes it"
    ),
    "toolcall_pipeline/privacy/secret_places.py SecretSchema.facts removed: self._facts[id(forms)] = made -> pass": (
        "what is kept is only found quicker"
    ),
    "toolcall_pipeline/parameters/repair.py _parse return: return too_large -> return None": (
        "anything but params ends the repair, and the first refusal stands"
    ),
    "toolcall_pipeline/parameters/exact_json.py _tokens constant: 'rounded' -> 'XXrounded'": (
        "the name of a context variable is for whoever debugs it"
    ),
    "toolcall_pipeline/parameters/pydantic_errors.py PydanticErrors._make_problem arithmetic:"
    " parts[-1] + 1 -> parts[-1] - 1"
    " in bound = schema_at(self.schema, parts[:-1]).get('minItems', parts[-1] + 1)": (
        "the schema of a tuple has always minItems"
    ),
    "toolcall_pipeline/identity/calls.py intent_of constant: 'written:' -> 'XXwritten:'"
    " in asked = 'written:' + (written or written_digest(call))": "any beginning that no digest has will do",
    "toolcall_pipeline/identity/digests.py _number removed: value = int(value) -> pass": (
        "a Decimal of a subclass of int is that of the int"
    ),
    "toolcall_pipeline/compose/resources.py _InProcess.__init__ removed: self._restart_in_child() -> pass": (
        "there is one object of the class, which has been made at import"
    ),
    "toolcall_pipeline/telemetry/call_spans.py _MAX_TOOLS constant: 10000 -> 10001": (
        "one more tool is remembered, whose spans are only begun quicker"
    ),
    "toolcall_pipeline/dialogue/turn_state.py TurnState.assign constant: True -> False"
    " in others = [call for call, repeat in zip(checked, repeats, strict=True) if repeat is None]": (
        "there is a repeat, or None, for each call that was checked"
    ),
    "toolcall_pipeline/mcp/http_transport.py HttpTransport.open constant: 1 -> 2"
    " in listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)": "any number but 0 sets the option",
    "toolcall_pipeline/hosts/anthropic_runner.py _list_offered constant: True -> False"
    " in every = zip(anthropic.tools(tools), tools.callable_names(), strict=True)": (
        "the two lists are made of the same tools, so they have one length"
    ),
    "toolcall_pipeline/ledger/owners.py _RENEWALS constant: 4 -> 5": "a lease is renewed a little more often",
}

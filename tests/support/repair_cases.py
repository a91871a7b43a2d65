"""Counterexamples: calls that a repair once turned into something else, and their relatives.

Each row: the schema of the one parameter ``x`` (or of all, if it has ``properties``), what was sent as JSON text, and
what is meant. REFUSED: it can be read in two ways, or in none.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

Case: TypeAlias = tuple[Any, str, Any]


class _Refused:
    """Prints the same in each process: it stands in the ids of test cases."""

    def __repr__(self) -> str:
        return "REFUSED"


REFUSED: Final = _Refused()


def one_of(*values: Any) -> dict[str, Any]:
    return {"type": "string", "enum": [*values]}


def array_of(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def open_to(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*required]}


def closed_to(*required: str, **properties: Any) -> dict[str, Any]:
    return {**open_to(*required, **properties), "additionalProperties": False}


TEXT, INTEGER, NUMBER, BOOLEAN = ({"type": kind} for kind in ("string", "integer", "number", "boolean"))
DATE = {"type": "string", "format": "date"}

CHOICES: list[Case] = [
    (one_of("+1", "0"), '"-1"', REFUSED),
    (one_of("-1", "0"), '"1"', REFUSED),
    (one_of("<5", "5-10"), '">5"', REFUSED),
    (one_of("<5", "5-10"), '"5"', REFUSED),
    (one_of("<5", "5-10"), '"510"', REFUSED),
    (one_of(">=", "<"), '"<="', REFUSED),
    (one_of("=="), '"!="', REFUSED),
    (one_of("1.5", "2.0"), '"15"', REFUSED),
    (one_of("15", "20"), '"1.5"', REFUSED),
    (one_of("1.0", "1.10"), '"11.0"', REFUSED),
    (one_of("v1.1"), '"v11"', REFUSED),
    (one_of("C++", "Java"), '"C#"', REFUSED),
    (one_of("C++", "Java"), '"C"', REFUSED),
    (one_of("C", "Java"), '"C++"', REFUSED),
    (one_of("C++", "Java"), '"c++"', "C++"),
    (one_of("-created", "name"), '"created"', REFUSED),
    (one_of("created", "name"), '"-created"', REFUSED),
    (one_of("!admin"), '"admin"', REFUSED),
    (one_of("10%", "20%"), '"10"', REFUSED),
    (one_of("10", "20"), '"10%"', REFUSED),
    (one_of("$5"), '"5"', REFUSED),
    (one_of("5 $"), '"5 \\u20ac"', REFUSED),
    (one_of("A+", "B"), '"A-"', REFUSED),
    (one_of("A-", "B"), '"A"', REFUSED),
    (one_of("#1"), '"1"', REFUSED),
    (one_of("*"), '"+"', REFUSED),
    (one_of("a/b"), '"ab"', REFUSED),
    (one_of("a-b", "a+b"), '"a b"', REFUSED),
    (one_of("read-write", "read+write"), '"read write"', REFUSED),
    (one_of("2024-11-2"), '"2024-1-12"', REFUSED),
    (one_of("20240102"), '"2024-01-02"', REFUSED),
    (one_of("1-5", "6-10"), '"15"', REFUSED),
    (one_of("1 5"), '"15"', REFUSED),
    (one_of("1_000"), '"1000"', REFUSED),
    (one_of("1_000"), '"1 000"', "1_000"),
    (one_of("UTC-5"), '"UTC 5"', REFUSED),
    (one_of("UTC-5", "UTC+5"), '"utc5"', REFUSED),
    (one_of("floor 1"), '"floor-1"', REFUSED),
    (one_of("\u00b2", "2"), '"\\uff12"', REFUSED),
    (one_of("m2"), '"m\\u00b2"', REFUSED),
    (one_of("Ma\u00dfe"), '"Masse"', REFUSED),
    (one_of("MW"), '"mW"', REFUSED),
    (one_of("MB", "GB"), '"Mb"', REFUSED),
    (one_of("Mb", "Gb"), '"MB"', REFUSED),
    (one_of("m", "h"), '"M"', REFUSED),
    (one_of("1m", "1h"), '"1M"', REFUSED),
    (one_of("1M"), '"1m"', REFUSED),
    (one_of("mHz"), '"MHz"', REFUSED),
    (one_of("kg", "lb"), '"KG"', "kg"),
    (one_of("kg", "lb"), '"Kg"', "kg"),
    (one_of("C", "F"), '"c"', "C"),
    (one_of("a", "b"), '"A"', "a"),
    (one_of("S", "M", "L"), '"m"', "M"),
    (one_of("kWh"), '"KWH"', "kWh"),
    (one_of("ios", "android"), '"iOS"', "ios"),
    (one_of("home-delivery", "pick_up"), '"Home Delivery"', "home-delivery"),
    (one_of("home-delivery", "pick_up"), '"PICK-UP"', "pick_up"),
    (one_of("home-delivery", "pick_up"), '" pickUp "', "pick_up"),
    (one_of("top_10"), '"Top 10"', "top_10"),
    (one_of("x-axis", "y-axis"), '"X axis"', "x-axis"),
    (one_of("a b", "a-b"), '"A_B"', REFUSED),
    (one_of("yes"), '"yes!"', REFUSED),
    (one_of("yes"), "\"'yes'\"", REFUSED),
    (one_of("Yes", "YES"), '"yes"', REFUSED),
    (one_of("3.1", "3.10"), "3.10", "3.10"),
    (one_of("3.1", "3.10"), "3.1", "3.1"),
    (one_of("1.0", "2.0"), "1", REFUSED),
    (one_of("1", "2"), "1.0", REFUSED),
    (one_of("one_two_three"), '"one     two     three"', "one_two_three"),
    (one_of("one_two_three"), '"' + "one" + " " * 8 + "two" + " " * 9 + 'three"', REFUSED),
    ({"anyOf": [one_of("all"), array_of(TEXT)]}, '"All"', REFUSED),
    ({"anyOf": [one_of("all"), array_of(TEXT)]}, "5", REFUSED),
    ({"anyOf": [TEXT, array_of(INTEGER)]}, "0", REFUSED),
    ({"anyOf": [BOOLEAN, one_of("TRUE")]}, '"true"', REFUSED),
]

NUMBERS: list[Case] = [
    (INTEGER, '"4.99999999999999999999"', REFUSED),
    (INTEGER, '"5.0000000000000000000001"', REFUSED),
    (INTEGER, '"1e-400"', REFUSED),
    (INTEGER, '"1e400"', REFUSED),
    (INTEGER, '"1e3"', 1000),
    (INTEGER, '"1e15"', 10**15),
    (INTEGER, '"1e16"', REFUSED),
    (INTEGER, '"12345678901234567.0"', REFUSED),
    (INTEGER, '"9007199254740993"', 9007199254740993),
    (INTEGER, '"9007199254740993.0"', 9007199254740993),
    (INTEGER, '"1.000"', REFUSED),
    (INTEGER, '"1,000"', REFUSED),
    (INTEGER, '"1_000"', REFUSED),
    (INTEGER, '"0x10"', REFUSED),
    (INTEGER, '"010"', REFUSED),
    (INTEGER, '"+5"', REFUSED),
    (INTEGER, '"5%"', REFUSED),
    (INTEGER, '"$5"', REFUSED),
    (INTEGER, '"#5"', REFUSED),
    (INTEGER, '"5-"', REFUSED),
    (INTEGER, '"(5)"', REFUSED),
    (INTEGER, '"--5"', REFUSED),
    (INTEGER, '"\\u22125"', REFUSED),
    (INTEGER, '"1\\uff12"', REFUSED),
    (INTEGER, '"\\u0661\\u0662"', REFUSED),
    (INTEGER, '"1\\u00b2"', REFUSED),
    (INTEGER, '"\\u00bd"', REFUSED),
    (INTEGER, '"5 6"', REFUSED),
    (INTEGER, '"-7"', -7),
    (NUMBER, '"1e400"', REFUSED),
    (NUMBER, '"1e-400"', REFUSED),
    (NUMBER, '"4.99999999999999999999"', REFUSED),
    (NUMBER, '"12345678901234567890123"', REFUSED),
    (NUMBER, '"0.1"', 0.1),
    (NUMBER, '"1,5"', REFUSED),
    (NUMBER, '"inf"', REFUSED),
    (NUMBER, '"1/2"', REFUSED),
    (TEXT, "3.10", "3.10"),
    (TEXT, "1e5", "1e5"),
    (TEXT, "1E+2", "1E+2"),
    (TEXT, "-0", REFUSED),
    (TEXT, "-0.0", "-0.0"),
    (TEXT, "1e400", REFUSED),
    (TEXT, "100000000000000000000000000000001", "100000000000000000000000000000001"),
    (TEXT, "0.10000000000000000000000000000000000001", REFUSED),
    (INTEGER, '{"value": 9007199254740993.0}', REFUSED),
    ({"anyOf": [TEXT, INTEGER]}, '{"value": 0}', 0),
    (TEXT, "1" + "0" * 5000, REFUSED),
    (TEXT, "2024", "2024"),
    (DATE, "2024", REFUSED),
    # JSON Schema 2020-12, validation vocabulary, section 7.3, and usual names: no number and no boolean has the format.
    *(({"type": "string", "format": each}, sent, REFUSED) for sent in ("5", "1.5", "true") for each in (
        "date-time", "datetime", "timestamp", "date", "time", "duration", "email", "idn-email", "hostname",
        "idn-hostname", "ipv4", "ipv6", "uri", "uri-reference", "url", "iri", "iri-reference", "uuid", "json-pointer",
    )),
    ({"type": "string", "format": "phone"}, "5", "5"),
    ({"anyOf": [{"type": "integer", "maximum": 3}, TEXT]}, "5", "valid"),
    ({"anyOf": [{"type": "integer", "maximum": 3}, {"type": "string"}, {"type": "null"}]}, "5.5", REFUSED),
    ({"anyOf": [{"type": "string", "pattern": "^[a-z]+$"}, INTEGER]}, '"5"', REFUSED),
    ({"anyOf": [INTEGER, array_of(INTEGER)]}, '"5"', REFUSED),
    ({"anyOf": [INTEGER, array_of(NUMBER)]}, "5.5", [5.5]),
    ({"anyOf": [INTEGER, array_of(NUMBER)]}, '"1.000"', REFUSED),
    ({"anyOf": [INTEGER, array_of(NUMBER)]}, '"9007199254740993"', REFUSED),
    ({"type": ["integer", "null"]}, '"null"', None),
    (BOOLEAN, '"TRUE"', True),
    (BOOLEAN, '"1"', REFUSED),
    (BOOLEAN, '"\\uff34rue"', REFUSED),
]  # fmt: skip

ARRAYS: list[Case] = [
    (array_of(TEXT), "\"['red' 'blue']\"", REFUSED),
    (array_of(TEXT), "\"['red', 'blue']\"", ["red", "blue"]),
    (array_of(TEXT), "\"['it\\\\'s']\"", REFUSED),
    (array_of(TEXT), "\"['a\\\\d']\"", REFUSED),
    (array_of(TEXT), "\"[b'red']\"", REFUSED),
    (array_of(TEXT), '"[3.10, 2]"', ["3.10", "2"]),
    (array_of(TEXT), "\"['v', 3.10]\"", ["v", "3.10"]),
    (array_of(INTEGER), '"[0x10, 1_000]"', REFUSED),
    (array_of(INTEGER), '"[0b1]"', REFUSED),
    (array_of(INTEGER), '"[1\\uff12]"', REFUSED),
    (array_of(INTEGER), '"[(5)]"', REFUSED),
    (array_of(INTEGER), '"[2-1]"', REFUSED),
    (array_of(INTEGER), '"[4.99999999999999999999]"', REFUSED),
    (array_of(NUMBER), '"[1e999]"', REFUSED),
    (array_of(NUMBER), '"[1e-999]"', REFUSED),
    (array_of(NUMBER), '"[NaN]"', REFUSED),
    (array_of(NUMBER), '"[1.5, 2]"', [1.5, 2]),
    (array_of(INTEGER), '"(1, 2)"', REFUSED),
    (array_of({"type": ["boolean", "null"]}), '"[True, False, None]"', [True, False, None]),
    (array_of({"type": ["boolean", "null"]}), '"[true, false, null]"', [True, False, None]),
    (array_of(array_of(INTEGER)), '"[(1, 2), (3,), ()]"', [[1, 2], [3], []]),
    (array_of(array_of(INTEGER)), '"[(1, 2), (3)]"', REFUSED),
    (array_of(array_of(INTEGER)), '"[(1, 2,), [3,],]"', [[1, 2], [3]]),
    (array_of(array_of(INTEGER)), '"[(1,, 2)]"', REFUSED),
    (array_of(array_of(INTEGER)), '"[(,)]"', REFUSED),
    (array_of(array_of(INTEGER)), '"[(1, 2]]"', REFUSED),
    (array_of(array_of(array_of(INTEGER))), '"[((1,), (2,)), ((3,),)]"', [[[1], [2]], [[3]]]),
    (array_of(INTEGER), '"{1, 2}"', REFUSED),
    (array_of(INTEGER), '"15, 20, 25"', [15, 20, 25]),
    (array_of(INTEGER), '"15,20,25"', [15, 20, 25]),
    (array_of(INTEGER), '"15, 20.5"', REFUSED),
    (array_of(INTEGER), '"1,234"', REFUSED),
    (array_of(INTEGER), '"1,234,567"', REFUSED),
    (array_of(INTEGER), '"1, 234"', [1, 234]),
    (array_of(INTEGER), '"15, 20,"', REFUSED),
    (array_of(INTEGER), '"15, 20, many"', REFUSED),
    (array_of(INTEGER), '"15,20, 25"', REFUSED),
    (array_of(NUMBER), '"1.5, 2.5, 3"', [1.5, 2.5, 3]),
    (array_of(NUMBER), '"1,5"', REFUSED),
    (array_of(NUMBER), '"1, 5"', [1, 5]),
    (array_of(BOOLEAN), '"true, false"', [True, False]),
    (array_of(one_of("a", "b")), '"A, b"', ["a", "b"]),
    (array_of(one_of("a", "b", "a, b")), '"a, b"', REFUSED),
    (array_of(one_of("a", "b", "a, b")), '"A, b"', REFUSED),
    (array_of(one_of("food and drink")), '"Food and Drink"', ["food and drink"]),
    (array_of(one_of("a", "A")), '"A, a"', ["A", "a"]),
    (array_of(TEXT), '"a, b"', REFUSED),
    (array_of(TEXT), '"a; b"', REFUSED),
    (array_of(TEXT), '"a|b"', REFUSED),
    (array_of(TEXT), '"red and blue"', REFUSED),
    (array_of(TEXT), '"\\u7ea2\\u3001\\u84dd"', REFUSED),
    (array_of(TEXT), '"New York"', ["New York"]),
    (array_of(TEXT), '"null"', REFUSED),
    *(
        (array_of(TEXT), f'"{each}"', REFUSED)
        for each in (  # nothing
            "none",
            "None",
            "nil",
            "N/A",
            "n/a",
            "NA",
            "-",
            "--",
            "...",
            "?",
            "unknown",
            "undefined",
            "nothing",
            "empty",
        )
    ),
    *(
        (array_of(TEXT), sent, REFUSED)
        for sent in (  # several
            '"a.py b.py"',
            '"src/a src/b"',
            '"\\"a\\" \\"b\\""',
            "\"'a b' 'c'\"",
            '"- a"',
            '"* a"',
            '"1. a"',
            '"a -> b"',
            '"a => b"',
            '"rm -rf /x"',
            '"ls -l"',
            '"a@x.org b@x.org"',
            '"k=v l=w"',
            '"red + blue"',
            '"red / blue"',
            '"red then blue"',
            '"red vs. blue"',
            '"red \\u2022 blue"',
            '"red \\u2192 blue"',
            '"https://x.org https://y.org"',
        )
    ),
    *(
        (array_of(TEXT), f'"{each}"', [each])
        for each in (
            "a.py",
            "src/a",
            "-l",
            "ann@x.org",
            "k=v",
            "https://x.org/a",
            "Ann Smith",
            "na\u00efve",
            "Who am I?",
            "C++",
            "5",
            "nonesuch",
        )
    ),
    (array_of(one_of("unknown", "known")), '"unknown"', ["unknown"]),
    (array_of(one_of("-", "+")), '"-"', ["-"]),
    (array_of({"anyOf": [TEXT, one_of("")]}), '""', REFUSED),
    (array_of(TEXT), "5", REFUSED),
    ({"type": "object", "properties": {"a": INTEGER}}, '"{\\"a\\": 1, \\"a\\": 2}"', REFUSED),
    (array_of(INTEGER), '{"type": "array", "value": [1]}', [1]),
    (INTEGER, '{"type": "percent", "value": 5}', REFUSED),
    (INTEGER, '{"value": 5, "unit": "kg"}', REFUSED),
    (INTEGER, '{"not": 5}', REFUSED),
    (INTEGER, '{"x": 5}', 5),
]

PATH = open_to("path", path=TEXT)
WRAPPED: list[Case] = [
    *((PATH, f'{{"{key}": {{"path": "/x"}}}}', REFUSED) for key in (
        "dry_run", "preview", "undo", "not", "simulate", "test", "draft", "except", "if", "later", "x", "data", "body",
        "payload", "function", "call",
    )),
    *((PATH, f'{{"{key}": {{"path": "/x"}}}}', {"path": "/x"}) for key in (
        "arguments", "args", "parameters", "params", "input", "kwargs", "tool_input", "toolArgs", "_", "", "properties",
    )),
    (PATH, '{"arguments": {"params": {"path": "/x"}}}', {"path": "/x"}),
    (PATH, '{"arguments": "{\\"path\\": 3.10}"}', {"path": "3.10"}),
    (PATH, '{"arguments": {"path": "/x"}, "dry_run": true}', REFUSED),
    (PATH, '{"arguments": {"dry_run": {"path": "/x"}}}', REFUSED),
    (PATH, '{"name": "probe", "arguments": {"path": "/x"}}', {"path": "/x"}),
    (PATH, '{"name": "keep", "arguments": {"path": "/x"}}', REFUSED),
    (PATH, '{"type": "function", "id": "c1", "name": "functions.probe", "arguments": {"path": "/x"}}', {"path": "/x"}),
    (PATH, '{"type": "dry_run", "arguments": {"path": "/x"}}', REFUSED),
    (PATH, '{"function": {"name": "probe", "arguments": {"path": "/x"}}}', {"path": "/x"}),
    (PATH, '{"function": {"name": "keep", "arguments": {"path": "/x"}}}', REFUSED),
    (PATH, '{"\\"path\\": \\"/x\\"": ""}', {"path": "/x"}),
    (PATH, '{"\\"path\\": \\"/x\\"": false}', REFUSED),
    (PATH, '{"\\"path\\": \\"/x\\"": 0}', REFUSED),
    (open_to("n", n=INTEGER), '{"n": "5", "n": "6"}', REFUSED),
    (open_to("path", path=TEXT), '{"_": "{\\"path\\": 1}"}', REFUSED),
    (closed_to(path=INTEGER), '{"Path": 1, "params_path": 2}', REFUSED),
    (closed_to("path", path=TEXT), '{"Path": "a", "paths": "b"}', REFUSED),
    (closed_to(x_11=INTEGER), '{"x_11": null, "x11": 1}', REFUSED),
]  # fmt: skip

QUOTAS = {"type": "object", "additionalProperties": INTEGER}
NOTHING: list[Case] = [  # under a name that the model made up, nothing is no parameter that may be left out
    *((schema, form.replace("NOTHING", nothing), REFUSED) for nothing in ("null", '""', '" "') for schema, form in (
        (QUOTAS, '{"ann": NOTHING}'),
        (open_to(quotas=QUOTAS), '{"quotas": {"ann": NOTHING, "bob": 5}}'),
        (open_to(each=array_of(QUOTAS)), '{"each": [{"ann": NOTHING}]}'),
        ({"type": "object", "patternProperties": {"^x": INTEGER}}, '{"x1": NOTHING}'),
        (open_to(lists={"type": "object", "additionalProperties": array_of(INTEGER)}), '{"lists": {"a": NOTHING}}'),
    )),
    *((open_to(mode=form), f'{{"mode": {nothing}}}', REFUSED)  # one of the values to choose from means nothing too
        for nothing in ("null", '""', '" "', '"Null"', '"NULL "')
        for form in (
            one_of("none", "all"), one_of("None", "gzip"), one_of("null", "x"), one_of("NULL", "x"), one_of("nil", 1),
            {"anyOf": [one_of("none"), INTEGER]},
        )),
    (open_to(mode=one_of("some", "all")), '{"mode": null}', {}),
    (open_to(mode={"enum": ["none", None]}), '{"mode": "null"}', REFUSED),
    (open_to(quotas=QUOTAS), '{"quotas": null}', {}),
    *((open_to(who={"anyOf": [array_of(TEXT), {"type": "null"}], **rest}), f'{{"who": {sent}}}', meant)
        for rest, sent, meant in (
        ({"default": ["me"]}, '""', REFUSED),  # the default, or null
        ({"default": ["me"]}, '" "', REFUSED),
        ({"default": ["me"]}, '"null"', {"who": None}),
        ({"default": None}, '""', {}),
        ({}, '""', {}),
    )),
    (open_to(o=open_to(n=INTEGER)), '{"o": {"n": null}}', {"o": {}}),
    (open_to(quotas={"type": "object", "additionalProperties": {"type": ["integer", "null"]}}),
        '{"quotas": {"ann": "null"}}', {"quotas": {"ann": None}}),
]  # fmt: skip

BASE = closed_to("base", base=INTEGER, height=INTEGER)
NAMES: list[Case] = [
    (closed_to("n", n=INTEGER, _class=TEXT), '{"n": 1, "class": "a"}', {"n": 1, "_class": "a"}),
    (closed_to("n", n=INTEGER, from_=TEXT), '{"n": 1, "from": "a"}', {"n": 1, "from_": "a"}),
    (closed_to("n", n=INTEGER, unit=TEXT), '{"n": 1, "Unit": "a"}', {"n": 1, "unit": "a"}),
    (closed_to("n", n=INTEGER, file_path=TEXT), '{"n": 1, "filePath": "a"}', {"n": 1, "file_path": "a"}),
    (closed_to("n", n=INTEGER, _class=TEXT, class_=TEXT), '{"n": 1, "class": "a"}', REFUSED),
    (closed_to("n", n=INTEGER, _class=TEXT), '{"n": 1, "class": "a", "Class": "b"}', REFUSED),
    (closed_to("n", n=INTEGER, _class=TEXT), '{"n": 1, "class": "a", "_class": "b"}', REFUSED),
    (closed_to("n", n=INTEGER, tag=TEXT), '{"n": 1, "tags": "a"}', REFUSED),
    (closed_to("x_1_1", x_1_1=INTEGER), '{"x_11": 1}', REFUSED),
    (closed_to("price<", **{"price<": INTEGER}), '{"price>": 1}', REFUSED),
    (closed_to("filter", filter=TEXT), '{"$filter": "a"}', REFUSED),
    (closed_to("name", name=TEXT), '{"-name": "a"}', REFUSED),
    (closed_to("v1.5", **{"v1.5": INTEGER}), '{"v15": 1}', REFUSED),
    (closed_to("min", "n", min=INTEGER, n=INTEGER), '{"mins": 1, "n": 2}', REFUSED),
    (closed_to("file", "n", file=TEXT, n=INTEGER), '{"files": "a", "n": 2}', {"file": "a", "n": 2}),
    (closed_to("file", "n", file=TEXT, n=INTEGER), '{"files": "*", "n": 2}', REFUSED),  # which of them
    (closed_to("file", "n", file=TEXT, n=INTEGER), '{"files": "a?.py", "n": 2}', REFUSED),
    (closed_to("page", "n", page=INTEGER, n=INTEGER), '{"pages": 3, "n": 2}', REFUSED),  # how many, or which one
    (closed_to("hour", "n", hour=INTEGER, n=INTEGER), '{"hours": 3, "n": 2}', REFUSED),
    (closed_to("pages", "n", pages=INTEGER, n=INTEGER), '{"page": 3, "n": 2}', REFUSED),
    (closed_to("hour", "n", hour=NUMBER, n=INTEGER), '{"hours": 1.5, "n": 2}', REFUSED),
    (closed_to("file", "n", file=TEXT, n=INTEGER), '{"input_file": "a", "n": 2}', REFUSED),
    (closed_to("size", "n", size=INTEGER, n=INTEGER), '{"argsize": 1, "n": 2}', REFUSED),
    (closed_to("size", "n", size=INTEGER, n=INTEGER), '{"params_size": 1, "n": 2}', {"size": 1, "n": 2}),
    *((closed_to("size", "n", size=INTEGER, n=INTEGER), f'{{"{each}": 1, "n": 2}}', {"size": 1, "n": 2}) for each in (
        "PARAMS_size", "Args.size", "arguments-size", "parameters size", "Kwargs_Size",
    )),
    # One name stands for two parameters, at two places: each has its own type.
    (open_to(o=open_to(n=INTEGER), n=TEXT), '{"o": {"n": "5"}, "n": 5}', {"o": {"n": 5}, "n": "5"}),
    (open_to(n=TEXT, o=open_to(n=INTEGER)), '{"n": 5, "o": {"n": "5"}}', {"o": {"n": 5}, "n": "5"}),
    (BASE, '{"__positional_0": "base=6"}', {"base": 6}),
    (BASE, '{"__positional_0": "base=6", "__positional_1": "height=7"}', {"base": 6, "height": 7}),
    (BASE, '{"arg0": "base = 6"}', {"base": 6}),
    (BASE, '{"__positional_0": "base=6", "__positional_1": "base=7"}', REFUSED),
    (BASE, '{"__positional_0": "base=6, height=7"}', REFUSED),
    (BASE, '{"__positional_0": "base==6"}', REFUSED),
    (BASE, '{"__positional_0": "base>=6"}', REFUSED),
    (BASE, '{"__positional_0": "6"}', REFUSED),
    (BASE, '{"__positional_0": "base=6", "dry_run": true}', REFUSED),
    (BASE, '{"note": "base=6"}', REFUSED),
    (closed_to("base", base=TEXT), '{"__positional_0": "base=6"}', {"base": "base=6"}),
    (closed_to("city", "day", city=TEXT, day=TEXT), '{"p0": "city=Oslo", "p1": "day=2"}', REFUSED),
    (closed_to(limit=INTEGER, query=TEXT), '{"__positional_0": "limit=5"}', REFUSED),
]  # fmt: skip
WHOLE = [*WRAPPED, *NOTHING, *NAMES]
ONE = [*CHOICES, *NUMBERS, *ARRAYS]

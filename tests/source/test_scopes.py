"""What a scope binds and does is found wherever it is written, and whatever else the file holds."""

from __future__ import annotations

import ast
import gc

import pytest

from kgate.source.facts import facts_of, parse_source
from kgate.source.scopes import Binder, global_names, stops, word_lines, yields

PADDING = "def before():\n    global g\n    assert (w := 1)\n    yield exit()\n\n"
"""Every construct, in a function that must not count for the one after it."""


def both_ways(source):
    """The last statement, with what its own lines can hold, and with nothing known about them."""
    node = ast.parse(source).body[-1]
    return node, word_lines(source).within(node)


@pytest.mark.parametrize("before", ["", PADDING], ids=["alone", "after others"])
@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("a = b.c = d[0] = 1", {"a"}),
        ("(a, [b, *c]), d = e", {"a", "b", "c", "d"}),
        ("for a, b in c:\n        d += 1\n    else:\n        e: int = 1", {"a", "b", "d", "e"}),
        ("with a as b, c as (d, e):\n        f = 1", {"b", "d", "e", "f"}),
        ("try:\n        a = 1\n    except E as b:\n        c = 1\n    finally:\n        d = 1", {"a", "b", "c", "d"}),
        ("if x:\n        a = 1\n    elif y:\n        b = 1\n    while z: c = 1", {"a", "b", "c"}),
        (
            "match x:\n        case [a, *b]: pass\n        case {'k': c, **d}: e = 1\n        case f: pass",
            set("abcdef"),
        ),
        ("del a\n    def b(): c = 1\n    class d: e = 1", {"a", "b", "d"}),
        ("call(a := 1, [b := 2 for c in d], lambda: (e := 1))", {"a", "b"}),
        ("@dec(a := 1)\n    def b(): pass", {"a", "b"}),
        ("global a\n    a = b = 1", {"b"}),
        ("x[0] = y.z = 1\n    return [a for a in b]", set()),
    ],
)
def test_names_that_a_function_binds(before, body, names):
    node, words = both_ways(f"{before}def f():\n    {body}\n")
    known, unknown = Binder(words), Binder()
    known.visit_all(node.body)
    unknown.visit_all(node.body)
    assert known.names - known.globals == names
    assert unknown.names - unknown.globals == names


@pytest.mark.parametrize("before", ["", PADDING], ids=["alone", "after others"])
@pytest.mark.parametrize(
    ("statement", "stopping"),
    [
        ("raise E", True),
        ("if x: raise E", True),
        ("x = 1; assert x", True),
        ("for a in b:\n    try: pass\n    except E:\n        raise", True),
        ("match x:\n    case 1: assert y", True),
        ("with a:\n    sys.exit(1)", True),
        ("x = a or quit()", True),
        ("\uff45xit()", True),
        ("def f():\n    raise E", False),
        ("x = lambda: exit()", False),
        ("x = 'exit; raise'", False),
        ("if x:\n    y.exit()", False),
    ],
)
def test_whether_a_statement_can_stop(before, statement, stopping):
    node, words = both_ways(f"{before}{statement}\n")
    assert stops(node, words) is stopping
    assert stops(node) is stopping


@pytest.mark.parametrize("before", ["", PADDING], ids=["alone", "after others"])
@pytest.mark.parametrize(
    ("body", "generator"),
    [
        ("yield", True),
        ("x = [(yield)]", True),
        ("yield from x", True),
        ("def g():\n        yield", False),
        ("return 'yield'", False),
        ("return lambda: (yield)", False),
    ],
)
def test_whether_a_function_is_a_generator(before, body, generator):
    node, words = both_ways(f"{before}def f():\n    {body}\n")
    assert yields(node, words) is generator
    assert yields(node) is generator


def test_global_names_of_inner_functions_count():
    node, words = both_ways(PADDING + "def f():\n    def g():\n        if x: global a, b\n")
    assert global_names(node, words) == global_names(node) == {"a", "b"}


@pytest.mark.parametrize("text", ["x = 1\n", PADDING, "x = (\n", "<<<<<<< a\n=======\n>>>>>>> b\n", "x = '\0'\n"])
def test_facts_of_a_parsed_file_are_those_of_its_bytes(text):
    raw = text.encode()
    parsed = parse_source(raw)
    assert (parsed.tree is None) == (parsed.error is not None)
    assert facts_of(raw, parsed) == facts_of(raw)
    assert facts_of(raw).error == parsed.error


def test_a_file_is_parsed_once_for_both(monkeypatch):
    raw = PADDING.encode()
    parsed = parse_source(raw)
    monkeypatch.setattr(ast, "parse", None)
    assert [item.name for item in facts_of(raw, parsed).definitions] == ["before"]


@pytest.mark.parametrize("raw", [b"x = 1\n", b"x = (\n"])
def test_garbage_collection_goes_on_afterwards(raw):
    assert gc.isenabled()
    facts_of(raw)
    assert gc.isenabled()
    gc.disable()
    try:
        facts_of(raw)
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "source",
    [
        "x = " + " + ".join(["1"] * 600),
        "f = lambda a: " + " + ".join(["a"] * 600),
        "if a: pass\n" + "elif a: pass\n" * 300,
        "x = a" + ".b(1)" * 300,
    ],
    ids=["sum", "sum in a lambda", "elif", "chain of calls"],
)
def test_long_code_is_not_deep_code(source):
    assert facts_of(source.encode()).error is None

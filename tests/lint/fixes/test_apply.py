"""Edits of every kind: what they make of a source, what they leave alone, and when they are refused."""

from __future__ import annotations

import codecs
from collections.abc import Callable

import pytest

from kgate.lint.fixes import apply
from kgate.source.records import Edit, Fix


def at(source: str, snippet: str, kind: str, text: str = "", name: str = "", nth: int = 0) -> Edit:
    """An edit of the node that the nth occurrence of a snippet is."""
    start = -1
    for _ in range(nth + 1):
        start = source.index(snippet, start + 1)
    end = start + len(snippet)

    def place(offset: int) -> tuple[int, int]:
        before = source[:offset].replace("\r\n", "\n")
        return before.count("\n") + 1, len(before) - before.rfind("\n")

    return Edit(kind, *place(start), *place(end), text, name)


def fixed(source: str, *edits: Edit) -> str:
    found = apply(source.encode(), [Fix("Mend it", True, edits)])
    assert found.refused == ()
    return found.source.decode()


def reason(source: str, *edits: Edit) -> str:
    found = apply(source.encode(), [Fix("Mend it", True, edits)])
    assert found.applied == ()
    assert found.source == source.encode()
    return found.refused[0][1]


def changed(source: str, snippet: str, kind: str, text: str = "", name: str = "", nth: int = 0) -> str:
    return fixed(source, at(source, snippet, kind, text, name, nth))


# Expressions


@pytest.mark.parametrize(
    ("source", "snippet", "new", "result"),
    [
        ("x = a * b\n", "a", "c", "x = c * b\n"),
        ("x = a * b\n", "a", "c + d", "x = (c + d) * b\n"),
        ("x = a + b\n", "a", "c * d", "x = c * d + b\n"),
        ("x = (a + b) * c\n", "a + b", "d", "x = (d) * c\n"),
        ("f(a)(b)\n", "f", "g or h", "(g or h)(a)(b)\n"),
        ("f(a)\n", "a", "b, c", "f((b, c))\n"),
        ("f(a)\n", "a", "(yield)", "f((yield))\n"),
        ("x = 1\n", "1", "1, 2", "x = (1, 2)\n"),
        ("x = 1, 2\n", "1, 2", "3, 4", "x = 3, 4\n"),
        ("if x:\n    pass\n", "x", "(y := 1)", "if (y := 1):\n    pass\n"),
        ("if x:\n    pass\n", "x", "y := 1", "if (y := 1):\n    pass\n"),
        ("x = all(i for i in y)\n", "(i for i in y)", "z", "x = all(z)\n"),
        ("x = a\n", "a", "b\n+ c", "x = (b\n+ c)\n"),
        ("assert x, y\n", "x", "x, y", "assert (x, y), y\n"),
        ("x = f(*a)[b:c]\n", "b", "lambda: d", "x = f(*a)[lambda: d:c]\n"),
        ("é = 'ß' + a\n", "a", "b", "é = 'ß' + b\n"),
        ("x = f'{a}' + b\n", "f'{a}'", "c", "x = c + b\n"),
    ],
)
def test_an_expression_is_replaced(source: str, snippet: str, new: str, result: str) -> None:
    assert changed(source, snippet, "replace", new) == result


@pytest.mark.parametrize(
    ("source", "snippet", "opening", "closing", "result"),
    [
        ("x = i * n\n", "i", "", ".to(tl.int64)", "x = i.to(tl.int64) * n\n"),
        ("x = i * n\n", "i * n", "", ".to(tl.int64)", "x = (i * n).to(tl.int64)\n"),
        ("x = (a + b) * c\n", "a + b", "", ".to(tl.int64)", "x = (a + b).to(tl.int64) * c\n"),
        ("x = (a + b) * c\n", "a + b", "tl.cast(", ", tl.int64)", "x = (tl.cast(a + b, tl.int64)) * c\n"),
        ("x = a * b\n", "a", "1 + ", "", "x = (1 + a) * b\n"),
        ("x = a ** b\n", "b", "-", "", "x = a ** -b\n"),
        ("x = 1 .real\n", "1", "", ".imag", "x = (1).imag .real\n"),
        ("x = all(i for i in y)\n", "(i for i in y)", "list(", ")", "x = all(list(i for i in y))\n"),
        ("x = (  # why\n    a + b\n)\n", "a + b", "", ".sum()", "x = (  # why\n    a + b\n).sum()\n"),
        ("x = a, b\n", "a, b", "f(", ")", "x = f((a, b))\n"),
    ],
)
def test_an_expression_is_wrapped(source: str, snippet: str, opening: str, closing: str, result: str) -> None:
    assert changed(source, snippet, "wrap", opening, closing) == result


def test_an_expression_inside_one_that_is_wrapped_too_by_one_fix() -> None:
    source = "x = a * b\n"
    edits = (
        at(source, "a * b", "wrap", "f(", ")"),
        at(source, "a", "wrap", "g(", ")"),
        at(source, "b", "replace", "c + d"),
    )
    assert fixed(source, *edits) == "x = f(g(a) * (c + d))\n"


@pytest.mark.parametrize(
    ("source", "edit", "why"),
    [
        ("x = a + b\n", Edit("replace", 1, 5, 1, 8, "c"), "exactly"),
        ("x = a\n", Edit("replace", 1, 5, 1, 99, "c"), "no 1:99"),
        ("x = a\n", Edit("replace", 7, 1, 7, 2, "c"), "no 7:1"),
        ("x = a\n", Edit("replace", 1, 5, 1, 6, "b) + (c"), "is no expression"),
        ("x = a\n", Edit("replace", 1, 5, 1, 6, ""), "is no expression"),
        ("x = a\n", Edit("replace", 1, 5, 1, 6, "a"), "changes nothing"),
        ("x = (a +  # why\n  b)\n", Edit("replace", 1, 6, 2, 4, "c"), "lose the comment '# why'"),
        ("x = f'{a}'\n", Edit("replace", 1, 8, 1, 9, "b"), "formatted string"),
        ("match a:\n    case b.c:\n        d\n", Edit("replace", 2, 10, 2, 13, "e"), "inside a pattern"),
        ("x.a = 1\n", Edit("replace", 1, 1, 1, 4, "f()"), "no valid Python"),
        ("x.a.b\n", Edit("replace", 1, 3, 1, 4, "c"), "exactly"),
        ("x = a\n", Edit("mend", 1, 5, 1, 6, "b"), "no edit of kind 'mend'"),
        ("x = = a\n", Edit("replace", 1, 7, 1, 8, "b"), "no valid Python"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused(source: str, edit: Edit, why: str) -> None:
    assert why in reason(source, edit)


def test_a_fix_without_edits_is_refused() -> None:
    assert reason("x = 1\n") == "it has no edits"


def test_a_fix_is_made_as_a_whole_or_not_at_all() -> None:
    source = "x = a + b\n"
    assert "exactly" in reason(source, at(source, "a", "replace", "c"), Edit("replace", 1, 7, 1, 8, "-"))


def test_a_very_long_sum_is_refused_rather_than_overflowing_the_stack() -> None:
    source = "y = a\nx = " + " + ".join(["a"] * 1500) + "\n"
    assert "nested too deeply" in reason(source, at(source, "a", "replace", "b"))


# Arguments


@pytest.mark.parametrize(
    ("source", "call", "result"),
    [
        ("f()\n", "f()", "f(other=0)\n"),
        ("f(a)\n", "f(a)", "f(a, other=0)\n"),
        ("f(a, b,)\n", "f(a, b,)", "f(a, b, other=0,)\n"),
        ("f(a, other=None)\n", "f(a, other=None)", "f(a, other=0)\n"),
        ("f(other=(1), b=2)\n", "f(other=(1), b=2)", "f(other=0, b=2)\n"),
        ("f(*a)\n", "f(*a)", "f(*a, other=0)\n"),
        ("f(x for x in y)\n", "f(x for x in y)", "f((x for x in y), other=0)\n"),
        ("(f)(a)\n", "(f)(a)", "(f)(a, other=0)\n"),
        ("f[g](a)(b)\n", "f[g](a)", "f[g](a, other=0)(b)\n"),
        ("f(\n    a,\n    b,\n)\n", "f(\n    a,\n    b,\n)", "f(\n    a,\n    b,\n    other=0,\n)\n"),
        ("f(\n    a,\n    b\n)\n", "f(\n    a,\n    b\n)", "f(\n    a,\n    b,\n    other=0\n)\n"),
        ("f(\n\ta,  # c\n)\n", "f(\n\ta,  # c\n)", "f(\n\ta,  # c\n\tother=0,\n)\n"),
        ("f(\n    a  # c\n)\n", "f(\n    a  # c\n)", "f(\n    a,  # c\n    other=0\n)\n"),
        ("f(\n    a, b\n)\n", "f(\n    a, b\n)", "f(\n    a, b, other=0\n)\n"),
        ("f(a,\n  b)\n", "f(a,\n  b)", "f(a,\n  b,\n  other=0)\n"),
        ("f(  # c\n)\n", "f(  # c\n)", "f(other=0  # c\n)\n"),
        ("f(a, # )\n)\n", "f(a, # )\n)", "f(a, other=0, # )\n)\n"),
    ],
)
def test_an_argument_is_set_in_the_style_of_the_call(source: str, call: str, result: str) -> None:
    assert changed(source, call, "set-argument", "0", "other") == result


def test_a_value_that_needs_parentheses_gets_them() -> None:
    assert changed("f(a)\n", "f(a)", "set-argument", "1, 2", "shape") == "f(a, shape=(1, 2))\n"


def test_several_arguments_are_set_at_once() -> None:
    source = "f(\n    a\n)\n"
    call = "f(\n    a\n)"
    edits = (at(source, call, "set-argument", "0", "x"), at(source, call, "set-argument", "1", "y"))
    assert fixed(source, *edits) == "f(\n    a,\n    x=0,\n    y=1\n)\n"


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("f(a, old=1, b=2)\n", "f(a, b=2)\n"),
        ("f(a, old=1)\n", "f(a)\n"),
        ("f(a, old=1,)\n", "f(a,)\n"),
        ("f(old=1)\n", "f()\n"),
        ("f(old=1, )\n", "f( )\n"),
        ("f(\n    a,\n    old=1,  # gone\n    # about b\n    b,\n)\n", "f(\n    a,\n    # about b\n    b,\n)\n"),
        ("f(\n    a,  # about a\n    old=1\n)\n", "f(\n    a  # about a\n)\n"),
        ("f(\n    a,\n    old=1,\n)\n", "f(\n    a,\n)\n"),
        ("f(\n    old=1,\n    b,\n)\n", "f(\n    b,\n)\n"),
        ("f(a,\n  old=1)\n", "f(a)\n"),
    ],
)
def test_an_argument_is_removed_with_its_comma(source: str, result: str) -> None:
    assert changed(source.replace("b,", "b=b,"), source.replace("b,", "b=b,")[:-1], "remove-argument", "", "old") == (
        result.replace("b,", "b=b,")
    )


def test_two_arguments_are_removed_at_once() -> None:
    for source, result in (
        ("f(a, x=1, y=2)\n", "f(a)\n"),
        ("f(x=1, y=2)\n", "f()\n"),
        ("f(x=1, y=2, z=3)\n", "f(z=3)\n"),
    ):
        edits = [at(source, source[:-1], "remove-argument", "", name) for name in "xy"]
        assert fixed(source, *edits) == result


def test_an_argument_set_for_one_that_is_removed_takes_its_place() -> None:
    source = "tl.dot(a, b, allow_tf32=False, out_dtype=d)\n"
    call = source[:-1]
    edits = (
        at(source, call, "remove-argument", "", "allow_tf32"),
        at(source, call, "set-argument", '"ieee"', "input_precision"),
    )
    assert fixed(source, *edits) == 'tl.dot(a, b, input_precision="ieee", out_dtype=d)\n'


@pytest.mark.parametrize(
    ("source", "snippet", "kind", "name", "why"),
    [
        ("f(a, **kw)\n", "f(a, **kw)", "set-argument", "other", "hands on **kw, which may hold other"),
        ("f(a)\n", "f(a)", "remove-argument", "other", "no argument other="),
        ("f(a)\n", "a", "set-argument", "other", "no call"),
        ("f(a)\n", "f(a)", "set-argument", "oth er", "no name of an argument"),
        ("f(other=[  # why\n])\n", "f(other=[  # why\n])", "set-argument", "other", "lose the comment"),
    ],
)
def test_an_argument_that_cannot_be_changed_is_refused(
    source: str, snippet: str, kind: str, name: str, why: str
) -> None:
    assert why in reason(source, at(source, snippet, kind, "0", name))


def test_a_keyword_and_a_parameter_are_replaced() -> None:
    assert changed("f(a, old=1, b=2)\n", "old=1", "replace", "new=2") == "f(a, new=2, b=2)\n"
    assert changed("def f(a, B: int = 1): ...\n", "B: int", "replace", "B: tl.constexpr") == (
        "def f(a, B: tl.constexpr = 1): ...\n"
    )


# Statements

BODY = "def f(x):\n    if x:\n        return 1  # one\n    return 2\n"


def test_a_statement_is_put_before_and_after_another() -> None:
    assert changed(BODY, "return 1", "insert-before", "x = 1") == BODY.replace("return 1", "x = 1\n        return 1")
    assert changed(BODY, "return 1", "insert-after", "x = 1") == BODY.replace("# one", "# one\n        x = 1")


def test_several_statements_are_put_in_with_the_indentation_of_the_file() -> None:
    source = "def f(x):\n\treturn 1\n"
    text = 'if x:\n    y = """\n    kept\n"""\n\nz = 2\n'
    assert changed(source, "return 1", "insert-before", text) == (
        'def f(x):\n\tif x:\n\t\ty = """\n    kept\n"""\n\n\tz = 2\n\treturn 1\n'
    )


def test_a_statement_goes_before_the_decorators_and_after_the_body() -> None:
    source = "@a\n@b\ndef f():\n    pass  # end\nx = 1\n"
    definition = "def f():\n    pass"
    assert changed(source, definition, "insert-before", "y = 1") == "y = 1\n" + source
    assert changed(source, definition, "insert-after", "y = 1") == source.replace("# end\n", "# end\ny = 1\n")


def test_a_statement_after_the_last_line_leaves_its_ending_as_it_was() -> None:
    assert changed("x = 1", "x = 1", "insert-after", "y = 2") == "x = 1\ny = 2"


def test_decorators() -> None:
    source = "class A:\n    @a\n    # note\n    def f(self):\n        pass\n"
    definition = "def f(self):\n        pass"
    assert changed(source, definition, "add-decorator", "b(1)") == source.replace("    def", "    @b(1)\n    def")
    assert changed(source, definition, "add-decorator", "@b", "top") == source.replace("    @a", "    @b\n    @a")
    assert changed("async def f(): ...\n", "async def f(): ...", "add-decorator", "b") == "@b\nasync def f(): ...\n"


@pytest.mark.parametrize(
    ("source", "snippet", "result"),
    [
        (BODY, "return 2", BODY.replace("    return 2\n", "")),
        (BODY, "return 1", BODY.replace("return 1", "pass")),
        ("a = 1\nb = 2", "b = 2", "a = 1\n"),
        ("a = 1; b = 2; c = 3\n", "b = 2", "a = 1; c = 3\n"),
        ("a = 1; b = 2\n", "b = 2", "a = 1\n"),
        ("if x: a = 1\n", "a = 1", "if x: pass\n"),
        ("@a\ndef f():\n    pass\n\nx = 1\n", "def f():\n    pass", "\nx = 1\n"),
        ("# head\nimport a  # noqa\n", "import a", "# head\n"),
        ("x = f(\n    1,\n)\ny = 1\n", "x = f(\n    1,\n)", "y = 1\n"),
    ],
)
def test_a_statement_is_removed(source: str, snippet: str, result: str) -> None:
    assert changed(source, snippet, "remove") == result


def test_pass_is_left_where_two_removals_empty_a_body() -> None:
    source = "def f():\n    a = 1\n    b = 2\n"
    assert fixed(source, at(source, "a = 1", "remove"), at(source, "b = 2", "remove")) == "def f():\n    pass\n"
    found = apply(source.encode(), [Fix(name, True, (at(source, name, "remove"),)) for name in ("a = 1", "b = 2")])
    assert found.source == b"def f():\n    pass\n"


def test_a_statement_is_replaced() -> None:
    assert changed(BODY, "return 1", "replace", "x = 1\nreturn x") == BODY.replace(
        "return 1", "x = 1\n        return x"
    )
    assert changed("f(x)\n", "f(x)", "replace", "assert x") == "assert x\n"
    assert changed("a = 1; b = 2\n", "b = 2", "replace", "c = 3") == "a = 1; c = 3\n"


ELIF = "if a:\n    x\nelif b:\n    y\n"


@pytest.mark.parametrize(
    ("source", "snippet", "kind", "text", "why"),
    [
        (ELIF, "elif b:\n    y", "insert-before", "z = 1", "elif"),
        (ELIF, "elif b:\n    y", "insert-after", "z = 1", "elif"),
        (ELIF, "elif b:\n    y", "remove", "", "elif"),
        ("if a: b = 1\n", "b = 1", "insert-before", "z = 1", "shares its line"),
        ("a = 1; b = 1\n", "a = 1", "insert-after", "z = 1", "shares its line"),
        ("a = 1\n", "a = 1", "insert-after", "z = = 1", "no statement"),
        ("a = 1\n", "a = 1", "add-decorator", "b", "no definition"),
        ("def f(): ...\n", "def f(): ...", "add-decorator", "b c", "no decorator"),
        ("a = 1\n", "a =", "remove", "", "exactly"),
    ],
)
def test_a_statement_that_cannot_be_changed_is_refused(
    source: str, snippet: str, kind: str, text: str, why: str
) -> None:
    assert why in reason(source, at(source, snippet, kind, text))


@pytest.mark.parametrize(
    "expected",
    [
        '"""Doc."""\nfrom __future__ import annotations\n\nimport a\n+import triton\n\nx = 1\nimport late\n',
        '"""Doc."""\n+\n+import triton\n\nx = 1\n',
        "from __future__ import annotations\n+import triton\nx = 1\n",
        "#!/usr/bin/env python\n# Copyright\n+import triton\n+\nx = 1\n",
        "# Copyright\n\n+import triton\n+\n# about x\nx = 1\n",
        "from a import (\n    b,\n)  # c\n+import triton\nx = 1\n",
        "import triton.language as tl\n+import triton\nx = 1\n",
        "if a:\n    import triton\nx = 1\n".replace("if", "+import triton\n+\nif"),
    ],
)
def test_an_import_goes_behind_the_first_imports(expected: str) -> None:
    source = "".join(line for line in expected.splitlines(keepends=True) if not line.startswith("+"))
    assert changed(source, "x", "add-import", "import triton") == expected.replace("+", "")


def test_an_import_that_is_there_is_not_added() -> None:
    source = "import triton\nfrom torch import nn\nx = 1\n"
    for text in ("import triton", "from torch import nn"):
        assert fixed(source, at(source, "1", "replace", "2"), Edit("add-import", 1, 1, 1, 1, text)) == (
            source.replace("1", "2")
        )
    assert changed(source, "x", "add-import", "from torch import nn, fx") == source.replace(
        "nn\n", "nn\nfrom torch import fx\n"
    )


def test_what_is_no_import_is_not_added() -> None:
    assert "no import statement" in reason("x = 1\n", Edit("add-import", 1, 1, 1, 1, "import a; x = 2"))


def test_an_import_in_an_empty_file_and_in_one_of_comments() -> None:
    assert changed("", "", "add-import", "import a") == "import a\n"
    assert changed("# c", "", "add-import", "import a") == "# c\nimport a"
    assert changed("# c\n", "", "add-import", "import a") == "# c\nimport a\n"


# Comments


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("x = 1  # old\ny = 2\n", "x = 1\ny = 2\n"),
        ("x = 1\n    # old\ny = 2\n", "x = 1\ny = 2\n"),
        ("f(\n    a,  # old\n    # b\n)\n", "f(\n    a,\n    # b\n)\n"),
        ("x = 1\n# old", "x = 1\n"),
    ],
)
def test_a_comment_is_removed(source: str, result: str) -> None:
    assert changed(source, "# old", "remove-comment") == result


def test_a_comment_is_replaced() -> None:
    assert changed("x = 1  # old\n", "# old", "replace-comment", "# new") == "x = 1  # new\n"


@pytest.mark.parametrize(
    ("source", "snippet", "text"),
    [("x = '# old'\n", "# old", "# new"), ("x = 1  # old\n", "# ol", "# new"), ("x = 1  # old\n", "# old", "new")],
)
def test_what_is_no_comment_is_refused(source: str, snippet: str, text: str) -> None:
    assert "comment" in reason(source, at(source, snippet, "replace-comment", text))


def cuda(source: str, snippet: str, kind: str, text: str = "") -> bytes:
    return apply(source.encode(), [Fix("Mend it", True, (at(source, snippet, kind, text),))], path="k.cu").source


def test_comments_of_cuda_are_edited_and_nothing_else() -> None:
    assert cuda("int a;  // old\nint b;\n", "// old", "remove-comment") == b"int a;\nint b;\n"
    assert (
        cuda("int a; /* old */ int b;\n", "/* old */", "replace-comment", "/* new */") == b"int a; /* new */ int b;\n"
    )
    for snippet, kind, text in (
        ("int", "replace", "long"),
        ("// ol", "remove-comment", ""),
        ("/* c */", "replace-comment", "// d"),
        ("a", "remove-comment", ""),
    ):
        source = "int a; /* c */ int b;  // old\n"
        assert cuda(source, snippet, kind, text) == source.encode()


# Several fixes


def both(source: str, first: Edit, second: Edit) -> tuple[str, list[str]]:
    found = apply(source.encode(), [Fix("First", True, (first,)), Fix("Second", True, (second,))])
    return found.source.decode(), [why for _, why in found.refused]


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        (("f(a, b)", "set-argument", "0", "x"), ("f(a, b)", "set-argument", "1", "y"), "z = f(a, b, x=0, y=1)\n"),
        (("a", "wrap", "g(", ")"), ("b", "wrap", "h(", ")"), "z = f(g(a), h(b))\n"),
        (("b", "wrap", "h(", ")"), ("f(a, b)", "set-argument", "0", "x"), "z = f(a, h(b), x=0)\n"),
        (("f(a, b)", "set-argument", "0", "x"), ("b", "wrap", "h(", ")"), "z = f(a, h(b), x=0)\n"),
        (("z = f(a, b)", "insert-before", "a = 1", ""), ("a", "replace", "c", ""), "a = 1\nz = f(c, b)\n"),
        (("z = f(a, b)", "insert-after", "a = 1", ""), ("f(a, b)", "wrap", "g(", ")"), "z = g(f(a, b))\na = 1\n"),
        (("a", "add-import", "import q", ""), ("a", "add-import", "import q", ""), "import q\n\nz = f(a, b)\n"),
    ],
)
def test_fixes_of_different_nodes_work_together(first: tuple[str, ...], second: tuple[str, ...], result: str) -> None:
    source = "z = f(a, b)\n"
    assert both(source, at(source, *first), at(source, *second)) == (result, [])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("f(a, b=1)", "set-argument", "0", "b"), ("f(a, b=1)", "set-argument", "2", "b")),
        (("f(a, b=1)", "set-argument", "0", "c"), ("f(a, b=1)", "remove-argument", "", "b")),
        (("f(a, b=1)", "set-argument", "0", "b"), ("1", "wrap", "g(", ")")),
        (("f(a, b=1)", "wrap", "g(", ")"), ("a", "wrap", "h(", ")")),
        (("a", "wrap", "g(", ")"), ("a", "wrap", "h(", ")")),
        (("f(a, b=1)", "wrap", "g(", ")"), ("f(a, b=1)", "set-argument", "0", "c")),
        (("z = f(a, b=1)", "insert-before", "x = 1", ""), ("z = f(a, b=1)", "insert-before", "y = 1", "")),
        (("z = f(a, b=1)", "remove", "", ""), ("a", "replace", "c", "")),
        (("z = f(a, b=1)", "remove", "", ""), ("z = f(a, b=1)", "insert-after", "c = 1", "")),
    ],
)
def test_the_second_of_two_fixes_that_conflict_is_refused(first: tuple[str, ...], second: tuple[str, ...]) -> None:
    source = "z = f(a, b=1)\n"
    alone = fixed(source, at(source, *first))
    assert both(source, at(source, *first), at(source, *second)) == (alone, ["conflicts with 'First'"])


def test_a_refused_fix_stands_in_no_other_ones_way() -> None:
    source = "x.a = f(b)\n"
    found = both(source, at(source, "x.a", "replace", "f()"), at(source, "b", "replace", "c"))
    assert found == ("x.a = f(c)\n", ["the result would be no valid Python"])


# Bytes


@pytest.mark.parametrize(
    "dress",
    [
        lambda text: text.encode(),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: text.replace("\n", "\r").encode(),
        lambda text: text.replace("\n", "\r\n", 2).encode(),
        lambda text: codecs.BOM_UTF8 + text.encode(),
        lambda text: ("# -*- coding: latin-1 -*-" + text[1:]).encode("latin-1"),
        lambda text: text.rstrip("\n").encode(),
        lambda text: text.replace("    ", "\t").encode(),
        lambda text: text.replace("# ü\n", "# ü\n\f\n").encode(),
        lambda text: text.replace("def f", "\fdef f").encode(),
        lambda text: text.replace("    x", "\f    x").encode(),
    ],
    ids=["plain", "crlf", "cr", "mixed", "bom", "latin-1", "no newline", "tabs", "page", "page def", "page indent"],
)
def test_every_byte_around_an_edit_is_kept(dress: Callable[[str], bytes]) -> None:
    raw = dress("# \n# ü\ndef f(x):\n    y = 'é'; z = g(x)  # ß\n    x = h(1)\n    return x + z\n")
    encoding = "latin-1" if b"latin-1" in raw else "utf-8-sig" if raw.startswith(codecs.BOM_UTF8) else "utf-8"
    lines = raw.decode(encoding).replace("\r\n", "\n").replace("\r", "\n").split("\n")

    def edit(snippet: str, kind: str, text: str, name: str = "") -> Edit:
        line = next(number for number, content in enumerate(lines) if snippet in content)
        column = lines[line].index(snippet)
        return Edit(kind, line + 1, column + 1, line + 1, column + len(snippet) + 1, text, name)

    found = apply(
        raw, [Fix("Mend it", True, (edit("g(x)", "wrap", "k(", ")"), edit("h(1)", "set-argument", "2", "n")))]
    )
    assert found.refused == ()
    assert found.source == raw.replace(b"g(x)", b"k(g(x))").replace(b"h(1)", b"h(1, n=2)")


def test_lines_put_in_end_as_the_lines_of_the_file_do() -> None:
    source = "a = 1\r\nb = 2\r\n"
    assert changed(source, "a = 1", "insert-after", "c = 3\nd = 4") == "a = 1\r\nc = 3\r\nd = 4\r\nb = 2\r\n"


def test_a_character_that_the_encoding_lacks_is_refused() -> None:
    raw = b"# coding: latin-1\nx = a\n"
    found = apply(raw, [Fix("Mend it", True, (Edit("replace", 2, 5, 2, 6, "'\u20ac'"),))])
    assert found.source == raw
    assert "cannot be written in iso-8859-1" in found.refused[0][1]


@pytest.mark.parametrize("raw", [b"x = '\xff'\n", b"# coding: nonsense\n", b"x = 1\0\n"])
def test_a_file_that_cannot_be_read_is_left_alone(raw: bytes) -> None:
    found = apply(raw, [Fix("Mend it", True, (Edit("replace", 1, 5, 1, 6, "b"),))])
    assert found.source == raw
    assert "cannot be read" in found.refused[0][1]

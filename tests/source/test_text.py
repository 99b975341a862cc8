"""Bytes to text, as Python itself would decode them, and what is said of a file that is no Python."""

from __future__ import annotations

import ast

import pytest

from kgate.source.facts import facts_of
from kgate.source.text import UnreadableText, decode


@pytest.mark.parametrize(
    "raw",
    [
        "x = 'é'\n".encode(),
        b"\xef\xbb\xbfx = 'a'\n",
        "# -*- coding: latin-1 -*-\nx = 'é'\n".encode("latin-1"),
        "#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\nx = 'é'\n".encode("cp1252"),
        b"x = 1\r\ny = 2\r\n",
        b"x = 1\ry = 2\r",
        b"x = 1\n\x0cy = 2\n",
        b"",
    ],
)
def test_text_is_decoded_as_python_does(raw):
    assert ast.dump(ast.parse(decode(raw))) == ast.dump(ast.parse(raw))


@pytest.mark.parametrize(
    ("raw", "line", "words"),
    [
        (b"x = 1\ny = '\xe9'\n", 2, "0xe9 is not utf-8"),
        (b"# coding: nonsense\n", 1, "unknown encoding 'nonsense'"),
        (b"# coding: base64\n", 1, "unknown encoding 'base64'"),
        (b"x = 1\ny = '\x00'\n", 2, "NUL byte"),
    ],
)
def test_text_that_cannot_be_decoded_says_where(raw, line, words):
    with pytest.raises(UnreadableText, match=words) as caught:
        decode(raw)
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (b"def f(:\n    pass\n", 1),
        (b"x = 1\nif x:\ny = 2\n", 3),
        (b"x = 1\ny = '\xe9'\n", 2),
        (b"x = 1\n\x00\n", 2),
        (b"x = " + b"(" * 500 + b")" * 500, 1),
        (b"x = " + b"-" * 100_000 + b"1", 1),
        (b"print 'python 2'\n", 1),
    ],
)
def test_a_file_that_does_not_parse_gives_facts_with_an_error(raw, line):
    facts = facts_of(b"import lib.helper\nfrom ..near import thing\n" + raw)
    assert facts.error is not None
    assert facts.error[1] == line + 2 or "deeply" in facts.error[0]
    assert [(item.module, item.level) for item in facts.imports] == [("lib.helper", 0), ("near", 2)]


def test_a_long_sum_is_read(trees):
    facts = facts_of(b"x = " + b" + ".join([b"1"] * 300))
    assert facts.error is None


@pytest.mark.parametrize(
    ("body", "severity"),
    [("import triton\ndef f(:\n", "warning"), ("import kgate\ndef f(:\n", "error"), ("def f(:\n", None)],
)
def test_a_file_that_does_not_parse_is_a_finding_where_it_is_about_kernels(trees, body, severity):
    findings = trees.index({"k.py": body}).findings
    assert [(finding.code, finding.severity) for finding in findings] == (
        [("unreadable-file", severity)] if severity else []
    )
    assert all(finding.line == 2 for finding in findings)

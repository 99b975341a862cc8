"""The where-language: what it accepts, what it means, and what it says about the rest."""

from __future__ import annotations

import random

import pytest

from kgate import DeclarationError, TensorFacts
from kgate.contract.where import parse

X = TensorFacts((4, 6), "bfloat16", (6, 1), align=16)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 - 2 - 1", 4),
        ("-7 // 2", -4),
        ("7 // -2", -4),
        ("-7 % 3", 2),
        ("-2**2", -4),
        ("2**31", 2147483648),
        ("1_000", 1000),
        ("cdiv(7, 2)", 4),
        ("cdiv(0, 2)", 0),
        ("min(M, N, 3)", 3),
        ("max(M, N)", 6),
        ("M < N <= 6", True),
        ("M < N < 6", False),
        ("M == 4 and N != 6 or M > 3", True),
        ("not M > 3 and M == 4", False),
        ("not (M > 3 and N == 1)", True),
        ("stride(x, 0) % 8 == 0", False),
        ("stride(x, -1) == 1", True),
        ("align(x) >= 16", True),
        ('dtype(x) == "bfloat16"', True),
        ("present(x)", True),
        ("present(w)", False),
        ("mode == 'llama'", True),
        ('mode != "gemma" and causal', False),
        ("causal == False", True),
    ],
)
def test_value(text, value):
    env = {"M": 4, "N": 6, "mode": "llama", "causal": False}
    found = parse(text).evaluate(env, {"x": X, "w": None})
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("stride(w, 0) == 1", True),  # left out: nothing to say
        ("not stride(w, 0) == 1", True),
        ("present(w) and stride(w, 0) == 1", False),
        ("not present(w) or stride(w, 0) == 1", True),
        ("stride(w, 0) == 1 and M == 5", False),
        ("K < 8", True),  # a dim that no input settled
        ("K < 8 and M < 4", False),
        ("M // Z == 1", False),  # a division by zero holds never
        ("not M // Z == 1", False),
        ("Z == 0 or M % Z == 0", True),
        ("Z != 0 and M % Z == 0", False),
    ],
)
def test_condition_fails_only_where_it_is_certainly_false(text, holds):
    assert parse(text).holds({"M": 4, "Z": 0}, {"w": None, "x": X}) is holds


def test_unknown_condition_has_no_value():
    assert parse("K < 8").evaluate({}) is None
    assert parse("K < 8 or 1 < 2").evaluate({}) is True
    assert parse("not (K < 8 and 2 < 1)").evaluate({}) is True


@pytest.mark.parametrize(
    "text",
    [
        "M * N < 2**31",
        "stride(x, 0) % 8 == 0",
        "M - (N - 1) == (M - N) + 1",
        "not (a == 1 or b == 2) and c == 3",
        "-M**2 < (-M)**2",
        "(M + 1) * -N // 2 % 3 < cdiv(M + 1, 2)",
        'mode == "x" or not present(w)',
    ],
)
def test_canonical_text_reads_back_as_the_same(text):
    expr = parse(text)
    assert parse(str(expr)) == expr
    env = dict.fromkeys("abcMN", 3)
    assert parse(str(expr)).evaluate(env, {"x": X, "w": None}) == expr.evaluate(env, {"x": X, "w": None})


def test_spacing_and_needless_parentheses_change_nothing():
    assert parse("((M)*N)<2 ** 31") == parse("M * N < 2**31")


def test_what_it_refers_to():
    expr = parse("M * N < 2**31 and stride(x, 1) == 1 and mode == 'llama' and not present(w)")
    assert expr.names() == {"M", "N", "mode"}
    assert expr.tensors() == {"x", "w"}
    assert expr.asked() == (("stride", "x", 1), ("present", "w", None))


@pytest.mark.parametrize(
    ("text", "column", "remedy"),
    [
        ("M / N < 1", 3, '"//"'),
        ("M = 1", 3, '"=="'),
        ("M < 1 & N < 2", 7, '"and"'),
        ("x.shape < 2", 2, "stride(x, 0)"),
        ("M < 1.5", 5, "whole numbers"),
        ("M < 12ab", 5, "whole numbers"),
        ("M <", 4, "complete it"),
        ("(M < 1", 7, 'add ")"'),
        ("M < 1)", 6, "grammar"),
        ("M ** N < 2", 6, "write a number"),
        ("2 ** 65 < M", 6, "up to 64"),
        ("strde(x, 0) == 1", 1, '"stride"'),
        ("stride(x) == 1", 9, "stride(x, 0)"),
        ("stride(x, M) == 1", 11, "stride(x, 0)"),
        ("align(1) == 1", 7, "align(x)"),
        ("cdiv(M) == 1", 1, "cdiv(M, 128)"),
        ("M < 1 if N else M < 2", 7, "and, or, not"),
        ('mode == "llama', 9, "close it"),
        ("M[0] < 1", 2, "dims"),
        ("", 1, "complete it"),
        ("lambda M", 1, "and, or, not"),
        ("(" * 50 + "M" + ")" * 50 + " < 1", None, "several conditions"),
    ],
)
def test_outside_the_language(text, column, remedy):
    with pytest.raises(DeclarationError) as caught:
        parse(text)
    assert caught.value.code == "bad-where"
    assert column is None or caught.value.column == column
    assert remedy in caught.value.remedy


def test_no_text_makes_the_parser_fail_in_another_way():
    pieces = [
        "M",
        "stride(x, 0)",
        "(",
        ")",
        "<",
        "==",
        "and",
        "not",
        "**",
        "//",
        "-",
        "1",
        '"a',
        "min(",
        ",",
        "$",
        "é",
        "\n",
    ]
    generator = random.Random(7)
    read, refused = 0, set()
    for _ in range(4000):
        text = " ".join(generator.choices(pieces, k=generator.randint(1, 7)))
        try:
            expr = parse(text)
        except DeclarationError as error:
            refused.add((error.code, bool(error.remedy), error.column is not None))
        else:
            read += 1
            assert parse(str(expr)) == expr
    assert read > 20
    assert refused == {("bad-where", True, True)}

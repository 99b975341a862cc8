"""Targets: exact ones, open ranges, and those that do not exist."""

from __future__ import annotations

import pytest

from kgate import DeclarationError
from kgate.contract.targets import CONCRETE, expand, known, parse_target


@pytest.mark.parametrize(
    ("declared", "concrete", "matches"),
    [
        ("cuda:sm_80", "cuda:sm_80", True),
        ("cuda:sm_80", "cuda:sm_86", False),
        ("cuda:sm_80+", "cuda:sm_80", True),
        ("cuda:sm_80+", "cuda:sm_120", True),
        ("cuda:sm_80+", "cuda:sm_75", False),
        ("cuda:sm_90+", "cuda:sm_100", True),
        ("cuda:sm_80+", "hip:gfx942", False),
        ("cuda:sm_80+", "cpu", False),
        ("cuda:sm_80+", "meta", False),
        ("hip:gfx942", "hip:gfx942", True),
        ("hip:gfx942", "hip:gfx950", False),
        ("cpu", "cpu", True),
    ],
)
def test_what_a_declared_target_matches(declared, concrete, matches):
    assert parse_target(declared).matches(concrete) is matches


@pytest.mark.parametrize("text", ["cuda:sm_80", "cuda:sm_80+", "hip:gfx90a", "cpu"])
def test_a_target_is_written_as_it_is_read(text):
    assert str(parse_target(text)) == text
    assert known(text)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("cuda:sm90", "cuda:sm_90"),
        ("sm_90", "cuda:sm_90"),
        ("hip:gfx942+", "without '+'"),
        ("quantum", "cuda:sm_NN"),
        ("", "cpu"),
    ],
)
def test_what_is_no_target(text, remedy):
    assert not known(text)
    with pytest.raises(DeclarationError) as caught:
        parse_target(text)
    assert caught.value.code == "unknown-target"
    assert remedy in caught.value.remedy


def test_a_target_of_the_future_is_read_but_not_known():
    assert parse_target("cuda:sm_999").capability == 999
    assert not known("cuda:sm_999")


def test_expanding():
    assert expand(("cuda:sm_90+",)) == ("cuda:sm_90", "cuda:sm_100", "cuda:sm_120")
    assert expand(("hip:gfx942", "cuda:sm_80")) == ("cuda:sm_80", "hip:gfx942")
    assert expand(("cuda:sm_103+",)) == ("cuda:sm_120", "cuda:sm_103")
    assert expand(("cuda:sm_75", "nonsense")) == ("cuda:sm_75",)
    assert expand(()) == CONCRETE

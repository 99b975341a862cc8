"""Which rules are on: default, configuration, command line, file by file."""

from __future__ import annotations

import pytest

from kgate.lint.rule import WARNING, Rule
from kgate.lint.selection import Catalogue, Selection
from kgate.source.config import Config, ConfigError


def rule(code: str, name: str, *, default: bool = True, covers: tuple[str, ...] = ()) -> Rule:
    return Rule(code, name, WARNING, "A thing.", "It is bad.", "Mend it.", default=default, covers=covers)


RULES = (
    rule("KG002", "unused-ignore"),
    rule("KG101", "missing-declaration", covers=("undeclared-kernel",)),
    rule("KG202", "unmasked-access"),
    rule("KG203", "masked-load-without-other"),
    rule("KG205", "unbounded-gather-index", default=False),
    rule("KG211", "atomic-into-uninitialised"),
    rule("KG301", "low-precision-accumulator"),
)
DEFAULT = {item.code for item in RULES if item.default}


def chosen(config: Config | None = None, path: str = "a.py", **options: tuple[str, ...]) -> set[str]:
    return set(Selection.of(RULES, config or Config(), **options).codes(path))


def test_without_a_word_the_default_rules_are_on() -> None:
    assert chosen() == DEFAULT


def test_select_replaces_the_default() -> None:
    assert chosen(Config(select=("KG3",))) == {"KG301"}
    assert chosen(select=("KG3", "unmasked-access")) == {"KG202", "KG301"}


def test_an_empty_select_in_the_configuration_turns_everything_off() -> None:
    assert chosen(Config(select=())) == set()
    assert chosen(Config(select=()), extend_select=("KG301",)) == {"KG301"}


def test_extend_select_adds_to_the_default() -> None:
    assert chosen(extend_select=("KG205",)) == DEFAULT | {"KG205"}
    assert chosen(Config(extend_select=("KG205",)), extend_select=("KG3",)) == DEFAULT | {"KG205"}


def test_select_on_the_command_line_replaces_that_of_the_configuration() -> None:
    assert chosen(Config(select=("KG2",), extend_select=("KG301",)), select=("KG101",)) == {"KG101"}


@pytest.mark.parametrize(
    ("select", "ignore", "expected"),
    [
        (("KG2",), ("KG203",), {"KG202", "KG211"}),
        (("KG203",), ("KG2",), {"KG203"}),
        (("KG20",), ("KG2",), {"KG202", "KG203", "KG205"}),
        (("KG2", "KG211"), ("KG21",), {"KG202", "KG203", "KG211"}),
        (("ALL",), ("KG",), set()),
        (("ALL",), ("KG2",), {"KG002", "KG101", "KG301"}),
        (("KG203",), ("KG203",), set()),
        (("masked-load-without-other",), ("KG2",), {"KG203"}),
    ],
)
def test_the_most_specific_selector_wins(select: tuple[str, ...], ignore: tuple[str, ...], expected: set[str]) -> None:
    assert chosen(Config(select=select, ignore=ignore)) == expected
    assert chosen(select=select, ignore=ignore) == expected


def test_of_two_equally_specific_selectors_the_command_line_counts() -> None:
    assert chosen(Config(ignore=("KG203",)), select=("KG203",)) == {"KG203"}
    assert chosen(Config(ignore=("KG203",)), select=("KG2",)) == {"KG202", "KG211"}


@pytest.mark.parametrize(
    ("select", "on"),
    [("KG205", True), ("unbounded-gather-index", True), ("KG20", True), ("ALL", True), ("KG2", False), ("KG", False)],
)
def test_a_rule_that_is_off_by_default_is_selected_on_purpose_only(select: str, on: bool) -> None:
    assert ("KG205" in chosen(select=(select,))) is on
    assert ("KG205" in chosen(extend_select=(select,))) is on


def test_ignore_reaches_rules_by_prefix_name_and_the_names_that_they_cover() -> None:
    assert chosen(ignore=("KG2", "undeclared-kernel")) == {"KG002", "KG301"}


def test_files_have_their_own_ignores() -> None:
    config = Config(per_file_ignores=(("tests/**", ("KG2",)), ("*_bench.py", ("KG301",))))
    selection = Selection.of(RULES, config)
    assert not selection.active("KG203", "tests/a/b.py")
    assert selection.active("KG203", "src/tests.py")
    assert not selection.active("KG301", "deep/down/norm_bench.py")
    assert selection.codes("tests/norm_bench.py") == {"KG002", "KG101"}


def test_a_file_s_ignores_hold_against_select() -> None:
    config = Config(per_file_ignores=(("a.py", ("KG2",)),))
    assert chosen(config, select=("KG203", "KG301")) == {"KG301"}


def test_what_no_rule_governs_is_always_shown() -> None:
    assert Selection.of(RULES, Config(), select=("KG3",)).active("KG005", "a.py")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (Config(path="kgate.toml", select=("KG999",)), "kgate.toml: select: 'KG999' is no rule"),
        (Config(path="pyproject.toml", ignore=("KG9",)), "pyproject.toml: tool.kgate.ignore: 'KG9' is no rule"),
        (
            Config(path="kgate.toml", per_file_ignores=(("a/**", ("no-such",)),)),
            "kgate.toml: per-file-ignores.'a/[*][*]': 'no-such' is no rule",
        ),
    ],
)
def test_an_unknown_rule_in_the_configuration_names_file_and_key(config: Config, said: str) -> None:
    with pytest.raises(ConfigError, match=f"^{said}$"):
        Selection.of(RULES, config)


@pytest.mark.parametrize("option", ["select", "ignore", "extend_select"])
def test_an_unknown_rule_on_the_command_line_names_the_option(option: str) -> None:
    with pytest.raises(ConfigError, match=f"^--{option.replace('_', '-')}: 'KG20x' is no rule$"):
        Selection.of(RULES, Config(), **{option: ("KG20x",)})


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ("unmasked-acess", "did you mean unmasked-access?"),
        ("KG2003", "codes are KG0xx to KG7xx; `kgate rule --all` lists them"),
        ("KG999", "codes are KG0xx to KG7xx; `kgate rule --all` lists them"),
        ("kg301", "did you mean KG301 (low-precision-accumulator)?"),
        ("undeclared-kernels", "did you mean undeclared-kernel?"),
        ("xyz", "`kgate rule --all` lists the rules"),
    ],
)
def test_the_nearest_rule_is_named(wrong: str, hint: str) -> None:
    assert Catalogue(RULES).nearest(wrong) == hint


def test_a_rule_is_found_by_code_name_and_covered_name() -> None:
    catalogue = Catalogue(RULES)
    for known in ("KG101", "kg101", "missing-declaration", "undeclared-kernel"):
        found = catalogue.rule(known)
        assert found is not None
        assert found.code == "KG101"
    assert catalogue.rule("KG1") is None

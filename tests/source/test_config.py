"""Reading ``[tool.kgate]``."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgate.source.config import Config, ConfigError, Root, check_folders, load_config, load_config_from, matches


def read(**files: str):
    contents = {name.replace("_", "."): text.encode() for name, text in files.items()}
    return load_config(contents.get)


def test_no_file_means_defaults_and_not_configured() -> None:
    assert read() == Config()
    assert not read().configured


def test_a_pyproject_without_a_table_is_not_configured() -> None:
    assert not read(pyproject_toml="[project]\nname = 'x'\n").configured


def test_an_empty_table_is_configured() -> None:
    assert read(pyproject_toml="[tool.kgate]\n").configured


def test_kgate_toml_wins_over_pyproject() -> None:
    config = read(kgate_toml="require = ['a/**']\n", pyproject_toml="[tool.kgate]\nrequire = ['b/**']\n")
    assert config.require == ("a/**",)
    assert config.path == "kgate.toml"


def test_a_configuration_that_kgate_toml_hides_is_named() -> None:
    assert read(kgate_toml="", pyproject_toml="[tool.kgate]\n").shadowed == "pyproject.toml"
    assert read(kgate_toml="", pyproject_toml="[tool.other]\n").shadowed == ""
    assert read(kgate_toml="", pyproject_toml="= broken").shadowed == ""
    assert read(pyproject_toml="[tool.kgate]\n").shadowed == ""


@pytest.mark.parametrize("glob", ["", " ", "/tmp", "../", "a/../b", "/a.py", "/"])
@pytest.mark.parametrize("setting", ["require = [{}]", "exclude = [{}]", "per-file-ignores = {{{} = ['KG203']}}"])
def test_a_glob_that_matches_nothing_or_by_mistake_everything_is_refused(setting: str, glob: str) -> None:
    with pytest.raises(ConfigError, match="is no glob of files") as caught:
        read(kgate_toml=setting.format(f"'{glob}'"))
    assert "relative" in caught.value.remedy


def test_a_setting_of_the_only_root_is_named_as_it_is_written() -> None:
    with pytest.raises(ConfigError, match=r"pyproject\.toml: tool\.kgate\.baselines must be"):
        read(pyproject_toml="[tool.kgate]\nbaselines = 3\n")
    with pytest.raises(ConfigError, match=r"kgate\.toml: baselines must be"):
        read(kgate_toml="baselines = 3\n")
    with pytest.raises(ConfigError, match=r"kgate\.toml: root\.src must be"):
        read(kgate_toml="[[root]]\npath = 'a'\nsrc = 3\n")


def test_rules_to_ignore_in_a_file_are_a_list() -> None:
    with pytest.raises(ConfigError, match="must be a list of strings, not 'KG203'") as caught:
        read(kgate_toml="per-file-ignores = {'a.py' = 'KG203'}")
    assert caught.value.remedy == 'write "a.py" = ["KG203"]'


def test_a_byte_order_mark_is_named() -> None:
    with pytest.raises(ConfigError, match="byte order mark"):
        load_config({"pyproject.toml": b"\xef\xbb\xbf[tool.kgate]\n"}.get)


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_a_configuration_that_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "pyproject.toml"
    place.mkdir() if kind == "folder" else place.symlink_to(tmp_path / "none")
    with pytest.raises(ConfigError, match=f"pyproject.toml: is a {kind}"):
        load_config_from(tmp_path)


def test_a_folder_that_a_tree_has_not_is_refused() -> None:
    files = ["a/src/x.py", "b/y.py"]
    check_folders(read(kgate_toml="[[root]]\npath = 'a'\nsrc = ['src', '../b']\n"), files, "the tree")
    for text in ("src = ['nope']", "src = ['../..']", "[[root]]\npath = 'nope'", "[[root]]\npath = 'a'\nsrc = ['b']"):
        with pytest.raises(ConfigError, match=r"there is no folder '.*' in the tree"):
            check_folders(read(kgate_toml=text), files, "the tree")


@pytest.mark.parametrize("text", [">=4,<3", "<3,>3", "==3.6,!=3.6.*", "==3.6,==3.7", ">=3.6.2,<3.6.2", "<0"])
def test_a_range_that_no_version_satisfies_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no version satisfies"):
        read(kgate_toml=f"triton = '{text}'")


@pytest.mark.parametrize("text", ["", ">=3.6,<4", ">3.6,<3.7.1", ">=3.6,<=3.6", "!=3.6.*", "~=3.6,!=3.6.0", "<1", ">0"])
def test_a_range_that_some_version_satisfies_is_taken(text: str) -> None:
    assert read(kgate_toml=f"triton = '{text}'").triton == text


def test_an_unknown_key_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match=r"unknown key 'tool\.kgate\.requir'") as caught:
        read(pyproject_toml="[tool.kgate]\nrequir = []\n")
    assert caught.value.remedy == "did you mean 'require'?"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("require = 'kernels'", "must be a list of strings"),
        ("case-timeout = 0", "above 0"),
        ("case-timeout = true", "above 0"),
        ("root = 3", "must be tables"),
        ("probe-targets = ['cuda:sm_91']", "'cuda:sm_91' is not a target"),
        ("python = 3", "must be a string"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read(pyproject_toml=f"[tool.kgate]\n{text}\n")


def test_toml_that_does_not_parse_names_the_file() -> None:
    with pytest.raises(ConfigError, match=r"pyproject\.toml: is not valid TOML"):
        read(pyproject_toml="[tool.kgate\n")


def test_several_roots_each_own_their_files() -> None:
    config = read(pyproject_toml="[[tool.kgate.root]]\npath='a'\n[[tool.kgate.root]]\npath='a/b'\nbaselines='lines'\n")
    assert config.roots == (Root(path="a"), Root(path="a/b", baselines="lines"))
    assert config.root_of("a/x.py").path == "a"
    assert config.root_of("a/b/x.py").path == "a/b"
    assert config.root_of("a/b/x.py").join("lines") == "a/b/lines"


def test_a_root_setting_beside_roots_is_refused() -> None:
    with pytest.raises(ConfigError, match="stands beside"):
        read(pyproject_toml="[tool.kgate]\npython='x'\n[[tool.kgate.root]]\npath='a'\n")


@pytest.mark.parametrize(
    ("path", "pattern", "found"),
    [
        ("kernels/a/b.py", "kernels/**", True),
        ("kernels/a/b.py", "kernels", True),
        ("kernels/a/b.py", "kernels/", True),
        ("kernels.py", "kernels", False),
        ("a/kernels/b.py", "**/b.py", True),
        ("b.py", "**/b.py", True),
        ("a/b.py", "*.py", False),
        ("a/b.py", "**", True),
        ("a/b/c.py", "a/*/c.py", True),
        ("a/b/d/c.py", "a/*/c.py", False),
        ("a/b/d/c.py", "a/**/c.py", True),
    ],
)
def test_globs(path: str, pattern: str, found: bool) -> None:
    assert matches(path, pattern) is found


@pytest.mark.parametrize("folder", ["../out", "/tmp/x", ".git/x", "", ".", "a/../../b"])
def test_baselines_stay_in_a_folder_of_their_own_inside_the_project(folder: str) -> None:
    with pytest.raises(ConfigError, match="is not a folder below") as caught:
        read(kgate_toml=f"baselines = '{folder}'\n")
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[root]]\npath='a'\n[[root]]\npath='a'\n", "two roots have the path"),
        ("[[root]]\npython='x'\n", "has no path"),
        ("[[root]]\npath='../a'\n", "not a folder inside"),
    ],
)
def test_a_root_that_cannot_be_meant_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read(kgate_toml=text)


def test_settings_of_the_linter_are_read() -> None:
    config = read(
        kgate_toml="""
select = ["KG2", "missing-declaration"]
extend-select = ["KG301"]
ignore = ["KG203"]
device-decorators = ["ops.jit"]
guard-decorators = ["with_device"]
contiguous-decorators = ["utils.make_contiguous"]
triton = ">=3.6,<4"
[per-file-ignores]
"tests/**" = ["ALL"]
"*_bench.py" = ["KG5", "KG301"]
"""
    )
    assert config.select == ("KG2", "missing-declaration")
    assert (config.extend_select, config.ignore) == (("KG301",), ("KG203",))
    assert config.device_decorators == ("ops.jit",)
    assert config.guard_decorators == ("with_device",)
    assert config.contiguous_decorators == ("utils.make_contiguous",)
    assert config.per_file_ignores == (("tests/**", ("ALL",)), ("*_bench.py", ("KG5", "KG301")))
    assert config.ignored_in("tests/deep/x_bench.py") == ("ALL", "KG5", "KG301")
    assert config.ignored_in("src/x.py") == ()


def test_an_absent_select_differs_from_an_empty_one() -> None:
    assert read(kgate_toml="").select is None
    assert read(kgate_toml="select = []").select == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("selects = []", r"unknown key 'tool\.kgate\.selects'"),
        ("select = 'KG2'", r"tool\.kgate\.select must be a list of strings"),
        ("per-file-ignores = ['a']", r"tool\.kgate\.per-file-ignores must be a table of lists"),
        ("per-file-ignores = {'a/**' = 'KG2'}", r"tool\.kgate\.per-file-ignores\.a/\*\* must be a list of strings"),
        ("device-decorators = ['@jit']", r"tool\.kgate\.device-decorators: '@jit' is not a dotted name"),
        ("guard-decorators = ['guard()']", r"'guard\(\)' is not a dotted name"),
        ("triton = 3.6", r"tool\.kgate\.triton must be a string"),
        ("triton = 'latest'", r"tool\.kgate\.triton: 'latest' is not a comparison"),
        ("triton = '>=3.6.*'", r"'>=3.6.\*' is not a comparison"),
    ],
)
def test_a_mistake_in_a_setting_of_the_linter_is_named(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        read(pyproject_toml=f"[tool.kgate]\n{text}\n")
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("supported", "allowed", "refused"),
    [
        ("", [(2, 0), (3, 6), (9, 9)], []),
        (">=3.6", [(3, 6), (3, 7), (3, 10), (4,)], [(3, 5), (3, 5, 9), (2, 9)]),
        (">=3.6.1", [(3, 6), (3, 6, 1)], [(3, 6, 0), (3, 5)]),
        (">=3.6,<4", [(3, 6), (3, 99)], [(4, 0), (3, 5)]),
        ("<3.6.0", [(3, 5)], [(3, 6)]),
        ("<3.6.2", [(3, 6), (3, 6, 1)], [(3, 6, 2), (3, 7)]),
        (">3.6", [(3, 6), (3, 7)], [(3, 5)]),
        ("==3.7.*", [(3, 7), (3, 7, 1)], [(3, 6), (3, 8)]),
        ("~=3.6", [(3, 6), (3, 9)], [(3, 5), (4, 0)]),
        (">=3.4,!=3.5", [(3, 4), (3, 6)], [(3, 5)]),
    ],
)
def test_the_supported_range_of_triton(
    supported: str, allowed: list[tuple[int, ...]], refused: list[tuple[int, ...]]
) -> None:
    config = Config(triton=supported)
    assert [version for version in allowed if not config.allows_triton(*version)] == []
    assert [version for version in refused if config.allows_triton(*version)] == []

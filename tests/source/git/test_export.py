"""Writing a tree out: complete or not at all, reused, never from the working folder, never in a user's way."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from kgate.source.git import GitError, Repository, commit_snapshot, export, index_snapshot, worktree_snapshot
from kgate.source.git import export as export_function

export_module = sys.modules["kgate.source.git.export"]
assert export_function is export_module.export


def opened(repo) -> Repository:
    return Repository(repo.path, env=repo.env)


def listing(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def test_tree_is_written_as_it_was_staged_not_as_it_lies_in_the_folder(repo, tmp_path):
    repo.commit("one", {"a.py": "1\n", "pkg/b c.py": "1\n"})
    repo.write("a.py", "2\n")
    repo.git("add", "a.py")
    repo.write("a.py", "3\n")
    repo.write("untracked.py", "")
    tree = export(index_snapshot(opened(repo)), tmp_path / "trees")
    assert listing(tree) == {"a.py": "2\n", "pkg/b c.py": "1\n"}
    assert (repo.path / "a.py").read_text() == "3\n"


def test_modes_and_symlinks_survive(repo, tmp_path):
    repo.write("run.sh", "#!/bin/sh\n").chmod(0o755)
    (repo.path / "link").symlink_to("run.sh")
    repo.commit("one")
    tree = export(commit_snapshot(opened(repo), "HEAD"), tmp_path / "trees")
    assert os.access(tree / "run.sh", os.X_OK)
    assert os.readlink(tree / "link") == "run.sh"


def test_index_and_status_stay_as_they_were(repo, tmp_path):
    repo.commit("one", {"a.py": "1\n"})
    repo.write("a.py", "2\n")
    repo.git("add", "a.py")
    index = (repo.path / ".git" / "index").read_bytes()
    export(index_snapshot(opened(repo)), tmp_path / "trees")
    export(worktree_snapshot(opened(repo)), tmp_path / "trees")
    assert (repo.path / ".git" / "index").read_bytes() == index
    assert repo.git("status", "--porcelain") == "M  a.py"
    assert repo.git("worktree", "list").count("\n") == 0


def test_same_tree_is_written_once(repo, tmp_path):
    repo.commit("one", {"a.py": "1\n"})
    snapshot = commit_snapshot(opened(repo), "HEAD")
    tree = export(snapshot, tmp_path / "trees")
    written = (tree / "a.py").stat().st_mtime_ns
    assert export(snapshot, tmp_path / "trees") == tree
    assert (tree / "a.py").stat().st_mtime_ns == written


def test_sparse_checkout_and_bare_repository_give_the_whole_tree(repo, new_repo, tmp_path):
    repo.commit("one", {"in/a.py": "1\n", "out/b.py": "1\n"})
    bare = new_repo("bare.git", "--bare", clone_of=repo)
    repo.git("sparse-checkout", "set", "in")
    for repository in (opened(repo), opened(bare)):
        tree = export(commit_snapshot(repository, "HEAD"), tmp_path / f"trees{repository.bare}")
        assert set(listing(tree)) == {"in/a.py", "out/b.py"}


def test_linked_worktree_is_exported_from_inside_it(repo, tmp_path):
    repo.commit("one", {"a.py": "1\n"})
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    (tmp_path / "side" / "a.py").write_text("side\n")
    snapshot = worktree_snapshot(Repository(tmp_path / "side", env=repo.env))
    assert listing(export(snapshot, tmp_path / "trees")) == {"a.py": "side\n"}


def test_carried_files_are_copied_and_folders_linked_but_the_tree_wins(repo, tmp_path):
    repo.commit("one", {"pkg/a.py": "1\n", ".gitignore": "_version.py\n*.so\nbuild/\n"})
    repo.write("pkg/_version.py", "v\n")
    repo.write("pkg/ext.so", "so\n")
    repo.write("build/out.bin", "b\n")
    repo.write("pkg/a.py", "edited\n")
    snapshot = commit_snapshot(opened(repo), "HEAD")
    tree = export(snapshot, tmp_path / "trees", ["pkg", "build", "**/_version.py"])
    assert (tree / "pkg" / "a.py").read_text() == "1\n"
    assert (tree / "pkg" / "_version.py").read_text() == "v\n"
    assert (tree / "pkg" / "ext.so").read_text() == "so\n"
    assert (tree / "build").is_symlink()
    assert (tree / "build" / "out.bin").read_text() == "b\n"


def test_a_carried_file_that_changed_makes_another_tree(repo, tmp_path):
    repo.commit("one", {"a.py": "1\n", ".gitignore": "_version.py\n"})
    repo.write("_version.py", "v1\n")
    snapshot = commit_snapshot(opened(repo), "HEAD")
    first = export(snapshot, tmp_path / "trees", ["_version.py"])
    repo.write("_version.py", "version two\n")
    second = export(snapshot, tmp_path / "trees", ["_version.py"])
    assert (first / "_version.py").read_text() == "v1\n"
    assert (second / "_version.py").read_text() == "version two\n"


@pytest.mark.parametrize("path", ["/etc/passwd", "../other", ".", ""])
def test_carry_stays_inside_the_repository(repo, tmp_path, path):
    repo.commit("one", {"a.py": "1\n"})
    with pytest.raises(GitError, match="not inside the repository"):
        export(commit_snapshot(opened(repo), "HEAD"), tmp_path / "trees", [path])


def test_carry_that_is_not_there_is_an_error_with_a_remedy(repo, tmp_path):
    repo.commit("one", {"a.py": "1\n"})
    with pytest.raises(GitError, match=r"'_version\.py', which is not in") as caught:
        export(commit_snapshot(opened(repo), "HEAD"), tmp_path / "trees", ["_version.py"])
    assert "build it first" in caught.value.remedy


def test_submodule_has_the_files_of_the_commit_that_the_tree_names(repo, new_repo, tmp_path):
    library = new_repo("library")
    library.commit("one", {"lib.h": "1\n"})
    repo.git("submodule", "add", "-q", library.path.as_uri(), "third/lib")
    repo.commit("with submodule")
    old = commit_snapshot(opened(repo), "HEAD")
    (repo.path / "third/lib/lib.h").write_text("2\n")
    repo.git("-C", "third/lib", "commit", "-q", "-a", "-m", "two")
    new = worktree_snapshot(opened(repo))
    assert (export(old, tmp_path / "trees") / "third/lib/lib.h").read_text() == "1\n"
    assert (export(new, tmp_path / "trees") / "third/lib/lib.h").read_text() == "2\n"


def test_submodule_that_was_never_fetched_stays_empty(repo, new_repo, tmp_path):
    library = new_repo("library")
    library.commit("one", {"lib.h": "1\n"})
    repo.git("submodule", "add", "-q", library.path.as_uri(), "lib")
    repo.commit("with submodule")
    clone = new_repo("clone", clone_of=repo)
    tree = export(commit_snapshot(opened(clone), "HEAD"), tmp_path / "trees")
    assert list((tree / "lib").iterdir()) == []


def test_old_trees_go_but_none_that_is_in_use(repo, tmp_path):
    for number in range(export_module.KEPT + 4):
        repo.commit(f"{number}", {"a.py": f"{number}\n"})
    script = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from kgate.source.git import Repository, commit_snapshot, export
        print(export(commit_snapshot(Repository(sys.argv[1]), sys.argv[3]), Path(sys.argv[2])), flush=True)
        sys.stdin.read()
        """
    )
    command = [sys.executable, "-c", script, str(repo.path), str(tmp_path / "trees")]
    user = subprocess.Popen([*command, "HEAD~7"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    used = Path(user.stdout.readline().strip())
    done = []
    for back in range(6, -1, -1):
        said = subprocess.run([*command, f"HEAD~{back}"], input="", capture_output=True, text=True, check=True)
        done.append(Path(said.stdout.strip()))
    assert used.is_dir()
    assert [path.is_dir() for path in done[: -export_module.KEPT]] == [False] * (len(done) - export_module.KEPT)
    assert all(path.is_dir() for path in done[-export_module.KEPT :])
    user.communicate("")
    assert user.returncode == 0


def _export_in_process(path: str, destination: str, env: dict[str, str]) -> None:
    tree = export(commit_snapshot(Repository(path, env=env), "HEAD"), Path(destination))
    if len(list(tree.iterdir())) != 40:
        raise SystemExit(3)


def test_several_processes_may_export_the_same_tree_at_once(repo, tmp_path):
    repo.commit("one", {f"f{number}.py": "1\n" for number in range(40)})
    fork = multiprocessing.get_context("fork")
    arguments = (str(repo.path), str(tmp_path / "trees"), repo.env)
    children = [fork.Process(target=_export_in_process, args=arguments) for _ in range(6)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * 6
    left = [path for path in (tmp_path / "trees").iterdir() if path.is_dir()]
    assert len(left) == 1


@pytest.mark.parametrize("step", ["_write_tree", "_move", "_prune"])
def test_a_killed_export_leaves_nothing_that_looks_complete(repo, tmp_path, step):
    repo.commit("one", {"a.py": "1\n", "b.py": "1\n"})
    snapshot = commit_snapshot(opened(repo), "HEAD")
    child = os.fork()
    if child == 0:
        real = getattr(export_module, step)

        def killed(*arguments, **named):
            if step == "_write_tree":
                arguments[1].mkdir()
                (arguments[1] / "a.py").write_text("half")
            elif step == "_prune":
                real(*arguments, **named)
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(export_module, step, killed)
        export(snapshot, tmp_path / "trees")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert listing(export(snapshot, tmp_path / "trees")) == {"a.py": "1\n", "b.py": "1\n"}

"""The committed lines that a selection is judged by, and lines that nobody asks for any more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kgate.baselines.records import Line
from kgate.baselines.store import Baselines, Key, Problem, load
from kgate.gate.plan import ACCURACY, CODEGEN, due_for
from kgate.gate.select import Selection, baseline_layout
from kgate.source.records import Declaration


class Lines:
    """The baseline lines of a selection, root by root; renamed kernels are followed to their old file.

    ``narrowed`` says that the user named kernels: what is wrong with the lines of others is then left alone.
    """

    def __init__(self, selection: Selection, *, narrowed: bool = False) -> None:
        self.selection = selection
        kernels = {item.kernel for item in selection.affected}
        self.renamed = {new: old for new, old in selection.renamed.items() if not narrowed or new in kernels}
        kernels |= set(self.renamed) | set(self.renamed.values())
        if not narrowed:
            kernels |= {item.kernel for item in selection.removed} | set(selection.stray)
        whole = bool(selection.everything) and not narrowed
        self.loaded: list[Baselines] = []
        if kernels or whole:
            head = selection.comparison.head
            for root in selection.config.roots:
                self.loaded.append(load(head, baseline_layout(root), kernels=None if whole else kernels))

    def line(self, key: Key) -> Line | None:
        """The usable line for a key, under the kernel's own or its former name."""
        for candidate in self._keys(key):
            for baselines in self.loaded:
                found = baselines.line(candidate)
                if found is not None:
                    return found
        return None

    def has_problem(self, key: Key) -> bool:
        """Whether a line for a key is there and cannot be used, or its whole file cannot."""
        return any(
            problem.key == key or (problem.key is None and (problem.kernel, problem.target) == (key.kernel, key.target))
            for baselines in self.loaded
            for problem in baselines.problems
        )

    def _keys(self, key: Key) -> Iterable[Key]:
        yield key
        if key.kernel in self.renamed:
            yield key._replace(kernel=self.renamed[key.kernel])

    def problems(self, declared: Mapping[str, Declaration]) -> list[Problem]:
        """What is wrong with the files of the selected kernels, and lines that no declaration asks for any more."""
        kernels = {item.kernel for item in self.selection.affected}
        found: list[Problem] = []
        for baselines in self.loaded:
            found += baselines.problems_of(kernels)
            found += self._obsolete(baselines, declared)
        return list(dict.fromkeys(found))

    def _obsolete(self, baselines: Baselines, declared: Mapping[str, Declaration]) -> Iterable[Problem]:
        expected: dict[str, set[Key]] = {}
        now = {old: new for new, old in self.renamed.items()}
        for path, file in sorted(baselines.files.items()):
            declaration = declared.get(file.kernel)
            if declaration is None:
                yield _orphan(path, file.kernel, file.target, declared.get(now.get(file.kernel, "")))
                continue
            if file.kernel not in expected:
                expected[file.kernel] = line_keys(declaration, self.selection)
            for record in file.records:
                key = record.key
                if key is not None and key.probe in (ACCURACY, CODEGEN) and key not in expected[file.kernel]:
                    message = f"{key.probe} line for {key.case} is obsolete: no workload on this target asks for it"
                    remedy = f"run: kgate bless {declaration.name}"
                    yield Problem(
                        "baseline-obsolete", path, record.number, message, remedy, file.kernel, file.target, key
                    )


def _orphan(path: str, kernel: str, target: str, now: Declaration | None) -> Problem:
    """The problem of a file whose kernel is not declared: it has another name now, or is gone."""
    if now is None:
        message, remedy = f"is obsolete: {kernel} is not declared", "run: kgate bless"
    else:
        message = f"stands under the kernel's former name; it is {now.identity} now"
        remedy = f"run: kgate bless {now.name}"
    return Problem("baseline-obsolete", path, 0, message, remedy, kernel, target)


def line_keys(declaration: Declaration, selection: Selection) -> set[Key]:
    """The lines that a declaration asks for: its workloads, on every configured target."""
    due = due_for(declaration, selection.head, selection.config)
    return {one.key for one in due if one.has_line}

"""One file to LintFacts: parsed once, every local check run, suppressions read. Never raises for what a file holds."""

from __future__ import annotations

import ast
import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from kgate.lint.records import (
    Candidate,
    DeviceSummary,
    HostSummary,
    Launch,
    LintFacts,
    LocalFinding,
    Range,
    Suppression,
)
from kgate.lint.registry import rules
from kgate.lint.rule import Hit, Rule
from kgate.source.facts import Parsed, parse_source

CUDA_SUFFIXES = (".cu", ".cuh", ".h", ".hpp", ".hip", ".cpp", ".cc")
CRASH = "KG005"


class Settings(msgspec.Struct, frozen=True, array_like=True):
    """The part of the configuration that a file's own facts depend on."""

    device_decorators: tuple[str, ...] = ()
    """Further decorators, by their last name, that make device functions."""
    guard_decorators: tuple[str, ...] = ()
    """Further decorators that set the device of their arguments."""
    contiguous_decorators: tuple[str, ...] = ()
    """Further decorators that make their arguments contiguous."""


DEFAULT = Settings()
"""What a project has that configures nothing."""


def analyse(path: str, raw: bytes, settings: Settings = DEFAULT, parsed: Parsed | None = None) -> LintFacts:
    """The facts of one file: Python, or CUDA C++ by its suffix. ``parsed``: the file, where it was parsed already."""
    if path.endswith(CUDA_SUFFIXES):
        return _analyse_cuda(path, raw)
    parsed = parsed or parse_source(raw)
    if parsed.tree is None:
        return LintFacts(suppressions=_suppressions(parsed.text), lines=raw.count(b"\n"))
    with no_collection():
        analysis = _Analysis(path, parsed.text, parsed.tree, settings)
        facts = analysis.facts()
        analysis.module.forget()
        return facts


class _Analysis:
    def __init__(self, path: str, text: str, tree: ast.Module, settings: Settings) -> None:
        from kgate.lint.model.module import Module

        self.module = Module(path, text, tree, frozenset(settings.device_decorators))
        self.module.guard_decorators = frozenset(settings.guard_decorators)
        self.module.contiguous_decorators = frozenset(settings.contiguous_decorators)
        self.findings: list[LocalFinding] = []
        self.candidates: list[Candidate] = []
        self.devices: list[DeviceSummary] = []
        self.launches: list[Launch] = []
        self.hosts: list[HostSummary] = []

    def facts(self) -> LintFacts:
        try:
            self._read()
        except RecursionError:
            place = (1, 1, 1, 1)
            message = "the file is nested too deeply for the rules; none of them has looked at all of it"
            self.findings.append(LocalFinding(CRASH, "warning", place, message))
        return LintFacts(
            tuple(self.findings),
            tuple(self.candidates),
            tuple(self.devices),
            tuple(self.launches),
            tuple(self.hosts),
            _suppressions(self.module.text),
            self.module.text.count("\n"),
        )

    def _read(self) -> None:
        module = self.module
        for device in module.devices:
            self.devices.append(device.summary)
        for node, name, framework in module.other_devices:
            self.devices.append(DeviceSummary(name, module.name_place(node), (), framework))
        hosts = module.hosts
        for host in hosts:
            launches = host.launch_summaries()
            if launches:
                self.launches += launches
            if launches or host.launches:
                self.hosts.append(host.summary())
        for rule in rules():
            if rule.needs and not any(word in module.text for word in rule.needs):
                continue
            for of_module in rule.module_checks:
                self._run(rule, of_module, module, "")
            for of_device in rule.device_checks:
                for device in module.devices:
                    self._run(rule, of_device, device, device.name)
            for of_host in rule.host_checks:
                for host in hosts:
                    self._run(rule, of_host, host, host.name)
        if "__global__" in module.text:
            from kgate.lint.cuda.source import cuda_strings_of

            for source in cuda_strings_of(module.path, module.tree, module.text):
                self._cuda(source)
                self.devices += source.summaries

    def _cuda(self, source: Any) -> None:
        for rule in rules():
            for check in rule.cuda_checks:
                self._run(rule, check, source, source.symbol_at)

    def _run(
        self, rule: Rule, check: Callable[[Any], Iterable[Hit]], subject: Any, symbol: str | Callable[[Range], str]
    ) -> None:
        try:
            for hit in check(subject):
                self._take(rule, hit, symbol if isinstance(symbol, str) else symbol(self._place(hit.node)))
        except RecursionError:
            raise
        except Exception as error:  # one rule's mistake must not cost the findings of the others
            place = (1, 1, 1, 1)
            message = f"{rule.code} {rule.name} failed here ({type(error).__name__}: {error}); please report it"
            self.findings.append(LocalFinding(CRASH, "warning", place, message))

    def _take(self, rule: Rule, hit: Hit, symbol: str) -> None:
        place = self._place(hit.node)
        related = tuple((self._place(node), text) for node, text in hit.related)
        severity = hit.severity or rule.severity
        if hit.data is None:
            self.findings.append(
                LocalFinding(rule.code, severity, place, hit.message, hit.remedy, symbol, hit.fixes, related)
            )
        else:
            self.candidates.append(
                Candidate(rule.code, severity, place, hit.message, hit.remedy, symbol, hit.fixes, related, hit.data)
            )

    def _place(self, node: Any) -> Range:
        return node if isinstance(node, tuple) else self.module.place(node)


def _analyse_cuda(path: str, raw: bytes) -> LintFacts:
    from kgate.lint.cuda.source import cuda_files_of
    from kgate.lint.suppress import suppressions_of_cuda

    analysis = _Analysis(path, "", ast.Module(body=[], type_ignores=[]), Settings())
    devices: list[DeviceSummary] = []
    for source in cuda_files_of(path, raw):
        analysis._cuda(source)
        devices += source.summaries
    text = raw.decode("utf-8", "replace")
    suppressions = suppressions_of_cuda(text)
    return LintFacts(
        tuple(analysis.findings), tuple(analysis.candidates), tuple(devices), (), (), suppressions, raw.count(b"\n")
    )


def _suppressions(text: str) -> tuple[Suppression, ...]:
    from kgate.lint.suppress import suppressions_of

    return suppressions_of(text)


@contextmanager
def no_collection() -> Iterator[None]:
    """Cyclic garbage collection off: trees and facts are large, and hold no garbage while they are read."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()

"""The command line: one thin function per command; what a command needs is imported by that command alone."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kgate._version import __version__

EXIT_CODES = """\b
Exit codes: 0 pass or warn, 1 a finding, 2 usage, configuration or baseline,
3 could not decide, 4 infrastructure or kgate itself failed, or nothing ran."""


class _Group(click.Group):
    """Turns the errors that a user can cause into a sentence and an exit code, never a traceback."""

    def invoke(self, context: click.Context) -> Any:
        from kgate.gate.errors import as_user_error

        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show is no crash
        try:
            return super().invoke(context)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            click.echo("kgate: interrupted", err=True)
            sys.exit(130)
        except BrokenPipeError:
            _silence_stdout()
            sys.exit(141)
        except Exception as error:
            told = as_user_error(error) or _own_fault(error, context)
            code, message, remedy = told
            click.echo(f"kgate: {message}", err=True)
            if remedy:
                click.echo(f"    {remedy}", err=True)
            sys.exit(code)


def _own_fault(error: Exception, context: click.Context) -> tuple[int, str, str]:
    """Exit code, message and remedy of an error that nobody foresaw: it is no finding, so it never exits with 1."""
    import traceback

    if context.params.get("debug"):
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
        remedy = "this is a fault of kgate; please report it with the lines above"
    else:
        remedy = "this is a fault of kgate; please report it with what `kgate --debug` prints before the same command"
    last = traceback.extract_tb(error.__traceback__)[-1]
    said = " ".join(str(error).split())
    kind = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return 4, f"{kind} ({Path(last.filename).name}:{last.lineno})", remedy


def _silence_stdout() -> None:
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXIT_CODES)
@click.version_option(__version__, "-V", "--version", prog_name="kgate")
@click.option("--debug", is_flag=True, envvar="KGATE_DEBUG", help="Show the traceback of a fault of kgate's own.")
def main(debug: bool) -> None:
    """A linter and merge gate for compute kernels.

    Every kernel declares what it supports (envelope), what it must equal (reference) and what runs otherwise
    (fallback). kgate checks the declarations, finds the kernels that a diff can have changed, proves them right and
    compares their compiled code with committed baselines.
    """


Command = Callable[..., Any]


def _comparison(command: Command) -> Command:
    """The options that say what is compared with what."""
    for option in reversed(
        [
            click.option(
                "--base",
                metavar="REV",
                help="Compare with this commit (default: found from hook, CI or upstream).",
            ),
            click.option("--head", metavar="REV", help="Judge this commit (default: the staged or the working tree)."),
            click.option("--staged", is_flag=True, help="Judge what is staged, as a hook does."),
        ]
    ):
        command = option(command)
    return command


def _format(*names: str) -> Callable[[Command], Command]:
    return click.option(
        "--format",
        "style",
        type=click.Choice(names),
        default=names[0],
        show_default=True,
        help="How to print it.",
    )


@main.command()
@click.argument("kernels", nargs=-1)
@_comparison
@click.option("--all", "everything", is_flag=True, help="Judge every declared kernel, touched or not.")
@click.option("--budget", metavar="TIME", help="Stop after this long (20s, 5m); what did not run is said.")
@click.option(
    "--probe",
    "probes",
    multiple=True,
    type=click.Choice(["accuracy", "codegen"]),
    help="Run this probe only.",
)
@click.option("--target", "targets", multiple=True, metavar="TARGET", help="Compile for this target only (cuda:sm_90).")
@click.option("--no-memory", is_flag=True, help="Run also what a remembered pass would spare.")
@click.option(
    "--pending",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write all measurements here, for `kgate bless --from`.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show passing verdicts too.")
@_format("terminal", "json", "github")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the report to this file.")
def check(kernels: tuple[str, ...], style: str, output: Path | None, verbose: bool, **options: Any) -> None:
    """Gate the kernels that a diff can have changed.

    Selects them function by function through git, reruns their correctness cases in Triton's interpreter, compiles
    their workloads for every target and compares the figures with the committed baselines. KERNELS narrows it to
    some (name, path or glob).
    """
    from kgate.gate.check import Options
    from kgate.gate.check import check as run_check
    from kgate.report.progress import progress

    _check_revisions(options)
    _writable(output, options["pending"])
    budget = _duration(options.pop("budget"), "--budget")
    with progress(sys.stderr) as shown:
        report = run_check(Path.cwd(), Options(kernels=kernels, budget=budget, **options), shown)
    _render(report, style, output, verbose)
    sys.exit(report.exit_code)


def _check_revisions(options: dict[str, Any]) -> None:
    for name in ("base", "head"):
        if options.get(name) == "":
            raise click.UsageError(f"--{name} is empty; name a commit, or leave it out")
    if options["staged"] and options["head"]:
        raise click.UsageError("--staged and --head both say what to judge; give one of them")


def _writable(output: Path | None, folder: Path | None) -> None:
    """Find out before a long run whether its results can be written."""
    try:
        if output is not None:
            _make_folder(output.parent)
            output.open("a").close()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        place = error.filename or output or folder
        raise click.UsageError(f"{place}: {error.strerror or error}; name another place for the results") from None


def _make_folder(folder: Path) -> None:
    """Make the folder of a report where it is missing, below the current one only: elsewhere it is a slip."""
    if not folder.exists() and Path.cwd() not in folder.resolve().parents:
        raise click.UsageError(f"{folder}: there is no such folder; make it, or name another place for the results")
    folder.mkdir(parents=True, exist_ok=True)


def _render(report: Any, style: str, output: Path | None, verbose: bool) -> None:
    stream: Any = io.StringIO() if output else sys.stdout
    if style == "json":
        import msgspec

        stream.write(msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n")
    elif style == "github":
        from kgate.report import github

        github.render(report, stream)
    else:
        from kgate.report import terminal

        terminal.render(report, stream, verbose=verbose)
    if output:
        try:
            output.write_text(stream.getvalue(), encoding="utf-8")
        except OSError as error:  # what was found must not be lost with the file
            click.echo(f"kgate: {output}: {error.strerror or error}; the report follows", err=True)
            click.echo(stream.getvalue())


def _duration(text: str | None, option: str) -> float | None:
    if text is None:
        return None
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
    for unit in ("ms", "s", "m", "h", ""):
        if text.endswith(unit):
            number = text[: len(text) - len(unit)] if unit else text
            if not number.replace(".", "", 1).isdecimal() or not number.isascii():
                break
            value = float(number) * units.get(unit, 1.0)
            if value > 0:
                return value
            break
    raise click.BadParameter(f"{text!r} is not a time; write 20s, 5m or 1h", param_hint=option)


@main.command()
@_comparison
@_format("terminal", "json")
def affected(base: str | None, head: str | None, staged: bool, style: str) -> None:
    """List the kernels that the diff can have changed.

    Exits with 3 where a declaration or a file cannot be read, and kernels may be missing from the list.
    """
    _affected(None, base, head, staged, style)


@main.command()
@click.argument("kernel")
@_comparison
@_format("terminal", "json")
def why(kernel: str, base: str | None, head: str | None, staged: bool, style: str) -> None:
    """Print the path from the diff to KERNEL."""
    _affected(kernel, base, head, staged, style)


def _affected(kernel: str | None, base: str | None, head: str | None, staged: bool, style: str) -> None:
    from kgate.gate.select import select
    from kgate.report.selection import render_json, render_text

    _check_revisions({"staged": staged, "head": head, "base": base})
    selection = select(Path.cwd(), base=base, head=head, staged=staged, kernels=(kernel,) if kernel else ())
    if style == "json":
        click.echo(render_json(selection))
    else:
        click.echo(render_text(selection, paths=kernel is not None), nl=False)
    sys.exit(3 if selection.unreadable else 0)


@main.command()
@click.argument("kernel")
@click.option("-k", "--case", "case", metavar="CASE", help="Run this case (an id, or part of one: 'N=129,T=bfloat16').")
@click.option("--target", metavar="TARGET", help="Compile the case for this target instead of interpreting it.")
@click.option("--timeout", metavar="TIME", help="Stop a case after this long (default: the project's case-timeout).")
@_format("terminal", "json")
def run(kernel: str, case: str | None, target: str | None, timeout: str | None, style: str) -> None:
    """Run the cases of KERNEL as the working folder has it, and show what was found.

    With -k one case is run and its worst element shown (got, want, allowed); with --target the figures of its
    compiled code.
    """
    from kgate.gate.run import run_cases
    from kgate.report.cases import render_measurements
    from kgate.report.progress import progress

    with progress(sys.stderr) as shown:
        outcome = run_cases(Path.cwd(), kernel, case, target, _duration(timeout, "--timeout"), shown)
    render_measurements(outcome, sys.stdout, as_json=style == "json")
    sys.exit(outcome.exit_code)


@main.command()
@click.argument("kernel")
@_format("terminal", "json")
def cases(kernel: str, style: str) -> None:
    """List the cases of KERNEL, with what each is there to try."""
    from kgate.gate.run import list_cases
    from kgate.report.cases import render_cases

    render_cases(list_cases(Path.cwd(), kernel), sys.stdout, as_json=style == "json")


@main.command()
@click.argument("kernels", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Measure and bless every declared kernel.")
@click.option("-k", "--case", "case", metavar="CASE", help="Bless this workload only.")
@click.option("--target", "targets", multiple=True, metavar="TARGET", help="Bless the lines of this target only.")
@click.option("--reason", help="Why something may get worse; kept in the line as its note.")
@click.option(
    "--from",
    "pending",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Take measurements from here (`kgate check --pending`).",
)
@click.option("--dry-run", is_flag=True, help="Show old and new, write nothing.")
@_format("terminal", "json")
def bless(kernels: tuple[str, ...], style: str, **options: Any) -> None:
    """Accept what is measured now as the committed baseline.

    Measures the workloads of KERNELS in the working folder, shows old and new per line, and writes all of the chosen
    lines or none. Without KERNELS: the kernels that the diff can have changed, and those without a line.
    """
    from kgate.gate.bless import BlessOptions
    from kgate.gate.bless import bless as run_bless
    from kgate.report.blessing import render_bless
    from kgate.report.progress import progress

    with progress(sys.stderr) as shown:
        outcome = run_bless(Path.cwd(), BlessOptions(kernels=kernels, **options), shown)
    render_bless(outcome, sys.stdout, as_json=style == "json")
    sys.exit(outcome.exit_code)


def _rules_option(name: str, help_text: str) -> Callable[[Command], Command]:
    return click.option(name, multiple=True, metavar="RULES", help=help_text)


LINT_FORMATS = ("full", "concise", "json", "sarif", "github", "gitlab", "junit")


@main.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True))
@_rules_option("--select", "Rules that are on: codes, prefixes (KG2), names or ALL, with commas between them.")
@_rules_option("--extend-select", "Rules that are on besides.")
@_rules_option("--ignore", "Rules that are off.")
@click.option("--fix", is_flag=True, help="Make the fixes that are safe.")
@click.option("--unsafe-fixes", is_flag=True, help="With --fix or --diff: those too that may change what is computed.")
@click.option("--diff", is_flag=True, help="Show the fixes as a diff and make none; exit with 1 where there are any.")
@click.option("--add-ignore", metavar="REASON", help="Write `# kgate: ignore[...] REASON` for errors and warnings.")
@click.option("--changed", is_flag=True, help="Only findings on lines that the diff touched.")
@click.option("--base", metavar="REV", help="With --changed: compare with this commit (default: as `kgate check`).")
@click.option("--statistics", is_flag=True, help="How often each rule was broken, instead of the findings.")
@click.option("--watch", is_flag=True, help="Run again whenever a file changes; Ctrl-C ends it.")
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings too.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 whatever is found.")
@_format(*LINT_FORMATS)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the report to this file.")
@click.option("-q", "--quiet", is_flag=True, help="Findings alone: no notes, no summary.")
def lint(paths: tuple[str, ...], watch: bool, output: Path | None, **options: Any) -> None:
    """Find known mistakes in kernels, and check that every kernel is declared; executes nothing.

    PATHS narrows the findings to files or folders. `kgate rule CODE` explains a rule, `# kgate: ignore[CODE] reason`
    hides a finding.
    """
    options["fix"] = options["fix"] and not options["diff"]  # both together ask for the fixes as a diff
    _check_lint(options)
    if watch and options["add_ignore"] is not None:
        raise click.UsageError("--watch would ignore every mistake as it is made; use --add-ignore alone")
    _writable(output, None)
    if not watch:
        sys.exit(_lint(paths, output, **options))
    from time import sleep

    from kgate.lint.project import watch as keep_watch

    try:
        keep_watch(
            Path.cwd(),
            lambda: _lint_again(paths, output, options),
            lambda: sleep(0.4),
            settle=lambda: sleep(0.1),
            output=output,
        )
    except KeyboardInterrupt:
        click.echo("")
        sys.exit(0)


def _check_lint(options: dict[str, Any]) -> None:
    reason = options["add_ignore"]
    if reason is not None and not reason.strip():
        raise click.UsageError("--add-ignore takes the reason why the findings may stay, and it is empty")
    if reason is not None:
        from kgate.lint.suppress import is_reason

        if not is_reason(reason):
            raise click.UsageError(f"--add-ignore takes the reason why the findings may stay; {reason!r} reads as none")
    doing = [name for name in ("fix", "diff", "add_ignore") if options[name] not in (False, None)]
    if len(doing) > 1:
        first, second = (f"--{name.replace('_', '-')}" for name in doing[:2])
        raise click.UsageError(f"{first} and {second} say different things to do; give one of them")
    if options["unsafe_fixes"] and not (options["fix"] or options["diff"]):
        raise click.UsageError("--unsafe-fixes goes with --fix or --diff")
    if options["base"] is not None and not options["changed"]:
        raise click.UsageError("--base says what --changed compares with; give --changed too")
    _check_revisions({"base": options["base"], "staged": False, "head": None})
    if options["statistics"] and options["style"] not in ("full", "concise", "json"):
        raise click.UsageError(f"--statistics has no format {options['style']}; use full or json")
    if options["diff"] and options["style"] not in ("full", "concise"):
        raise click.UsageError(f"--diff is a diff, not {options['style']}; leave --format out")


def _lint_again(paths: tuple[str, ...], output: Path | None, options: dict[str, Any]) -> None:
    """One run of a watch: what goes wrong is said, and waits for the next change."""
    from kgate.gate.errors import as_user_error

    click.clear()
    try:
        _lint(paths, output, **options)
    except Exception as error:
        told = as_user_error(error)
        if told is None:
            raise
        click.echo("\n    ".join(part for part in (f"kgate: {told[1]}", told[2]) if part), err=True)
    click.echo("watching for changes; Ctrl-C ends", err=True)


def _lint(
    paths: tuple[str, ...],
    output: Path | None,
    *,
    style: str,
    quiet: bool,
    strict: bool,
    exit_zero: bool,
    statistics: bool,
    **options: Any,
) -> int:
    """Lint once and write the report; the exit code."""
    from kgate.lint.project import reader
    from kgate.lint.registry import by_code
    from kgate.lint.run import LintOptions
    from kgate.lint.run import lint as run_lint
    from kgate.report.findings import render_findings, render_statistics
    from kgate.report.formats.common import LintReport, summary

    for name in ("select", "extend_select", "ignore"):
        options[name] = _listed(options[name])
    result = run_lint(Path.cwd(), LintOptions(paths=paths, **options))
    report = LintReport(result, reader(Path.cwd()), by_code(), quiet, output is None and _in_colour())
    stream: Any = io.StringIO() if output else sys.stdout
    if options["diff"]:
        _save_bytes(output, result.diff.encode("utf-8", "surrogateescape"))
        if not quiet:
            click.echo("\n".join([*(f"note: {note}" for note in result.notes), *summary(result)]), err=True)
    elif statistics:
        render_statistics(report, stream, style)
    else:
        render_findings(report, stream, style)
    if not options["diff"]:
        _save(output, stream)
    if exit_zero:
        return 0
    if options["diff"]:
        return 1 if result.diff else 0
    failing = ("error", "warning") if strict else ("error",)
    return 1 if any(item.severity in failing for item in result.findings) else 0


def _listed(given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(item.strip() for text in given for item in text.split(",") if item.strip())


def _in_colour() -> bool:
    import os

    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")


def _save(output: Path | None, stream: Any) -> None:
    if output is None:
        return
    try:
        output.write_text(stream.getvalue(), encoding="utf-8", errors="backslashreplace")
    except OSError as error:  # what was found must not be lost with the file
        click.echo(f"kgate: {output}: {error.strerror or error}; the report follows", err=True)
        click.echo(stream.getvalue())


def _save_bytes(output: Path | None, report: bytes) -> None:
    """Write or print a report whose every byte counts."""
    if output is not None:
        try:
            output.write_bytes(report)
            return
        except OSError as error:
            click.echo(f"kgate: {output}: {error.strerror or error}; the report follows", err=True)
    click.echo(report, nl=False)


@main.command()
@click.argument("code", required=False)
@click.option("--all", "everything", is_flag=True, help="Every rule.")
@_format("text", "json", "markdown")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write it here: for --all in Markdown, a folder.")
def rule(code: str | None, everything: bool, style: str, output: Path | None) -> None:
    """Explain the rule CODE (or its name): what it reports, why, what to do, examples, sources."""
    if everything == (code is not None):
        raise click.UsageError("give the code or the name of a rule, or --all")
    from kgate.gate.errors import UsageError
    from kgate.lint.documentation import UnknownRule, explained, explained_all, write_pages

    if everything and style == "markdown" and output is not None:
        try:
            names = write_pages(output)
        except OSError as error:
            place = error.filename or output
            raise click.UsageError(f"{place}: {error.strerror or error}; name another folder for the pages") from None
        for name in names:
            click.echo(f"wrote {output / name}", err=True)
        return
    try:
        text = explained_all(style) if code is None else explained(code, style)
    except UnknownRule as error:
        raise UsageError(error.message, error.remedy) from None
    if output is None:
        click.echo(text, nl=False)
    else:
        _writable(output, None)
        output.write_text(text, encoding="utf-8")


@main.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True))
@click.option("-o", "--output", metavar="PATH", help="Write here: a .py file, or a folder for a file per module.")
@click.option("--append", is_flag=True, help="Add to a file that exists; what it holds stays as it is.")
@click.option("--configure", is_flag=True, help="Add a [tool.kgate] table to pyproject.toml where there is none.")
@click.option("--dry-run", is_flag=True, help="Print what would be written, write nothing.")
@_format("text", "json")
def init(paths: tuple[str, ...], output: str | None, style: str, **options: Any) -> None:
    """Draft a declaration for every kernel that has none, from what its code says; executes nothing of it.

    The drafts go to a new file (kgate_kernels.py), and name the line that each part comes from. What the code does
    not tell is marked TODO, which `kgate lint` reports until it is completed. PATHS narrows it to files or folders.
    """
    from kgate.gate.errors import UsageError
    from kgate.lint.init import InitError, Options
    from kgate.lint.init import init as run_init
    from kgate.lint.init.summary import render_init
    from kgate.report.progress import progress

    try:
        with progress(sys.stderr) as shown:
            result = run_init(Path.cwd(), Options(paths=paths, output=output or "", **options), shown)
    except InitError as error:
        raise UsageError(error.message, error.remedy) from None
    render_init(result, sys.stdout, style, dry_run=options["dry_run"])


if __name__ == "__main__":
    main()

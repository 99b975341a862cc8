"""Lint thousands of mutated kernel files: no crash, no hang, nothing executed, memory bounded.

    python benchmarks/mutations.py FOLDER... [--count 5000]

Each file is mutated by a seed: tokens deleted, doubled or exchanged, the file cut, bytes flipped, encodings mixed, deep
nesting, null bytes, carriage returns, a byte order mark, a line of 2 MB. Prints what came of them, and exits with 1
where something went wrong.
"""

from __future__ import annotations

import argparse
import random
import re
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

SUFFIXES = (".py", ".cu", ".cuh")
SECONDS = 20
"""CPU seconds after which a file counts as hanging."""
_TOKEN = re.compile(rb"\w+|\s+|[^\w\s]")


def sources(folders: Sequence[Path]) -> list[tuple[str, bytes]]:
    """Kernel files below some folders: name and content."""
    found = []
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                raw = path.read_bytes()
                if b"triton" in raw or b"__global__" in raw:
                    found.append((path.name, raw))
    return found


def _tokens(raw: bytes, rng: random.Random, change: Callable[[list[bytes], int], None]) -> bytes:
    tokens = _TOKEN.findall(raw)
    for _ in range(rng.randint(1, 6)):
        change(tokens, rng.randrange(len(tokens)))
    return b"".join(tokens)


def _delete(tokens: list[bytes], at: int) -> None:
    tokens[at] = b""


def _double(tokens: list[bytes], at: int) -> None:
    tokens[at] = tokens[at] * 2


def _exchange(tokens: list[bytes], at: int) -> None:
    other = (at * 7919) % len(tokens)
    tokens[at], tokens[other] = tokens[other], tokens[at]


def _names(raw: bytes, rng: random.Random) -> bytes:
    """One name for another, everywhere: still parses, and means something else."""
    names = sorted(set(re.findall(rb"\b[a-z_][a-z_0-9]{2,}\b", raw)))
    old, new = rng.choice(names), rng.choice(names)
    return re.sub(rb"\b" + old + rb"\b", new, raw)


def _lines(raw: bytes, rng: random.Random) -> bytes:
    lines = raw.split(b"\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[at], lines[other] = lines[other], lines[at]
    return b"\n".join(lines)


def _flip(raw: bytes, rng: random.Random) -> bytes:
    changed = bytearray(raw)
    for _ in range(rng.randint(1, 20)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _nest(raw: bytes, rng: random.Random) -> bytes:
    depth = rng.choice((50, 150, 190, 1000, 100_000))
    inner = rng.choice((b"(%s)", b"-%s", b"not %s", b"[%s]", b"f(%s)"))
    opening, closing = inner.split(b"%s")
    return raw + b"\nx = " + opening * depth + b"1" + closing * depth + b"\n"


def _long(raw: bytes, rng: random.Random) -> bytes:
    kind = rng.randrange(3)
    filler = (b"# " + b"x" * 2_000_000, b"x = '" + b"y" * 2_000_000 + b"'", b"x = [" + b"1," * 1_000_000 + b"]")[kind]
    return raw + b"\n" + filler + b"\n"


MUTATIONS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "delete": lambda raw, rng: _tokens(raw, rng, _delete),
    "double": lambda raw, rng: _tokens(raw, rng, _double),
    "exchange": lambda raw, rng: _tokens(raw, rng, _exchange),
    "names": _names,
    "lines": _lines,
    "cut": lambda raw, rng: raw[: rng.randrange(len(raw))],
    "flip": _flip,
    "null": lambda raw, rng: raw.replace(b"\n", b"\0\n", rng.randint(1, 3)),
    "crlf": lambda raw, rng: raw.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\r"))),
    "bom": lambda raw, rng: rng.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\xef\xbb\xbf\xef\xbb\xbf")) + raw,
    "encoding": lambda raw, rng: (
        b"# -*- coding: "
        + rng.choice((b"latin-1", b"utf-16", b"no-such", b"rot13", b"hex"))
        + b" -*-\n"
        + raw
        + b"\xe9"
    ),
    "utf16": lambda raw, rng: raw.decode("utf-8", "replace").encode("utf-16"),
    "nest": _nest,
    "long": _long,
}
KINDS = tuple(MUTATIONS)


def mutate(files: Sequence[tuple[str, bytes]], kind: str, seed: int) -> tuple[str, bytes]:
    """A file mutated: its name, its new content."""
    rng = random.Random(f"{kind} {seed}")
    name, raw = rng.choice(files)
    return name, MUTATIONS[kind](raw, rng)


def main() -> int:
    """Lint the mutated files one after the other in this process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--count", type=int, default=5000)
    options = parser.parse_args()
    from kgate.lint.analysis import analyse
    from kgate.source.facts import facts_of

    executed: list[str] = []
    sys.addaudithook(lambda event, args: executed.append(event) if event in _FORBIDDEN else None)
    files = sources(options.folders)
    outcomes: Counter[str] = Counter()
    slowest = (0.0, "")
    signal.signal(signal.SIGVTALRM, _hang)
    for at in range(options.count):
        kind = KINDS[at % len(KINDS)]
        name, raw = mutate(files, kind, at)
        start = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            if name.endswith(".py"):
                facts_of(raw)
            facts = analyse(name, raw)
            bad = [item for item in facts.findings if item.code == "KG005" and "failed here" in item.message]
            outcome = f"a rule failed: {bad[0].message}" if bad else "answered"
        except Exception as error:
            outcome = f"{type(error).__name__}: {error}"
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if outcome != "answered":
            print(f"{kind} {at} {name}: {outcome[:300]}")
            outcome = "failed"
        outcomes[outcome] += 1
        slowest = max(slowest, (time.process_time() - start, f"{kind} {at} {name} ({len(raw)} bytes)"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{options.count} files made of {len(files)}: {dict(outcomes)}; "
        f"slowest {slowest[0]:.2f} s: {slowest[1]}; peak {peak:.0f} MiB"
    )
    if executed:
        print(f"executed: {Counter(executed)}")
    return 1 if outcomes["failed"] or executed else 0


_FORBIDDEN = frozenset({"os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "socket.connect"})


def _hang(signum: int, frame: object) -> None:
    raise TimeoutError(f"no answer within {SECONDS} s of CPU time")


if __name__ == "__main__":
    sys.exit(main())

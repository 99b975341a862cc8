"""What Triton's API has lost, deprecated and gained, with the version of each change.

Every entry was checked against the releases 3.6.0, 3.7.1 and 3.9.0: what went before 3.6 is absent from all three, and
a change between 3.7 and 3.9 is entered as 3.9. Versions before 3.6 are the best known, and checked against no source.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kgate.source.config import Config

Version = tuple[int, int]
SUPPORTED: tuple[Version, ...] = ((3, 6), (3, 7), (3, 8), (3, 9))
"""Versions that a project which names no range is taken to support."""
KNOWN: tuple[Version, ...] = (*((3, minor) for minor in range(6)), *SUPPORTED)
"""Versions that a declared range is compared with."""


@dataclass(frozen=True)
class Change:
    """A function, module or argument that came, is deprecated or went."""

    version: Version
    """First version that it holds for."""
    instead: str = ""
    """What to use: an imperative phrase."""
    last: Version | None = None
    """Last version that it holds for, where a later one took it back or went further."""


_DESCRIPTORS = "use tensor descriptors (tl.make_tensor_descriptor), or plain pointers with masks"
BLOCK_POINTERS = Change((3, 9), _DESCRIPTORS)
"""Block pointers, whose functions and arguments went together."""
_LIBDEVICE = "import it from triton.language.extra.libdevice"

REMOVED: dict[str, Change] = {
    "triton.language.make_block_ptr": BLOCK_POINTERS,
    "triton.language.advance": BLOCK_POINTERS,
    "triton.language.float8": Change((2, 1), "use tl.float8e5 or tl.float8e4nv"),
    "triton.language.float8e4": Change((2, 1), "use tl.float8e4nv"),
    "triton.language.printf": Change((2, 1), "use tl.device_print"),
    "triton.language.globaltimer": Change((3, 0), "use tl.extra.cuda.globaltimer"),
    "triton.language.clock": Change((3, 0), "use tl.extra.cuda.globaltimer"),
    "triton.language._experimental_descriptor_load": Change((3, 4), "use tl.make_tensor_descriptor and its load"),
    "triton.language._experimental_descriptor_store": Change((3, 4), "use tl.make_tensor_descriptor and its store"),
    "triton.language._experimental_make_tensor_descriptor": Change((3, 4), "use tl.make_tensor_descriptor"),
    "triton.testing.allclose": Change((2, 1), "use torch.testing.assert_close"),
    "triton.testing.assert_almost_equal": Change((2, 1), "use torch.testing.assert_close"),
}
"""Names that are gone, and what replaces them."""

REMOVED_MODULES: dict[str, Change] = {
    "triton.ops": Change((3, 2), "take the kernels into the project, or use the triton-kernels package"),
    "triton.common": Change((3, 1), "use triton.runtime"),
    "triton.language.libdevice": Change((2, 2), "use triton.language.extra.libdevice"),
    "triton.tools.experimental_descriptor": Change((3, 4), "use triton.tools.tensor_descriptor"),
}
"""Modules that are gone; what lies below them too."""

_FROM_MATH = (
    "acos acosh asin asinh atan atan2 atanh cbrt copysign cosh erfc erfinv exp10 expm1 fast_cosf "
    "fast_dividef fast_expf fast_exp10f fast_log2f fast_logf fast_powf fast_sinf fast_tanf ffs fmod hypot "
    "ilogb isfinited finitef isinf isnan ldexp lgamma llrint llround log10 log1p logb mul24 mulhi "
    "nearbyint nextafter normcdf popc pow rcbrt rint round saturatef signbit sinh tan tanh tgamma trunc "
    "float_as_int int_as_float byte_perm brev clz"
)
MOVED_FROM_MATH = frozenset(_FROM_MATH.split())
"""Functions of libdevice that ``tl.math`` had."""
MOVED = Change((3, 0), _LIBDEVICE)

REMOVED_ARGUMENTS: dict[tuple[str, str], Change] = {
    ("load", "boundary_check"): BLOCK_POINTERS,
    ("load", "padding_option"): BLOCK_POINTERS,
    ("store", "boundary_check"): BLOCK_POINTERS,
    ("dot", "trans_a"): Change((2, 1), "transpose the operand with tl.trans"),
    ("dot", "trans_b"): Change((2, 1), "transpose the operand with tl.trans"),
    ("Config", "num_consumer_groups"): Change((3, 4), "use tl.range(..., warp_specialize=True)"),
    ("Config", "num_buffers_warp_spec"): Change((3, 4), "use tl.range(..., warp_specialize=True)"),
    ("Config", "reg_dec_producer"): Change((3, 4), "remove it"),
    ("Config", "reg_inc_consumer"): Change((3, 4), "remove it"),
    ("Config", "enable_warp_specialization"): Change((3, 0), "use tl.range(..., warp_specialize=True)"),
    ("Config", "enable_persistent"): Change((3, 0), "remove it"),
}
"""Arguments that are gone, by the function's last name."""

DEPRECATED: dict[str, Change] = {
    "triton.language.make_block_ptr": Change((3, 7), _DESCRIPTORS, (3, 8)),
    "triton.language.view": Change((3, 0), "use tl.reshape; it keeps the order of elements, which tl.view need not"),
}
"""Names that warn when they are used."""

DEPRECATED_ARGUMENTS: dict[tuple[str, str], Change] = {
    ("autotune", "warmup"): Change((3, 2), "pass do_bench, a function that measures"),
    ("autotune", "rep"): Change((3, 2), "pass do_bench, a function that measures"),
    ("autotune", "use_cuda_graph"): Change((3, 2), "pass do_bench, a function that measures"),
    ("cat", "can_reorder"): Change((3, 9), "leave it away, and do not rely on elements being mixed"),
    ("reshape", "can_reorder"): Change((3, 9), "leave it away"),
    ("softmax", "keep_dims"): Change((3, 9), "leave it away; the shape is kept anyway"),
}
"""Arguments that warn when they are given (``can_reorder``: when it is True), by the function's last name."""

ADDED: dict[str, Change] = {
    "triton.language.squeeze": Change((3, 7)),
    "triton.language.unsqueeze": Change((3, 7)),
    "triton.language.to_tensor": Change((3, 7)),
    "triton.language.atomic_load": Change((3, 9)),
    "triton.language.atomic_store": Change((3, 9)),
    "triton.language.atomic_poll": Change((3, 9)),
}
"""Names that came after 3.6."""

ADDED_ARGUMENTS: dict[tuple[str, str], Change] = {
    ("cat", "dim"): Change((3, 7)),
    ("cumprod", "dtype"): Change((3, 9)),
    ("topk", "descending"): Change((3, 9)),
    ("fdiv", "approx"): Change((3, 9)),
}
"""Arguments that came after 3.6, by the function's last name."""

BUILTINS = frozenset(
    {"len", "list", "range", "float", "int", "isinstance", "getattr", "hasattr", "print", "min", "max"}
)
"""Python's own functions that a device function can call."""
CHAINED_COMPARISON: Version = (3, 9)
"""First version that compiles ``a < b < c``, ``:=`` and conditions in comprehensions."""
LOOP_VARIABLE: Version = (3, 4)
"""First version in which a loop's own variable may change its type in the body."""


def versions(config: Config) -> tuple[Version, ...]:
    """Versions that a project supports, as far as they are known here."""
    if not config.triton:
        return SUPPORTED
    return tuple(version for version in KNOWN if config.allows_triton(*version))


def affected(change: Change, supported: Iterable[Version]) -> Version | None:
    """The first supported version that a change holds for; None where there is none."""
    for version in supported:
        if version >= change.version and (change.last is None or version <= change.last):
            return version
    return None


def lacking(change: Change, supported: Iterable[Version]) -> Version | None:
    """The last supported version that does not have what a change added; None where all have it."""
    found = [version for version in supported if version < change.version]
    return found[-1] if found else None


def shown(version: Version) -> str:
    """A version as one writes it."""
    return f"{version[0]}.{version[1]}"

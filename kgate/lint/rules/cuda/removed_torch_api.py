"""KG612 removed-torch-api: something of torch's C++ interface that releases of today no longer have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgate.lint.rule import WARNING, Example, Hit, Rule

if TYPE_CHECKING:
    from kgate.lint.cuda.source import CudaFile
    from kgate.lint.records import Range

RULE = Rule(
    code="KG612",
    name="removed-torch-api",
    severity=WARNING,
    summary="The file uses a part of torch's C++ interface that has been removed.",
    why="The extension does not compile with releases of today, and people meet that when they install it.",
    remedy="Use what took its place: `TORCH_CHECK`, `C10_CUDA_CHECK`, `at::ceil_div`, `scalar_type()`.",
    quiet="Files that look at the version of torch.",
    sources=("https://github.com/pytorch/pytorch/releases/tag/v1.11.0",),
    invalid=(
        Example(
            """
            #include <torch/extension.h>
            #include <THC/THC.h>
                     ^^^^^^^^^^^

            void scale(at::Tensor x) {
              AT_CHECK(x.is_contiguous(), "x must be contiguous");
              ^^^^^^^^
              AT_DISPATCH_FLOATING_TYPES(x.type(), "scale", [&] { run<scalar_t>(x); });
                                         ^^^^^^^^
            }
            """,
        ),
    ),
    valid=(
        Example(
            """
            #include <torch/extension.h>

            void scale(at::Tensor x) {
              TORCH_CHECK(x.is_contiguous(), "x must be contiguous");
              AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "scale", [&] { run<scalar_t>(x); });
            }
            """,
        ),
    ),
)

_INSTEAD = {
    "AT_CHECK": "TORCH_CHECK",
    "THCudaCheck": "C10_CUDA_CHECK",
    "THCState_getCurrentStream": "at::cuda::getCurrentCUDAStream",
    "THCCeilDiv": "at::ceil_div",
    "THCudaMalloc": "c10::cuda::CUDACachingAllocator::raw_alloc",
    "THCudaFree": "c10::cuda::CUDACachingAllocator::raw_delete",
}
_USE = re.compile(
    r"#\s*include\s*(?P<header>[<\"]THC?/[^>\"\n]*[>\"])"
    r"|(?P<call>\b(?:" + "|".join(_INSTEAD) + r")\b)(?=\s*\()"
    r"|\bAT_DISPATCH_(?:ALL|FLOATING|INTEGRAL|COMPLEX)\w{0,60}\(\s*(?P<type>\w+\.type\(\))"
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_VERSIONED = re.compile(
    r"TORCH_VERSION|TORCH_CHECK\s*\n?#|ifn?def\s+TORCH_CHECK|define\s+TORCH_CHECK|define\s+AT_CHECK"
)


class Offsets:
    """Offsets in bytes of characters that are asked for in ascending order."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.known = (0, 0)

    def at(self, index: int) -> int:
        """The offset of a character."""
        last, offset = self.known
        offset += len(self.text[last:index].encode("utf-8", "replace"))
        self.known = (index, offset)
        return offset


@RULE.cuda
def check(file: CudaFile) -> Iterator[Hit]:
    """Names that are gone."""
    if not ("THC" in file.text or "AT_CHECK" in file.text or ".type()" in file.text):
        return
    if _VERSIONED.search(file.text):
        return
    text = _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), file.text)
    offset = Offsets(text)
    for found in _USE.finditer(text):
        if found["header"]:
            yield Hit(
                _range(file, offset, found, "header"), f"{found['header'][1:-1]} is no part of torch since 1.11", ""
            )
        elif found["call"]:
            name = found["call"]
            yield Hit(
                _range(file, offset, found, "call"), f"{name} is no part of torch anymore", f"use {_INSTEAD[name]}"
            )
        else:
            owner = found["type"].partition(".")[0]
            yield Hit(
                _range(file, offset, found, "type"),
                f"AT_DISPATCH takes a scalar type and no longer {found['type']}",
                f"hand it {owner}.scalar_type()",
            )


def _range(file: CudaFile, offset: Offsets, found: re.Match[str], group: str) -> Range:
    start = offset.at(found.start(group))
    return file.place_between(start, start + len(found[group].encode("utf-8", "replace")))

"""What is found in CUDA C++: functions and their parameters, launches, macros."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

_TENSOR = re.compile(r"\bTensor(?:List|Ref|Base)?\b")


@dataclass(frozen=True)
class CudaParameter:
    """A parameter of a function, or one of its template's that stands for a value."""

    name: str
    type: str
    """Type without qualifiers, pointers and references: ``int64_t``, ``torch::Tensor``."""
    pointer: bool
    """Whether it is a pointer or an array."""
    node: Node

    @property
    def tensor(self) -> bool:
        """Whether it is a torch tensor, or holds torch tensors."""
        return _TENSOR.search(self.type) is not None and "Accessor" not in self.type


@dataclass(eq=False)
class CudaFunction:
    """A function definition."""

    name: str
    """Last part of its name."""
    qualified: str
    """Its name with the namespaces and classes around it, joined by ``::``."""
    node: Node
    name_node: Node
    body: Node
    parameters: tuple[CudaParameter, ...]
    template: bool
    values: tuple[str, ...]
    """Template parameters that stand for values."""
    kernel: bool
    """``__global__``."""
    device: bool
    """``__device__`` and not for the host too."""
    internal: bool
    """``static`` or in a namespace without a name."""
    nodes: dict[str, list[Node]] = field(default_factory=lambda: defaultdict(list), repr=False)
    """Its nodes of the types that rules ask for, by type, in source order."""

    @property
    def host(self) -> bool:
        """Whether it runs on the host."""
        return not self.kernel and not self.device

    @property
    def takes_tensors(self) -> bool:
        """Whether a torch tensor is handed to it."""
        return any(item.tensor for item in self.parameters)


@dataclass(frozen=True)
class CudaLaunch:
    """``kernel<<<grid, block, shared, stream>>>(...)``."""

    node: Node
    """The call."""
    kernel: str
    """Last part of the kernel's name, without template arguments."""
    config: Node
    """``<<<...>>>``."""
    configuration: tuple[Node, ...]
    """The expressions in it."""
    function: CudaFunction | None
    """Where it stands; None where the text around it cannot be read."""


@dataclass(frozen=True)
class Macro:
    """``#define``."""

    name: str
    value: str
    """What it stands for, continuation lines included."""
    function: bool
    """Whether it takes arguments."""
    node: Node

"""From what a trace found to shapes: how many axes each input has, which sizes are equal, what they are called."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from keyword import iskeyword

from kgate.contract.dtypes import DTYPES
from kgate.contract.where import RESERVED
from kgate.lint.init.values import (
    Count,
    Evidence,
    Facts,
    Formula,
    Items,
    Known,
    Rows,
    Shape,
    Size,
    Value,
)

Key = tuple[str, int]
Documented = dict[str, tuple[tuple[str, ...], Evidence]]


@dataclass
class Sizes:
    """The shapes of the inputs of one launcher."""

    facts: Facts
    inputs: list[str]
    """Inputs that are tensors."""
    documented: Documented
    taken: frozenset[str]
    """Names that no dim can have."""
    ranks: dict[str, int] = field(default_factory=dict)
    why: dict[str, list[Evidence]] = field(default_factory=dict)
    """Input to the evidence for its shape."""
    constants: dict[Key, tuple[int, Evidence]] = field(default_factory=dict)
    _parent: dict[Key, Key] = field(default_factory=dict)
    _names: dict[Key, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._solve_ranks()
        self._unify()
        self._name()

    # Ranks

    def _settle(self, root: str, rank: int, evidence: Evidence) -> bool:
        if root in self.ranks or root not in self.inputs or not 0 <= rank <= 8:
            return False
        self.ranks[root] = rank
        self.why.setdefault(root, []).append(evidence)
        return True

    def _solve_ranks(self) -> None:
        for root, found in self.facts.ranks.items():
            self._settle(root, *found[0])
        self._spread()
        for root, (axes, evidence) in self.documented.items():
            self._settle(root, len(axes), evidence)
        self._spread()
        for root, found in self.facts.soft_ranks.items():
            self._settle(root, *found[0])
        self._spread()
        self._flat()
        self._spread()
        self._alike()
        for root, handed in self.facts.stride_axes.items():
            given = {axis for axis in handed if axis is not None}
            if len(given) > 1 and given == set(range(len(given))) and root in self.facts.strided:
                self._settle(root, len(given), self.facts.strided[root])
        self._alike()

    def _spread(self) -> None:
        moved = True
        while moved:
            moved = False
            for first, second, evidence in self.facts.same_shape:
                for one, other in ((first, second), (second, first)):
                    if self.ranks.get(one):  # a tensor without axes is broadcast to any shape
                        moved = self._settle(other, self.ranks[one], evidence) or moved

    def _flat(self) -> None:
        """Inputs that are read as one row, and those of which only the number of elements matters."""
        read = {value.root for value in self._sizes_read()}
        deep = {value.root for value in self._sizes_read() if value.axis not in (0, -1)}
        for root, length, evidence in self.facts.flat:
            if root in self.ranks:
                continue
            if isinstance(length, Count):
                if length.root != root:
                    self.facts.same_shape.append((length.root, root, evidence))
                if length.root not in read and length.root not in self.ranks:
                    self._settle(length.root, 1, evidence)
                self._spread()
            elif isinstance(length, Size) and length.root in self.inputs and root not in deep:
                self._settle(root, 1, evidence)
                self.facts.same.append((Size(root, 0), length, evidence))
        for value, evidence in self.facts.covered:
            if isinstance(value, Count) and value.root not in read:
                self._settle(value.root, 1, evidence)

    def _alike(self) -> None:
        """Inputs of which only the way they are addressed says how many axes they have."""
        for _ in range(3):
            for root, array, evidence in self.facts.alike:
                if root in self.ranks:
                    continue
                if isinstance(array.shape, str) and array.shape in self.ranks:
                    self._settle(root, self.ranks[array.shape], evidence)
                    self.facts.same_shape.append((array.shape, root, evidence))
                elif isinstance(array.shape, tuple) and all(self._settled(size) for size in array.shape):
                    self._settle(root, len(array.shape), evidence)
                    self.facts.same += [(Size(root, at), size, evidence) for at, size in enumerate(array.shape)]
            self._spread()

    def _settled(self, value: Value) -> bool:
        """Whether a size is one of an axis, or a number."""
        return self.key(value) is not None or (isinstance(value, Known) and type(value.value) is int)

    def open(self, items: Items) -> tuple[Value, ...] | None:
        """The sizes of a shape with starred parts, now that the number of axes is known."""
        opened: list[Value] = []
        for at, item in enumerate(items.items):
            if at not in items.spread:
                opened.append(item)
            elif isinstance(item, Items):
                inner = self.open(item)
                if inner is None:
                    return None
                opened += inner
            elif isinstance(item, Shape) and isinstance(item.array.shape, str) and item.array.shape in self.ranks:
                axes = range(self.ranks[item.array.shape])[item.start : item.stop]
                opened += [Size(item.array.shape, axis) for axis in axes]
            else:
                return None
        return tuple(opened)

    def _sizes_read(self) -> Iterable[Size]:
        values = [value for value, *_ in (*self.facts.names, *self.facts.covered, *self.facts.caps)]
        values += [value for pair in self.facts.same for value in pair[:2]]
        return [value for value in values if isinstance(value, Size)]

    # Equal sizes

    def find(self, key: Key) -> Key:
        """The representative of a size."""
        while self._parent.get(key, key) != key:
            key = self._parent[key]
        return key

    def key(self, value: Value) -> Key | None:
        """The axis that a size is of; None where that cannot be told."""
        if isinstance(value, Size):
            rank = self.ranks.get(value.root)
            if rank is None or not -rank <= value.axis < rank:
                return None
            return self.find((value.root, value.axis % rank))
        if isinstance(value, Rows) and self.ranks.get(value.root) == 2:
            return self.find((value.root, 0))
        if isinstance(value, Count) and self.ranks.get(value.root) == 1:
            return self.find((value.root, 0))
        return None

    def _join(self, one: Key | None, other: Key | None) -> None:
        if one is not None and other is not None and self.find(one) != self.find(other):
            first, second = sorted((self.find(one), self.find(other)), key=self._order)
            self._parent[second] = first

    def _order(self, key: Key) -> tuple[int, int]:
        return self.inputs.index(key[0]), key[1]

    def _unify(self) -> None:
        for first, second, evidence in self.facts.same_shape:
            if first in self.ranks and self.ranks[first] == self.ranks.get(second):
                for axis in range(self.ranks[first]):
                    self._join((first, axis), (second, axis))
                self.why.setdefault(second, []).append(evidence)
        for left, right, evidence in self.facts.same:
            one, other = self.key(left), self.key(right)
            self._join(one, other)
            if one is not None and other is not None and isinstance(right, Size):
                self.why.setdefault(right.root, []).append(evidence)
                if isinstance(left, Size):
                    self.why.setdefault(left.root, []).append(evidence)
        named: dict[tuple[int, str], Key] = {}
        for value, name, frame in self.facts.names:
            key = self.key(value)
            if key is not None and name != "_":
                self._join(named.setdefault((frame, name), key), key)
        by_document: dict[str, Key] = {}
        for root, (axes, _) in self.documented.items():
            if self.ranks.get(root) == len(axes):
                for axis, name in enumerate(axes):
                    if name.isidentifier():
                        self._join(by_document.setdefault(name, (root, axis)), (root, axis))
        for value, numbers, evidence in self.facts.members:
            key = self.key(value)
            if key is not None and len(numbers) == 1:
                self.constants[self.find(key)] = (numbers[0], evidence)
        for root, (axes, evidence) in self.documented.items():
            if self.ranks.get(root) == len(axes):
                for axis, name in enumerate(axes):
                    if name.isdecimal():
                        self.constants.setdefault(self.find((root, axis)), (int(name), evidence))

    # Names

    def _name(self) -> None:
        wishes: dict[Key, list[str]] = {}
        for root, (axes, _) in self.documented.items():
            if self.ranks.get(root) == len(axes):
                for axis, name in enumerate(axes):
                    if name.isidentifier():
                        wishes.setdefault(self.find((root, axis)), []).append(name)
        for value, name, _ in sorted(self.facts.names, key=lambda item: item[2]):
            key = self.key(value)
            if key is not None:
                wishes.setdefault(self.find(key), []).append(name)
        first = next((root for root in self.inputs if root in self.ranks), "")
        for root in self.inputs:
            for axis in range(self.ranks.get(root, 0)):
                key = self.find((root, axis))
                if key not in self._names and key not in self.constants:
                    plain = _plain(self.ranks[root], axis) if root == first else [f"{root}_{axis}"]
                    self._names[key] = self._free([*wishes.get(key, []), *plain])

    def _free(self, wishes: list[str]) -> str:
        used = set(self._names.values()) | self.taken
        for name in wishes:
            if name.strip("_") and _usable(name) and name not in used:
                return name
        stem = next((name for name in wishes if name.strip("_") and _usable(name)), "N")
        return next(name for name in (f"{stem}{number}" for number in range(2, 1000)) if name not in used)

    def axis(self, root: str, axis: int) -> str:
        """The text of one axis."""
        key = self.find((root, axis))
        return str(self.constants[key][0]) if key in self.constants else self._names[key]

    def shape(self, root: str) -> str | None:
        """The axis string of an input; None where the number of its axes is not known."""
        if root not in self.ranks:
            return None
        return " ".join(self.axis(root, axis) for axis in range(self.ranks[root]))

    def dim(self, value: Value) -> str | None:
        """The name of a size that is a dim."""
        key = self.key(value)
        return self._names.get(key) if key is not None else None

    def dims(self) -> list[str]:
        """The names of all dims that inputs have, in the order of the inputs."""
        return list(dict.fromkeys(self._names.values()))

    def text(self, value: Value) -> str | None:
        """A size as an axis expression; None where it is not one."""
        key = self.key(value)
        if key is not None:
            return str(self.constants[key][0]) if key in self.constants else self._names[key]
        if isinstance(value, Known):
            return str(value.value) if type(value.value) is int and value.value >= 0 else None
        if isinstance(value, (Rows, Count)):
            rank = self.ranks.get(value.root)
            if rank is None:
                return None
            axes = range(rank - 1 if isinstance(value, Rows) else rank)
            return "*".join(self.axis(value.root, axis) for axis in axes) or "1"
        if isinstance(value, Formula):
            left, right = self.text(value.left), self.text(value.right)
            if left is None or right is None or value.operator == "pow2":
                return None
            if value.operator in ("cdiv", "min", "max"):
                return f"{value.operator}({left}, {right})"
            simple = [part if part.isidentifier() or part.isdecimal() else f"({part})" for part in (left, right)]
            return value.operator.join(simple)
        return None


def factors(sizes: Sizes, value: Value) -> list[str]:
    """Sizes whose product is at least a number of programs; unknown block sizes count as one."""
    if isinstance(value, Formula) and value.operator == "*":
        return [*factors(sizes, value.left), *factors(sizes, value.right)]
    if isinstance(value, Formula) and value.operator == "cdiv":
        text = sizes.text(value)
        return [text] if text is not None else factors(sizes, value.left)
    text = sizes.text(value)
    return [text if text.isidentifier() or text.isdecimal() or "(" in text else f"({text})"] if text is not None else []


def _plain(rank: int, axis: int) -> list[str]:
    letters = {1: "N", 2: "MN", 3: "BMN", 4: "BHMN"}.get(rank, "")
    return [letters[axis]] if letters else [f"D{axis}"]


def _usable(name: str) -> bool:
    return (
        name.isidentifier()
        and not iskeyword(name)
        and name not in RESERVED
        and name not in DTYPES
        and not name.startswith("_")
    )

"""From an envelope to cases: boundaries, pairwise coverage, layouts, value distributions."""

from __future__ import annotations

from kgate.cases.deriving import affordable, derive
from kgate.cases.ids import CaseError, parse_case
from kgate.cases.records import FALLBACK, KERNEL, Case

__all__ = ["FALLBACK", "KERNEL", "Case", "CaseError", "affordable", "derive", "parse_case"]

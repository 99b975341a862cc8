"""From an envelope to cases: boundaries, pairwise coverage, layouts, value distributions."""

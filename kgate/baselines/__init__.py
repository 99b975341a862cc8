"""The committed lines: store, compare, bless."""

"""Rules about numerics."""

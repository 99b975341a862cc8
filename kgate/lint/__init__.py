"""Rules over the index."""

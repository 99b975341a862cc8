"""Rules about memory and indices."""

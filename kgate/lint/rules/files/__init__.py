"""Rules about files and suppressions."""

"""Rules about compilation, tuning and launch."""

"""Rules about committed baselines."""

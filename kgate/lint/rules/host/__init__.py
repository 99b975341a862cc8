"""Rules about host code and torch."""

"""Rules about declarations: envelope, reference, fallback."""

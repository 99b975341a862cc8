"""The priority-kernel corpus: what production models spend their time in, each kernel declared with kgate."""

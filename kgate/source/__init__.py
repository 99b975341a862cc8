"""Reading code without executing it: facts, index, closures, fingerprints, git."""

"""CUDA C++ as rules see it, in files of its own and in strings of Python files."""

"""Rules about CUDA C++."""

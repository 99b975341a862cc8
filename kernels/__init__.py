"""The priority-kernel corpus: kernels that production models spend their time in, each declared with kgate."""

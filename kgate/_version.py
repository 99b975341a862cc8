"""The version of kgate; read without importing anything else."""

__version__ = "0.1.0"

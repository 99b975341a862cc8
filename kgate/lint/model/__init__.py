"""What rules see of a Python file: the module, its device functions, its host functions, and how values flow."""

"""No public names: what CuPy tells of its arrays."""

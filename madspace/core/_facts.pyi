"""No public names: what is known about types of arrays."""

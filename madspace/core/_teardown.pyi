"""No public names: the gate is for the other extensions."""

"""No public names: its functions are for the other extensions."""

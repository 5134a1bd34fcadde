"""No public names: the wrapped driver calls are for the other extensions."""

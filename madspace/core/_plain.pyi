"""No public names: calls for other compiled modules."""

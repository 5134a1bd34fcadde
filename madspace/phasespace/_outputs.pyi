"""No public names: the results of ops."""

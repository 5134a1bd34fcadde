"""No public names: its functions are for `fwd`."""

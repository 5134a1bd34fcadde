"""No public names: arrays of other packages that are read where they are."""

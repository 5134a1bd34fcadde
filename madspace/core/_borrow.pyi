"""No public names: arrays that are used while their caller holds them."""

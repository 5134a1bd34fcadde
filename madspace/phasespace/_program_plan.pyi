"""No public names: programs as kernels get them."""

"""No public names: the operands of kernels are for the op families."""

"""No public names: the conversion of arguments is for Kernel and BoundKernel."""

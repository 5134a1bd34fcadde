"""No public names: the shape of a launch is for Kernel and BoundKernel."""

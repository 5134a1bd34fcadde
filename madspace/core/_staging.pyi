"""No public names: the way of host memory to a device is for the other extensions."""

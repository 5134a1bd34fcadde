"""No public names: the conversion of arguments is for Kernel.launch()."""

"""No public names: the bookkeeping of buffers is for the other extensions."""

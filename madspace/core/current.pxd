from madspace.core.device cimport Device
from madspace.core.stream cimport Stream


# The stream that was chosen for calls on a device here (``with madspace.stream(s)``, ``set_stream``); None where none
# was. One comparison as long as nobody in the process has chosen any, then a look at the context variable.
cdef Stream chosen_stream(Device device)

# What a call uses: its argument, else the chosen stream, else `fallback`, None for the device's own stream.
cdef Stream pick_stream(object stream, Device device, Stream fallback=*)

from cuda.bindings.cydriver cimport CUcontext, CUdevice, CUdevice_attribute


cdef class Device:
    cdef readonly int id
    cdef CUdevice handle_
    cdef CUcontext context_      # primary context, retained at the first get_device() and never released
    cdef object stream_          # Stream: the device's own stream, made at first use (see stream.own_stream)
    cdef object pool_            # MemoryPool: the device's own pool, made at first use (see memory.own_pool)
    cdef int push(self) except -1               # 1: made current and must be popped; 0: was current already
    cdef int pop(self, int pushed) except -1    # undo push()
    cdef int attribute(self, CUdevice_attribute which) except? -1


cdef Device get_device(int device_id)           # one object per device; initialises the driver; raises
# For reports: an object outside of the table and without a context, for queries of the device itself alone; and the one
# in the table, None where there was no get_device() for it yet.
cdef Device bare_device(int device_id)
cdef Device known_device(int device_id)

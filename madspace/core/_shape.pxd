from cuda.bindings.cydriver cimport CUcontext, CUfunction, CUlaunchAttribute, CUlaunchConfig, CUresult, CUstream


# Grid, block and what else a launch is shaped by, checked.
cdef struct Shape:
    unsigned int grid[3]
    unsigned int block[3]
    unsigned int cluster[3]      # in blocks; 0: none asked for
    unsigned int shared          # bytes of dynamic shared memory per block
    bint cooperative
    bint early                   # may begin when the blocks of the kernel before it have allowed that, see launch_raw()


cdef enum:
    MAX_ATTRIBUTES = 3
    MAX_THREADS = 1024          # per block, on every device
    MAX_GRID_X = 0x7FFFFFFF
    MAX_GRID_YZ = 0xFFFF
    MAX_BLOCK_Z = 64
    MAX_CLUSTER = 16            # blocks; more than 8 must be allowed for the kernel
    MAX_SHARED = 0x7FFFFFFF     # what the driver takes as a number; what a device has is far below

# ValueError and TypeError name the argument. cluster: None for none.
cdef int read_shape(Shape* shape, object grid, object block, object shared, object cluster,
                    object cooperative) except -1
cdef int read_cluster(Shape* shape, object cluster) except -1
# The same for questions about blocks, where no grid is named.
cdef int read_block(Shape* shape, object block, object shared, object cluster) except -1
cdef str describe_shape(const Shape* shape)

# The same for cuLaunchKernelEx; attributes: room for MAX_ATTRIBUTES, which must outlive the config.
cdef void fill_config(const Shape* shape, CUstream stream, CUlaunchConfig* config,
                      CUlaunchAttribute* attributes) noexcept nogil

# Whether cuLaunchKernel can express it.
cdef bint is_plain(const Shape* shape) noexcept nogil
# The call that a launch is made by.
cdef const char* launch_name(const Shape* shape) noexcept nogil

# The launch in a context, by the simplest call that can express it.
cdef int start(CUcontext context, CUfunction function, const Shape* shape, CUstream stream, void** params,
               CUresult* code) except -1 nogil

"""The shape of a launch: grid, block, cluster, shared memory; checked, and handed to the driver."""
from cpython.long cimport PyLong_CheckExact

from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport CUcontext, CUfunction, CUlaunchAttribute, CUlaunchConfig, CUresult, CUstream

from madspace.core cimport _driver as drv

import operator


cdef extern from "Python.h":
    long PyLong_AsLongAndOverflow(object number, int* overflow) except? -1


cdef int read_shape(Shape* shape, object grid, object block, object shared, object cluster,
                    object cooperative) except -1:
    read_extent("grid", grid, MAX_GRID_X, MAX_GRID_YZ, MAX_GRID_YZ, shape.grid)
    read_extent("block", block, MAX_THREADS, MAX_THREADS, MAX_BLOCK_Z, shape.block)
    if shape.block[0] * shape.block[1] * shape.block[2] > MAX_THREADS:
        raise ValueError(f"block: expected at most {MAX_THREADS} threads, got {block}")
    shape.shared = read_shared(shared)
    shape.cooperative = bool(cooperative)
    shape.early = False
    shape.cluster[0] = 0
    if cluster is not None:
        read_cluster(shape, cluster)
    return 0


cdef int read_cluster(Shape* shape, object cluster) except -1:
    cdef int i
    read_extent("cluster", cluster, MAX_CLUSTER, MAX_CLUSTER, MAX_CLUSTER, shape.cluster)
    if shape.cluster[0] * shape.cluster[1] * shape.cluster[2] > MAX_CLUSTER:
        raise ValueError(f"cluster: expected at most {MAX_CLUSTER} blocks, got {cluster}")
    for i in range(3):
        if shape.grid[i] % shape.cluster[i] != 0:
            raise ValueError(
                f"cluster: expected a divisor of the grid in each direction, got {cluster} for grid "
                f"{as_tuple(shape.grid)}")
    return 0


cdef int read_block(Shape* shape, object block, object shared, object cluster) except -1:
    # The cluster first: as the grid, which any cluster divides, it would be called one in the messages.
    if cluster is not None:
        read_extent("cluster", cluster, MAX_CLUSTER, MAX_CLUSTER, MAX_CLUSTER, shape.cluster)
    return read_shape(shape, 1 if cluster is None else cluster, block, shared, cluster, False)


cdef tuple as_tuple(const unsigned int* extent):
    return extent[0], extent[1], extent[2]


cdef int read_extent(str what, object extent, long max_x, long max_y, long max_z, unsigned int* into) except -1:
    cdef Py_ssize_t n = 1
    into[1] = into[2] = 1
    if type(extent) is not tuple:
        if read_one(extent, max_x, into):
            return 0
    else:
        n = len(<tuple>extent)
        if (1 <= n <= 3 and read_one((<tuple>extent)[0], max_x, into)
                and (n < 2 or read_one((<tuple>extent)[1], max_y, into + 1))
                and (n < 3 or read_one((<tuple>extent)[2], max_z, into + 2))):
            return 0
    return read_numbers(what, extent, (max_x, max_y, max_z), into)


cdef inline bint read_one(object number, long most, unsigned int* into) except -1:
    # False: look closer, and say what is wrong.
    cdef long value
    cdef int overflow
    if not PyLong_CheckExact(number):
        return False
    value = PyLong_AsLongAndOverflow(number, &overflow)
    into[0] = <unsigned int>value
    return overflow == 0 and 1 <= value <= most


cdef int read_numbers(str what, object extent, tuple most, unsigned int* into) except -1:
    cdef Py_ssize_t i
    cdef object number
    cdef tuple numbers = extent if isinstance(extent, tuple) else (extent,)
    if not 1 <= len(numbers) <= 3:
        raise ValueError(f"{what}: expected one to three numbers, got {extent!r}")
    for i in range(len(numbers)):
        try:
            number = operator.index(numbers[i])
        except TypeError:
            raise TypeError(f"{what}: expected an int, or a tuple of one to three, got {extent!r}") from None
        if not 1 <= number <= most[i]:
            raise ValueError(f"{what}: expected numbers from 1 to {most}, got {extent!r}")
        into[i] = number
    return 0


cdef unsigned int read_shared(object shared) except? 0xFFFFFFFF:
    cdef object number
    if PyLong_CheckExact(shared):
        number = shared
    else:
        try:
            number = operator.index(shared)
        except TypeError:
            raise TypeError(f"shared: expected an int, got {type(shared).__name__}") from None
    if not 0 <= number <= MAX_SHARED:
        raise ValueError(f"shared: expected 0 to {MAX_SHARED} bytes, got {number}")
    return number


cdef str describe_shape(const Shape* shape):
    cdef str text = f"grid {as_tuple(shape.grid)}, block {as_tuple(shape.block)}"
    if shape.cluster[0] > 0:
        text += f", cluster {as_tuple(shape.cluster)}"
    if shape.cooperative:
        text += ", cooperative"
    return text + f", {shape.shared} bytes of dynamic shared memory"


cdef void fill_config(const Shape* shape, CUstream stream, CUlaunchConfig* config,
                      CUlaunchAttribute* attributes) noexcept nogil:
    cdef unsigned int n = 0
    config.gridDimX, config.gridDimY, config.gridDimZ = shape.grid[0], shape.grid[1], shape.grid[2]
    config.blockDimX, config.blockDimY, config.blockDimZ = shape.block[0], shape.block[1], shape.block[2]
    config.sharedMemBytes = shape.shared
    config.hStream = stream
    if shape.cluster[0] > 0:
        attributes[n].id = cydriver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        attributes[n].value.clusterDim.x = shape.cluster[0]
        attributes[n].value.clusterDim.y = shape.cluster[1]
        attributes[n].value.clusterDim.z = shape.cluster[2]
        n += 1
    if shape.cooperative:
        attributes[n].id = cydriver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        attributes[n].value.cooperative = 1
        n += 1
    if shape.early:
        attributes[n].id = cydriver.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attributes[n].value.programmaticStreamSerializationAllowed = 1
        n += 1
    config.attrs = attributes
    config.numAttrs = n


cdef bint is_plain(const Shape* shape) noexcept nogil:
    return shape.cluster[0] == 0 and not shape.cooperative and not shape.early


cdef const char* launch_name(const Shape* shape) noexcept nogil:
    return "cuLaunchKernel" if is_plain(shape) else "cuLaunchKernelEx"


cdef int start(CUcontext context, CUfunction function, const Shape* shape, CUstream stream, void** params,
               CUresult* code) except -1 nogil:
    cdef CUcontext current
    drv.ctx_get_current(&current)
    if current == context:
        return start_here(function, shape, stream, params, code)
    # In the same stretch without the GIL as the launch: giving it up and taking it back is what costs most here.
    drv.ctx_push_current(context)
    try:
        return start_here(function, shape, stream, params, code)
    finally:
        drv.ctx_pop_current()


cdef int start_here(CUfunction function, const Shape* shape, CUstream stream, void** params,
                    CUresult* code) except -1 nogil:
    cdef CUlaunchConfig config
    cdef CUlaunchAttribute attributes[MAX_ATTRIBUTES]
    if is_plain(shape):
        return drv.launch_kernel(
            function, shape.grid[0], shape.grid[1], shape.grid[2], shape.block[0], shape.block[1], shape.block[2],
            shape.shared, stream, params, code)
    fill_config(shape, stream, &config, attributes)
    return drv.launch_kernel_ex(&config, function, params, code)

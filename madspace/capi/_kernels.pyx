"""Modules and kernels of the C API.

Object.more of a kernel: its functions by device number, its name, and the sizes of its parameters, all in the Kernel.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.ref cimport PyObject
from cpython.unicode cimport PyUnicode_AsUTF8
from libc.stdio cimport snprintf
from libc.string cimport memcpy, memset
from libcpp.vector cimport vector

from madspace.capi cimport (
    MS_ERROR_ARGUMENT, MS_ERROR_UNSUPPORTED, ms_api, ms_device, ms_kernel, ms_module, ms_stream,
)
from madspace.capi._devices cimport device_object, find_device, is_cpu
from madspace.capi._status cimport (
    Object, Section, caught, driver_failed, enter, failure, hand_out, kKernel, kModule, kStream, leave, look_up,
    new_object, refused, release, sections, write_failure,
)
from madspace.capi._streams cimport stream_object
from madspace.core cimport _plain as plain
from madspace.core._kernel_code cimport CACHED_DEVICES
from madspace.core._recording cimport n_recordings, note_image
from madspace.core._shape cimport (
    MAX_BLOCK_Z, MAX_CLUSTER, MAX_GRID_X, MAX_GRID_YZ, MAX_SHARED, MAX_THREADS, Shape, launch_name,
)
from madspace.core.kernel cimport Kernel
from madspace.core.module cimport Module
from madspace.core.stream cimport Stream

cdef enum:
    DETAIL_LENGTH = 256


cdef int add_kernels(ms_api* table) noexcept:
    table.module_load = load_module
    table.module_from_object = module_from_object
    table.module_release = end_module
    table.kernel_get = get
    table.kernel_from_object = from_object
    table.kernel_load = load
    table.kernel_allow_shared = allow_shared
    table.kernel_launch = launch
    table.kernel_launch_cluster = launch_cluster
    table.kernel_release = end
    return 0


cdef ms_module module_handle(Module module) except NULL:
    cdef Object* made
    module.check_open()
    made = new_object(module)
    made.closed = <const int*>&module.closed_
    return <ms_module>hand_out(made, kModule)


cdef ms_kernel kernel_handle(Kernel kernel) except NULL:
    cdef Object* made
    kernel.module.check_open()
    made = new_object(kernel)
    made.closed = <const int*>&kernel.module.closed_
    made.more[0] = &kernel.functions_[0]
    made.more[1] = <void*>PyUnicode_AsUTF8(kernel.name)
    made.more[2] = &kernel.sizes_
    return <ms_kernel>hand_out(made, kKernel)


cdef Kernel kernel_object(Object* kernel):
    return <Kernel>(<object>kernel.owner)


cdef int check_shape(const unsigned int* grid, const unsigned int* block, const unsigned int* cluster,
                     unsigned int shared) noexcept nogil:
    cdef int i
    if grid == NULL or block == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "grid, block: expected three numbers each, got NULL")
    for i in range(3):
        if not 1 <= grid[i] <= (<unsigned int>MAX_GRID_X if i == 0 else <unsigned int>MAX_GRID_YZ):
            return write_failure(
                failure(), MS_ERROR_ARGUMENT, "grid: expected numbers from 1 to (2147483647, 65535, 65535), got (%u, "
                "%u, %u)", grid[0], grid[1], grid[2])
        if not 1 <= block[i] <= (<unsigned int>MAX_BLOCK_Z if i == 2 else <unsigned int>MAX_THREADS):
            return write_failure(
                failure(), MS_ERROR_ARGUMENT, "block: expected numbers from 1 to (1024, 1024, 64), got (%u, %u, %u)",
                block[0], block[1], block[2])
    if block[0] * block[1] * block[2] > MAX_THREADS:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "block: expected at most 1024 threads, got (%u, %u, %u)",
                             block[0], block[1], block[2])
    if shared > <unsigned int>MAX_SHARED:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "shared: expected at most 2147483647 bytes, got %u", shared)
    if cluster != NULL:
        for i in range(3):
            if not 1 <= cluster[i] <= MAX_CLUSTER or grid[i] % cluster[i] != 0:
                return write_failure(
                    failure(), MS_ERROR_ARGUMENT, "cluster: expected divisors of the grid, at most 16 blocks, got (%u, "
                    "%u, %u)", cluster[0], cluster[1], cluster[2])
        if cluster[0] * cluster[1] * cluster[2] > MAX_CLUSTER:
            return write_failure(failure(), MS_ERROR_ARGUMENT, "cluster: expected at most 16 blocks, got (%u, %u, %u)",
                                 cluster[0], cluster[1], cluster[2])
    return 0


cdef int check_params(const vector[size_t]* sizes, void** params) noexcept nogil:
    cdef size_t i
    if params == NULL and sizes.size() > 0:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "params: expected %zu addresses, got NULL", sizes.size())
    for i in range(sizes.size()):
        if params[i] == NULL:
            return write_failure(failure(), MS_ERROR_ARGUMENT, "params[%zu]: expected an address, got NULL", i)
    return 0


cdef int queue(ms_kernel kernel, const unsigned int* grid, const unsigned int* block, const unsigned int* cluster,
               bint cooperative, unsigned int shared, ms_stream stream, void** params) noexcept nogil:
    cdef char detail[DETAIL_LENGTH]
    cdef Shape shape
    cdef void* function = NULL
    cdef int code
    cdef Object* found = look_up(kernel, kKernel, "kernel")
    cdef Object* on = <Object*>NULL if found == NULL else look_up(stream, kStream, "stream")
    if on == NULL:
        return failure().status
    code = check_shape(grid, block, cluster, shared)
    if code != 0:
        return code
    if on.device < CACHED_DEVICES:
        function = (<void**>found.more[0])[on.device]
    if function == NULL:
        code = load_for(found, on, &function)
        if code != 0:
            return code
    code = check_params(<const vector[size_t]*>found.more[2], params)
    if code != 0:
        return code
    memset(&shape, 0, sizeof(shape))
    memcpy(shape.grid, grid, sizeof(shape.grid))
    memcpy(shape.block, block, sizeof(shape.block))
    if cluster != NULL:
        memcpy(shape.cluster, cluster, sizeof(shape.cluster))
    shape.shared, shape.cooperative = shared, cooperative
    code = plain.launch(on.context, function, &shape, on.native, params)
    if code != 0:
        snprintf(detail, DETAIL_LENGTH, "kernel %.100s, grid (%u, %u, %u), block (%u, %u, %u), %u bytes of dynamic "
                 "shared memory", <const char*>found.more[1], grid[0], grid[1], grid[2], block[0], block[1], block[2],
                 shared)
        return driver_failed(code, launch_name(&shape), detail)
    return 0 if n_recordings == 0 else keep(found, on)


cdef int load_for(Object* kernel, Object* stream, void** function) noexcept nogil:
    cdef Section section
    if not enter(sections, &section):
        return refused()
    return leave(sections, &section, py_load_for(kernel, stream, function))


cdef int py_load_for(Object* kernel, Object* stream, void** function) noexcept with gil:
    cdef Stream on = stream_object(stream)
    try:
        function[0] = <void*>kernel_object(kernel).function_on(on.device, on)
        return 0
    except BaseException as error:
        return caught(error)


cdef int keep(Object* kernel, Object* stream) noexcept nogil:
    """Let a capture of madspace know of the kernel."""
    cdef Section section
    if not enter(sections, &section):
        return refused()
    return leave(sections, &section, py_keep(kernel, stream))


cdef int py_keep(Object* kernel, Object* stream) noexcept with gil:
    try:
        note_image(stream_object(stream), kernel_object(kernel).module.image_)
        return 0
    except BaseException as error:
        return caught(error)


# ---- the functions of the table ----

cdef int load_module(const void* image, size_t nbytes, const char* name, ms_module* module) noexcept nogil:
    cdef Section section
    if image == NULL or nbytes == 0 or module == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "image, nbytes, module: expected device code and an "
                             "address, got %zu bytes at %p", nbytes, image)
    if not enter(sections, &section):
        return refused()
    return leave(sections, &section, py_load_module(image, nbytes, name, module))


cdef int py_load_module(const void* image, size_t nbytes, const char* name, ms_module* module) noexcept with gil:
    try:
        code = PyBytes_FromStringAndSize(<const char*>image, <Py_ssize_t>nbytes)
        module[0] = module_handle(Module(code, name=None if name == NULL else name.decode(errors="replace")))
        return 0
    except BaseException as error:
        return caught(error)


cdef int module_from_object(PyObject* object_, ms_module* module) noexcept nogil:
    cdef Section section
    if object_ == NULL or module == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "object, module: expected addresses, got NULL")
    if not enter(sections, &section):
        return refused()
    return leave(sections, &section, py_module_from_object(object_, module))


cdef int py_module_from_object(PyObject* object_, ms_module* module) noexcept with gil:
    try:
        given = <object>object_
        if not isinstance(given, Module):
            raise TypeError(f"object: expected a madspace.Module, got {type(given).__name__}")
        module[0] = module_handle(given)
        return 0
    except BaseException as error:
        return caught(error)


cdef int end_module(ms_module module) noexcept nogil:
    return release(module, kModule, "module")


cdef int get(ms_module module, const char* name, ms_kernel* kernel) noexcept nogil:
    cdef Section section
    cdef Object* found = look_up(module, kModule, "module")
    if found == NULL:
        return failure().status
    if name == NULL or kernel == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "name, kernel: expected addresses, got NULL")
    return leave(sections, &section, py_get(found, name, kernel)) if enter(sections, &section) else refused()


cdef int py_get(Object* module, const char* name, ms_kernel* kernel) noexcept with gil:
    try:
        kernel[0] = kernel_handle((<Module>(<object>module.owner)).get(name.decode(errors="replace")))
        return 0
    except BaseException as error:
        return caught(error)


cdef int from_object(PyObject* object_, ms_kernel* kernel) noexcept nogil:
    cdef Section section
    if object_ == NULL or kernel == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "object, kernel: expected addresses, got NULL")
    return leave(sections, &section, py_from_object(object_, kernel)) if enter(sections, &section) else refused()


cdef int py_from_object(PyObject* object_, ms_kernel* kernel) noexcept with gil:
    try:
        given = <object>object_
        if not isinstance(given, Kernel):
            raise TypeError(f"object: expected a madspace.Kernel, got {type(given).__name__}")
        kernel[0] = kernel_handle(given)
        return 0
    except BaseException as error:
        return caught(error)


cdef int load(ms_kernel kernel, ms_device device) noexcept nogil:
    cdef Section section
    cdef Object* found = look_up(kernel, kKernel, "kernel")
    cdef Object* where = <Object*>NULL if found == NULL else find_device(device)
    if where == NULL:
        return failure().status
    if is_cpu(where):
        return write_failure(failure(), MS_ERROR_UNSUPPORTED, "device: expected a CUDA device, got the CPU")
    return leave(sections, &section, py_load(found, where)) if enter(sections, &section) else refused()


cdef int py_load(Object* kernel, Object* device) noexcept with gil:
    try:
        kernel_object(kernel).function_on(device_object(device), None)
        return 0
    except BaseException as error:
        return caught(error)


cdef int allow_shared(ms_kernel kernel, ms_device device, unsigned int nbytes) noexcept nogil:
    cdef Section section
    cdef Object* found = look_up(kernel, kKernel, "kernel")
    cdef Object* where = <Object*>NULL if found == NULL else find_device(device)
    if where == NULL:
        return failure().status
    if is_cpu(where):
        return write_failure(failure(), MS_ERROR_UNSUPPORTED, "device: expected a CUDA device, got the CPU")
    return leave(sections, &section, py_allow(found, where, nbytes)) if enter(sections, &section) else refused()


cdef int py_allow(Object* kernel, Object* device, unsigned int nbytes) noexcept with gil:
    try:
        kernel_object(kernel).set_max_dynamic_shared(nbytes, device_object(device))
        return 0
    except BaseException as error:
        return caught(error)


cdef int launch(ms_kernel kernel, const unsigned int* grid, const unsigned int* block, unsigned int shared,
                ms_stream stream, void** params) noexcept nogil:
    return queue(kernel, grid, block, NULL, False, shared, stream, params)


cdef int launch_cluster(ms_kernel kernel, const unsigned int* grid, const unsigned int* block,
                        const unsigned int* cluster, int cooperative, unsigned int shared, ms_stream stream,
                        void** params) noexcept nogil:
    return queue(kernel, grid, block, cluster, cooperative != 0, shared, stream, params)


cdef int end(ms_kernel kernel) noexcept nogil:
    return release(kernel, kKernel, "kernel")

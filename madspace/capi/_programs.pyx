"""Programs of the C API. Object.more[0]: the Compiled's description, for who has no interpreter."""
# On the CPU they run as _prepared holds them, on a GPU as a Plan lays them out; either is made once.
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset
from libcpp.vector cimport vector

from madspace.capi cimport (
    MS_ERROR_ARGUMENT, MS_ERROR_MEMORY, MS_FLOAT64, MS_INT32, ms_api, ms_device, ms_program,
    ms_program_argument, ms_program_array, ms_stream,
)
from madspace.capi._devices cimport find_place, is_cpu
from madspace.capi._status cimport (
    Object, Section, after_flag, before_flag, caught, driver_failed, enter, failure, hand_out, kProgram, leave, look_up,
    new_object, refused, release, sections, write_failure,
)
from madspace.capi._streams cimport stream_object
from madspace.core cimport _plain as plain
from madspace.core._kernel_code cimport CACHED_DEVICES
from madspace.core._operand cimport Operand
from madspace.core._recording cimport n_recordings, note_image
from madspace.core._shape cimport Shape
from madspace.core.stream cimport Stream
from madspace.core.tensor cimport MAX_NDIM
from madspace.cpu._prepared cimport Prepared, PreparedPlace, PreparedProgram, prepare, run_prepared
from madspace.phasespace._program_plan cimport (
    MAX_BATCH, SMALL_BATCH, LaidOut, Launcher, OnDevice, Plan, kLargeProgram, kSmallProgram, kSmallWords, lay_out,
    most_events,
)

from madspace.cpu._programs import op_table
from madspace.errors import UnsupportedOpError
from madspace.phasespace.program import Program
from madspace.phasespace.runtime import FunctionRuntime

cdef enum:
    ROOM = 64                   # arrays whose places need no allocation


# How it is launched on a GPU. Read without the GIL: `function` is written last, and NULL until then.
cdef struct OnGpu:
    void* function
    LaidOut* layout
    Launcher large, small


cdef struct Description:
    const ms_program_argument* inputs
    const ms_program_argument* outputs
    int n_inputs, n_outputs
    const Prepared* on_cpu
    OnGpu on_gpu[CACHED_DEVICES]


# A program, as it runs here.
cdef class Compiled:
    cdef Description description
    cdef vector[ms_program_argument] inputs, outputs
    cdef list names              # bytes, which the arguments point to
    cdef PreparedProgram on_cpu
    cdef object program
    cdef Plan plan               # None until a GPU runs it


cdef int add_programs(ms_api* table) noexcept:
    table.program_from_object = from_object
    table.program_from_bytes = from_bytes
    table.program_counts = counts
    table.program_describe = describe
    table.program_run = run
    table.program_release = end
    return 0


cdef inline Description* description_of(const Object* program) noexcept nogil:
    return <Description*>program.more[0]


cdef Compiled compile_program(object program):
    cdef Compiled made = Compiled.__new__(Compiled)
    made.names = []
    for argument in program.inputs:
        made.inputs.push_back(argument_of(argument, made.names))
    for argument in program.outputs:
        made.outputs.push_back(argument_of(argument, made.names))
    made.on_cpu = prepare(program.encode(op_table()), program.constants, program.n_registers,
                          [array_of(x) for x in program.inputs], [array_of(x) for x in program.outputs])
    made.description.inputs, made.description.n_inputs = made.inputs.data(), <int>made.inputs.size()
    made.description.outputs, made.description.n_outputs = made.outputs.data(), <int>made.outputs.size()
    made.description.on_cpu = &made.on_cpu.prepared
    made.program = program
    return made


cdef tuple array_of(object argument):
    return argument.registers, argument.dtype.kind == "i", len(argument.shape) > 0 and argument.shape[-1] == 4


cdef ms_program_argument argument_of(object argument, list names) except *:
    cdef ms_program_argument told
    cdef int i
    names.append(argument.name.encode())
    told.name = PyBytes_AS_STRING(names[-1])
    told.dtype = MS_INT32 if argument.dtype.kind == "i" else MS_FLOAT64
    told.ndim = <int>len(argument.shape)
    if told.ndim > MAX_NDIM:
        raise UnsupportedOpError(f"{argument.name}: expected at most {MAX_NDIM} axes, got shape {argument.shape}")
    for i in range(MAX_NDIM):
        told.shape[i] = argument.shape[i] if i < told.ndim else 0
    told.n_elements = len(argument.registers)
    return told


cdef ms_program program_handle(object program) except NULL:
    cdef Compiled compiled = compile_program(program)
    cdef Object* made = new_object(compiled)
    made.more[0] = &compiled.description
    return <ms_program>hand_out(made, kProgram)


cdef int read_places(const ms_program_argument* arguments, int n, const ms_program_array* arrays, bint write,
                     int64_t batch, PreparedPlace* places) noexcept nogil:
    cdef const char* side = "outputs" if write else "inputs"
    cdef int64_t itemsize
    cdef int i
    if n > 0 and arrays == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "%s: expected %d arrays, got NULL", side, n)
    for i in range(n):
        itemsize = 4 if arguments[i].dtype == MS_INT32 else 8
        places[i].data = <char*>arrays[i].data
        places[i].event_stride = arrays[i].event_stride
        places[i].element_stride = arrays[i].element_stride if arrays[i].element_stride != 0 else itemsize
        if arrays[i].data == NULL and batch > 0 and arguments[i].n_elements > 0:
            return write_failure(failure(), MS_ERROR_ARGUMENT, "%s[%d].data: expected an address, got NULL", side, i)
        if <uintptr_t>arrays[i].data % <uintptr_t>itemsize or places[i].event_stride % itemsize or \
                places[i].element_stride % itemsize:
            return write_failure(failure(), MS_ERROR_ARGUMENT, "%s[%d]: expected an address and strides in multiples "
                                 "of %lld bytes, got %p, %lld and %lld", side, i, <long long>itemsize, arrays[i].data,
                                 <long long>places[i].event_stride, <long long>places[i].element_stride)
        if write and batch > 1 and places[i].event_stride == 0 and arguments[i].n_elements > 0:
            return write_failure(failure(), MS_ERROR_ARGUMENT, "outputs[%d].event_stride: expected room for %lld "
                                 "events, got 0", i, <long long>batch)
    return 0


cdef int run_on_cpu(const Description* program, int64_t batch, const ms_program_array* inputs,
                    const ms_program_array* outputs) noexcept nogil:
    cdef PreparedPlace room[ROOM]
    cdef PreparedPlace* places = room
    cdef int code
    cdef int n = program.n_inputs + program.n_outputs
    if n > ROOM:
        places = <PreparedPlace*>malloc(<size_t>n * sizeof(PreparedPlace))
        if places == NULL:
            return write_failure(failure(), MS_ERROR_MEMORY, "no host memory left for the arrays of a program")
    code = read_places(program.inputs, program.n_inputs, inputs, False, batch, places)
    if code == 0:
        code = read_places(program.outputs, program.n_outputs, outputs, True, batch, places + program.n_inputs)
    if code == 0 and not run_prepared(program.on_cpu, places, places + program.n_inputs, batch):
        code = write_failure(failure(), MS_ERROR_MEMORY, "no host memory left for the registers of a program")
    if places != room:
        free(places)
    return code


# ---- on a GPU ----

cdef int find_launch(Object* program, Object* stream, OnGpu* launch) noexcept nogil:
    """How the program is launched on the stream's device, its kernel loaded."""
    cdef Section section
    if stream.device < CACHED_DEVICES and description_of(program).on_gpu[stream.device].function != NULL:
        after_flag()
        launch[0] = description_of(program).on_gpu[stream.device]
        return 0
    if not enter(sections, &section):
        return refused()
    return leave(sections, &section, py_find_launch(program, stream, launch))


cdef int py_find_launch(Object* program, Object* stream, OnGpu* launch) noexcept with gil:
    cdef Compiled compiled = <Compiled>(<object>program.owner)
    cdef Description* told = &compiled.description
    cdef Stream on = stream_object(stream)
    cdef OnDevice here
    cdef OnGpu* known
    cdef int i
    try:
        if compiled.plan is None:
            for x in (*compiled.program.inputs, *compiled.program.outputs):
                if len(x.shape) >= MAX_NDIM:
                    raise UnsupportedOpError(f"{x.name}: expected at most {MAX_NDIM - 1} axes per event on a GPU, got "
                                             f"{len(x.shape)}")
            compiled.plan = Plan(compiled.program, [False] * told.n_outputs,
                                 [told.n_inputs + i for i in range(told.n_outputs)], (), "shipped")
        here = compiled.plan.on_device(on.device, on)       # which the plan keeps
        launch.layout = &here.layout.it
        launch.large, launch.small = here.large, here.small
        launch.function = <void*>here.kernel.function_on(on.device, on)
        if stream.device < CACHED_DEVICES:
            known = &told.on_gpu[stream.device]
            known.layout, known.large, known.small = launch.layout, launch.large, launch.small
            before_flag()
            known.function = launch.function
        return 0
    except BaseException as error:
        return caught(error)


cdef int keep(Object* program, Object* stream) noexcept nogil:
    """Let a capture of madspace know of the kernel."""
    cdef Section section
    if not enter(sections, &section):
        return refused()
    return leave(sections, &section, py_keep(program, stream))


cdef int py_keep(Object* program, Object* stream) noexcept with gil:
    cdef Stream on = stream_object(stream)
    try:
        note_image(on, (<Compiled>(<object>program.owner)).plan.on_device(on.device, on).kernel.module.image_)
        return 0
    except BaseException as error:
        return caught(error)


cdef void place_operands(const ms_program_argument* arguments, int n, const PreparedPlace* places, int64_t batch,
                         Operand* operands) noexcept nogil:
    cdef Operand* x
    cdef int64_t itemsize, step
    cdef int i, k
    for i in range(n):
        x = operands + i
        itemsize = 4 if arguments[i].dtype == MS_INT32 else 8
        x.bits = <unsigned char>(8 * itemsize)
        # Where there are no elements nothing reads it; NULL would be a number.
        x.data = places[i].data if places[i].data != NULL else <char*>16
        x.ndim = arguments[i].ndim + 1
        x.shape[0], x.strides[0] = batch, places[i].event_stride // itemsize
        step = places[i].element_stride // itemsize
        for k in range(arguments[i].ndim - 1, -1, -1):
            x.shape[1 + k], x.strides[1 + k] = arguments[i].shape[k], step
            step *= arguments[i].shape[k]


cdef int launch_on(const OnGpu* gpu, Object* device, Object* stream, int64_t batch, Operand* operands) noexcept nogil:
    cdef Shape shape
    cdef uint64_t small[kSmallWords]
    cdef char* args = <char*>small
    cdef void* params[1]
    cdef const Launcher* launcher = &gpu.small if batch < SMALL_BATCH else &gpu.large
    cdef int64_t first = 0, most = most_events(gpu.layout, operands), part
    cdef int code = 0
    memset(small, 0, sizeof(small))
    if gpu.layout.nbytes > <size_t>kSmallProgram:
        args = <char*>calloc(1, kLargeProgram)
        if args == NULL:
            return write_failure(failure(), MS_ERROR_MEMORY, "no host memory left for the arguments of a program")
    memset(&shape, 0, sizeof(shape))
    shape.block[0] = <unsigned int>launcher.block
    shape.grid[1] = shape.grid[2] = shape.block[1] = shape.block[2] = 1
    shape.shared = launcher.shared
    params[0] = args
    while first < batch and code == 0:
        part = min(batch - first, most)
        lay_out(gpu.layout, args, operands, first, part, 0, 0, launcher.block)
        shape.grid[0] = <unsigned int>((part + launcher.block - 1) // launcher.block)
        code = plain.launch(device.context, gpu.function, &shape, stream.native, params)
        first += part
    if args != <char*>small:
        free(args)
    return driver_failed(code, "cuLaunchKernel", "the kernel of a program") if code else 0


cdef int run_on_gpu(Object* program, Object* device, Object* stream, int64_t batch, const ms_program_array* inputs,
                    const ms_program_array* outputs) noexcept nogil:
    cdef const Description* told = description_of(program)
    cdef OnGpu gpu
    cdef Operand* operands
    cdef PreparedPlace* places
    cdef int n = told.n_inputs + told.n_outputs
    cdef int code
    if batch > MAX_BATCH:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "batch: expected at most %lld events, got %lld",
                             <long long>MAX_BATCH, <long long>batch)
    operands = <Operand*>calloc(<size_t>n + 1, sizeof(Operand) + sizeof(PreparedPlace))
    if operands == NULL:
        return write_failure(failure(), MS_ERROR_MEMORY, "no host memory left for the arrays of a program")
    places = <PreparedPlace*>(operands + n + 1)
    code = read_places(told.inputs, told.n_inputs, inputs, False, batch, places)
    if code == 0:
        code = read_places(told.outputs, told.n_outputs, outputs, True, batch, places + told.n_inputs)
    if code == 0 and batch > 0 and told.n_outputs > 0:
        code = find_launch(program, stream, &gpu)
        if code == 0:
            place_operands(told.inputs, told.n_inputs, places, batch, operands)
            place_operands(told.outputs, told.n_outputs, places + told.n_inputs, batch, operands + told.n_inputs)
            code = launch_on(&gpu, device, stream, batch, operands)
        if code == 0 and n_recordings != 0:
            code = keep(program, stream)
    free(operands)
    return code


# ---- the functions of the table ----

cdef int from_object(PyObject* object_, ms_program* program) noexcept nogil:
    cdef Section section
    if object_ == NULL or program == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "object, program: expected addresses, got NULL")
    return leave(sections, &section, py_from_object(object_, program)) if enter(sections, &section) else refused()


cdef int py_from_object(PyObject* object_, ms_program* program) noexcept with gil:
    try:
        given = <object>object_
        if isinstance(given, FunctionRuntime):
            if len(given.programs) != 1:
                raise ValueError(f"object: expected a FunctionRuntime with one program, got one with "
                                 f"{len(given.programs)}: hand over one of its programs")
            given = given.programs[0]
        if not isinstance(given, Program):
            raise TypeError(f"object: expected a madspace.Program, got {type(given).__name__}")
        program[0] = program_handle(given)
        return 0
    except BaseException as error:
        return caught(error)


cdef int from_bytes(const void* data, size_t nbytes, ms_program* program) noexcept nogil:
    cdef Section section
    if data == NULL or program == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "bytes, program: expected addresses, got NULL")
    return leave(sections, &section, py_from_bytes(data, nbytes, program)) if enter(sections, &section) else refused()


cdef int py_from_bytes(const void* data, size_t nbytes, ms_program* program) noexcept with gil:
    try:
        given = PyBytes_FromStringAndSize(<const char*>data, <Py_ssize_t>nbytes)
        program[0] = program_handle(Program.from_bytes(given))
        return 0
    except BaseException as error:
        return caught(error)


cdef int counts(ms_program program, int* n_inputs, int* n_outputs) noexcept nogil:
    cdef Object* found = look_up(program, kProgram, "program")
    if found == NULL:
        return failure().status
    if n_inputs == NULL or n_outputs == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "n_inputs, n_outputs: expected addresses, got NULL")
    n_inputs[0], n_outputs[0] = description_of(found).n_inputs, description_of(found).n_outputs
    return 0


cdef int describe(ms_program program, int is_output, int index, ms_program_argument* argument) noexcept nogil:
    cdef const Description* told
    cdef int n
    cdef Object* found = look_up(program, kProgram, "program")
    if found == NULL:
        return failure().status
    told = description_of(found)
    n = told.n_outputs if is_output else told.n_inputs
    if not 0 <= index < n or argument == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "index, argument: expected a number below %d and an "
                             "address, got %d and %p", n, index, <void*>argument)
    argument[0] = told.outputs[index] if is_output else told.inputs[index]
    return 0


cdef int run(ms_program program, ms_device device, int64_t batch, const ms_program_array* inputs,
             const ms_program_array* outputs, ms_stream stream) noexcept nogil:
    cdef Object* on
    cdef Object* where
    cdef Object* found = look_up(program, kProgram, "program")
    if found == NULL:
        return failure().status
    where = find_place(device, stream, &on)
    if where == NULL:
        return failure().status
    if batch < 0:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "batch: expected 0 or more events, got %lld",
                             <long long>batch)
    if is_cpu(where):
        return run_on_cpu(description_of(found), batch, inputs, outputs)
    return run_on_gpu(found, where, on, batch, inputs, outputs)


cdef int end(ms_program program) noexcept nogil:
    return release(program, kProgram, "program")

"""Kimi Delta Attention of the C API: the launches of madspace.kda, without the interpreter once kernels are loaded."""
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libc.string cimport memset

from madspace.capi cimport (
    MS_ERROR_ARGUMENT, MS_ERROR_SHAPE, MS_ERROR_WORKSPACE, MS_KDA_CU_SEQLENS_64, MS_KDA_SNAPSHOT_BF16,
    MS_KDA_SNAPSHOTS_64, MS_KDA_STATE_BF16, MS_KDA_STATE_SLOTS_64, ms_api, ms_device, ms_kda_args, ms_kda_strides,
    ms_stream,
)
from madspace.capi._devices cimport device_object, find_place, is_cpu
from madspace.capi._memory cimport allocate_on, free_on
from madspace.capi._status cimport (
    Failure, Object, Section, after_flag, before_flag, caught, driver_failed, enter, failure, leave, refused, sections,
    write_failure,
)
from madspace.capi._streams cimport stream_object
from madspace.core cimport _plain as plain
from madspace.core._kernel_code cimport CACHED_DEVICES
from madspace.core._layout cimport compact_strides
from madspace.core._operand cimport Operand
from madspace.core._recording cimport n_recordings, note_image
from madspace.core._shape cimport Shape, launch_name
from madspace.core.kernel cimport Kernel
from madspace.core.stream cimport Stream
from madspace.kda._args cimport Args, HostCall, Plan, Target, make_plan
from madspace.kda._check cimport (
    A_LOG, BETA, CU_SEQLENS, DT_BIAS, FINAL_STATE, G, INITIAL_STATE, K, OUT, Q, SNAPSHOT_OFFSETS,
    SNAPSHOT_TOKENS, SNAPSHOTS, STATE_SLOTS, V, Call,
)
from madspace.kda._launch cimport KernelSet, kernels_on, prepare, run_on_host
from madspace.kda._overlap cimport find_overlap
from madspace.kda._sizes cimport workspace_bytes


cdef extern from "kda_call.h" namespace "madspace::capi" nogil:
    int copy_kda_args(const ms_kda_args* given, ms_kda_args* args, Failure* failure)
    int read_kda(ms_kda_args* args, bint on_gpu, HostCall* call, Failure* failure)


cdef enum:
    WORKSPACE_ALIGNMENT = 128   # of a record
    HOST_ALIGNMENT = 16
    MAX_KERNELS = 16            # for one number of channels
    MAX_LAUNCHES = 2


# What is read without the GIL: `known` and `function` are written last, and tell that the rest is there.

# A kernel on a device, ready for launches with that much dynamic shared memory.
cdef struct Loaded:
    void* function
    unsigned int shared


# What decides how a call is launched on a device.
cdef struct Traits:
    bint known
    int n_processors, shared_limit
    Target target
    Loaded kernels[2 * MAX_KERNELS]


cdef Traits traits[CACHED_DEVICES]

# In the order of Call's arrays.
cdef const char** FIELDS = [
    "q", "k", "v", "g", "beta", "a_log", "dt_bias", "initial_state", "cu_seqlens", "state_slots", "snapshot_tokens",
    "snapshot_offsets", "out", "final_state", "snapshots",
]


cdef int add_kda(ms_api* table) noexcept:
    table.kda_workspace_size = workspace_size
    table.kda_forward = forward
    return 0


# ---- the arrays, for the question whether they share memory ----

cdef void describe(Call* call, int which, const void* data, int itemsize, int ndim, int64_t n0, int64_t n1, int64_t n2,
                   int64_t n3) noexcept nogil:
    cdef Operand* x = &call.arrays[which]
    call.given[which] = data != NULL
    x.data = <char*>data
    x.bits = <unsigned char>(8 * itemsize)
    x.ndim = ndim
    x.shape[0], x.shape[1], x.shape[2], x.shape[3] = n0, n1, n2, n3
    compact_strides(ndim, x.shape, x.strides)


cdef void spread(Call* call, int which, const ms_kda_strides* strides) noexcept nogil:
    cdef Operand* x = &call.arrays[which]
    x.strides[0], x.strides[1], x.strides[2] = strides.batch, strides.token, strides.head


cdef void describe_all(Call* call, const ms_kda_args* x) noexcept nogil:
    cdef Args* a = &call.host.args
    cdef int64_t b = x.batches, t = x.tokens, hk = x.key_heads, hv = x.value_heads, d = x.channels, n = a.n_sequences
    cdef int state = 2 if x.flags & MS_KDA_STATE_BF16 else 4
    cdef int wide = 8 if x.flags & MS_KDA_SNAPSHOTS_64 else 4
    describe(call, Q, x.q, 2, 4, b, t, hk, d)
    describe(call, K, x.k, 2, 4, b, t, hk, d)
    describe(call, V, x.v, 2, 4, b, t, hv, d)
    describe(call, G, x.g, 2, 4, b, t, hv, d)
    describe(call, BETA, x.beta, 2, 3, b, t, hv, 0)
    spread(call, Q, &x.q_strides)
    spread(call, K, &x.k_strides)
    spread(call, V, &x.v_strides)
    spread(call, G, &x.g_strides)
    spread(call, BETA, &x.beta_strides)
    describe(call, A_LOG, x.a_log, 4, 1, hv, 0, 0, 0)
    describe(call, DT_BIAS, x.dt_bias, 4, 2, hv, d, 0, 0)
    describe(call, INITIAL_STATE, x.initial_state, state, 4, a.n_slots, hv, d, d)
    describe(call, CU_SEQLENS, x.cu_seqlens, 8 if x.flags & MS_KDA_CU_SEQLENS_64 else 4, 1, n + 1, 0, 0, 0)
    describe(call, STATE_SLOTS, x.state_slots, 8 if x.flags & MS_KDA_STATE_SLOTS_64 else 4, 1, n, 0, 0, 0)
    describe(call, SNAPSHOT_TOKENS, x.snapshot_tokens, wide, 1, x.n_snapshots, 0, 0, 0)
    describe(call, SNAPSHOT_OFFSETS, x.snapshot_offsets, wide, 1, n + 1, 0, 0, 0)
    describe(call, OUT, x.out, 2, 4, b, t, hv, d)
    describe(call, FINAL_STATE, x.final_state, state, 4, a.n_slots, hv, d, d)
    describe(call, SNAPSHOTS, x.snapshots, 2 if x.flags & MS_KDA_SNAPSHOT_BF16 else 4, 4, x.n_snapshots, hv, d, d)


cdef int check_memory(Call* call, const ms_kda_args* x, bint on_gpu) noexcept nogil:
    """The workspace, and that arrays which are written have memory of their own."""
    cdef uint64_t needed = workspace_bytes(x.batches * x.tokens, x.value_heads, call.host.args.n_sequences)
    cdef uintptr_t alignment = WORKSPACE_ALIGNMENT if on_gpu else HOST_ALIGNMENT
    cdef int which, other
    if needed == 0:
        return write_failure(failure(), MS_ERROR_SHAPE, "tokens, value_heads, sequences: expected sizes whose bytes 64 "
                             "bits can count")
    if x.workspace != NULL:
        if x.workspace_nbytes < needed:
            return write_failure(failure(), MS_ERROR_WORKSPACE, "workspace: too small: expected at least %llu bytes, "
                                 "got %zu", <unsigned long long>needed, x.workspace_nbytes)
        if <uintptr_t>x.workspace % alignment:
            return write_failure(failure(), MS_ERROR_WORKSPACE, "workspace: expected an address aligned to %d bytes, "
                                 "got %p", <int>alignment, x.workspace)
    describe_all(call, x)
    if find_overlap(call, <char*>x.workspace, needed, &which, &other):
        return write_failure(failure(), MS_ERROR_ARGUMENT, "%s: expected memory of its own, got memory shared with %s",
                             <const char*>"workspace" if which < 0 else FIELDS[which], FIELDS[other])
    return 0


# ---- the launches ----

cdef inline Loaded* loaded_of(Traits* where, int channels, int kernel) noexcept nogil:
    return &where.kernels[kernel + (0 if channels == 64 else <int>MAX_KERNELS)]


cdef int plan_call(Object* device, Object* stream, HostCall* call, Plan* plan, void** functions) noexcept nogil:
    """How the call is launched, and its kernels, loaded."""
    cdef Section section
    cdef Traits* where = &traits[device.device] if device.device < CACHED_DEVICES else NULL
    cdef Loaded* kernel
    cdef bint ready = where != NULL and where.known
    cdef int i
    if ready:
        after_flag()
        plan[0] = make_plan(call.args, call.channels, where.n_processors, where.shared_limit, where.target)
        if plan.problem != NULL:
            return write_failure(failure(), MS_ERROR_SHAPE, "args: expected sizes that fit one launch, got too large a "
                                 "%s",
                                 plan.problem)
        for i in range(plan.n_launches):
            kernel = loaded_of(where, call.channels, <int>plan.launch[i].kernel)
            functions[i] = kernel.function
            after_flag()
            ready = ready and functions[i] != NULL and plan.launch[i].shared <= kernel.shared
    if ready:
        return 0
    if not enter(sections, &section):
        return refused()
    return leave(sections, &section, py_plan(device, stream, call, plan, functions))


cdef int py_plan(Object* device, Object* stream, HostCall* call, Plan* plan, void** functions) noexcept with gil:
    cdef Stream on = stream_object(stream)
    cdef KernelSet kernels
    cdef Kernel kernel
    cdef Traits* where = NULL
    cdef Loaded* loaded
    cdef int i, which
    try:
        kernels = kernels_on(device_object(device))
        plan[0] = prepare(kernels, call, on)
        if device.device < CACHED_DEVICES:
            where = &traits[device.device]
            where.n_processors, where.shared_limit = kernels.n_processors, kernels.shared_limit
            where.target = kernels.target
        for i in range(plan.n_launches):
            kernel = kernels.get(call.channels, &plan.launch[i], on)
            functions[i] = <void*>kernel.function_on(on.device, on)
            which = <int>plan.launch[i].kernel
            if where != NULL and which < MAX_KERNELS:
                loaded = loaded_of(where, call.channels, which)
                loaded.shared = max(loaded.shared, plan.launch[i].shared)
                before_flag()
                loaded.function = functions[i]
        if where != NULL:
            before_flag()
            where.known = True
        return 0
    except BaseException as error:
        return caught(error)


cdef int launch_all(Object* device, Object* stream, HostCall* call, const Plan* plan, void** functions) noexcept nogil:
    cdef Shape shape
    cdef void* params[1]
    cdef int i, code
    params[0] = &call.args
    for i in range(plan.n_launches):
        memset(&shape, 0, sizeof(shape))
        shape.grid[0], shape.grid[1], shape.grid[2] = plan.launch[i].grid, 1, 1
        shape.block[0], shape.block[1], shape.block[2] = plan.launch[i].block, 1, 1
        shape.shared, shape.early = plan.launch[i].shared, plan.launch[i].early
        code = plain.launch(device.context, functions[i], &shape, stream.native, params)
        if code != 0:
            return driver_failed(code, launch_name(&shape), "a kernel of Kimi Delta Attention")
    return 0 if n_recordings == 0 else keep(device, stream, call, plan)


cdef int keep(Object* device, Object* stream, HostCall* call, const Plan* plan) noexcept nogil:
    """Let a capture of madspace know of the kernels."""
    cdef Section section
    if not enter(sections, &section):
        return refused()
    return leave(sections, &section, py_keep(device, stream, call, plan))


cdef int py_keep(Object* device, Object* stream, HostCall* call, const Plan* plan) noexcept with gil:
    cdef Stream on = stream_object(stream)
    cdef int i
    try:
        for i in range(plan.n_launches):
            note_image(on, kernels_on(on.device).get(call.channels, &plan.launch[i], on).module.image_)
        return 0
    except BaseException as error:
        return caught(error)


cdef int run_on_device(Object* device, Object* stream, HostCall* call, const ms_kda_args* args) noexcept nogil:
    cdef Plan plan
    cdef void* functions[MAX_LAUNCHES]
    cdef void* scratch = NULL
    cdef int freed
    cdef int code = plan_call(device, stream, call, &plan, functions)
    if code != 0 or plan.n_launches == 0:
        return code
    call.args.records = <char*>args.workspace
    if args.workspace == NULL and plan.workspace_bytes > 0:
        code = allocate_on(device, plan.workspace_bytes, stream, &scratch)
        if code != 0:
            return code
        call.args.records = <char*>scratch
    code = launch_all(device, stream, call, &plan, functions)
    if scratch != NULL:
        freed = free_on(device, scratch, stream)
        code = code if code != 0 else freed
    return code


# ---- the functions of the table ----

cdef int workspace_size(int64_t tokens, int64_t value_heads, int64_t sequences, size_t* nbytes) noexcept nogil:
    cdef uint64_t needed
    if nbytes == NULL:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "nbytes: expected an address, got NULL")
    if tokens < 0 or value_heads < 0 or sequences < 0:
        return write_failure(failure(), MS_ERROR_ARGUMENT, "tokens, value_heads, sequences: expected 0 or more, got "
                             "%lld, %lld and %lld", <long long>tokens, <long long>value_heads, <long long>sequences)
    needed = workspace_bytes(tokens, value_heads, sequences)
    if needed == 0:
        return write_failure(failure(), MS_ERROR_SHAPE, "tokens, value_heads, sequences: expected sizes whose bytes 64 "
                             "bits can count, got %lld, %lld and %lld", <long long>tokens, <long long>value_heads,
                             <long long>sequences)
    nbytes[0] = needed
    return 0


cdef int forward(ms_device device, const ms_kda_args* args, ms_stream stream) noexcept nogil:
    cdef ms_kda_args own
    cdef Call call
    cdef Object* on
    cdef int code
    cdef Object* where = find_place(device, stream, &on)
    if where == NULL:
        return failure().status
    code = copy_kda_args(args, &own, failure())
    if code == 0:
        code = read_kda(&own, not is_cpu(where), &call.host, failure())
    if code == 0:
        code = check_memory(&call, &own, not is_cpu(where))
    if code != 0:
        return code
    if not is_cpu(where):
        return run_on_device(where, on, &call.host, &own)
    run_on_host(&call.host)
    return 0

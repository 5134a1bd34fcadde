"""The arrays of a call: their types, shapes, strides and alignment, and what the kernels get of them."""

from libc.stdint cimport int64_t, uint16_t, uintptr_t

from madspace.core._dtypes cimport CODE_BFLOAT, CODE_FLOAT, CODE_INT, dtype_name
from madspace.core._layout cimport is_compact, product_overflows
from madspace.core._operand cimport Intake, Operand, shape_of, strides_told
from madspace.kda._args cimport (
    Args, Strides, kMaxHostChannels, kOffsets64, kSlots64, kSnapshotBf16, kSnapshotOffsets64, kStateBf16,
)
from madspace.kda._sizes cimport states_fit, steps_fit

from madspace.errors import DTypeError, ShapeError


cdef enum:
    GPU_ALIGNMENT = 16           # of rows and of states: the kernels move 16 bytes at a time
    MAX_HEADS = 2147483647

NAMES = (
    "q", "k", "v", "g", "beta", "A_log", "dt_bias", "initial_state", "cu_seqlens", "state_slots",
    "intermediate_tokens", "intermediate_offsets", "out", "final_state", "intermediate_state",
)


cdef int read_arrays(Call* call, Intake intake, tuple arrays, bint activated) except -1:
    cdef int i
    for i in range(N_ARRAYS):
        array = arrays[i]
        call.given[i] = array is not None or i <= BETA      # what must be there is refused where it is None
        if call.given[i]:
            intake.take(&call.arrays[i], array, <str>NAMES[i], i >= N_INPUTS)
            if i >= N_INPUTS and call.arrays[i].readonly:
                raise ValueError(f"{NAMES[i]}: expected a writable array, got a read-only one")
    read_tokens(call, intake.device is not None)
    read_gates(call, activated)
    read_sequences(call)
    read_states(call, intake.device is not None)
    read_snapshots(call, intake.device is not None)
    return 0


cdef int read_tokens(Call* call, bint on_gpu) except -1:
    """Read q, k, v, g, beta and out."""
    cdef Args* args = &call.host.args
    cdef Operand* x = call.arrays
    cdef int64_t b, t, hk, hv, d
    cdef int i
    for i in range(BETA + 1):
        expect_dtype(x, i, CODE_BFLOAT, 16)
    if x[Q].ndim != 4:
        raise ShapeError(f"q: expected shape [B, T, HK, D], got {shape_of(&x[Q])}")
    if x[V].ndim != 4:
        raise ShapeError(f"v: expected shape [B, T, HV, D], got {shape_of(&x[V])}")
    b, t, hk, d = x[Q].shape[0], x[Q].shape[1], x[Q].shape[2], x[Q].shape[3]
    hv = x[V].shape[2]
    if on_gpu and d != 64 and d != 128 or d < 1 or d > kMaxHostChannels:
        rule = "64 or 128 channels on a GPU" if on_gpu else f"1 to {kMaxHostChannels} channels"
        raise ShapeError(f"q: expected {rule}, got {d}")
    if not 1 <= hk <= MAX_HEADS:
        raise ShapeError(f"q: expected 1 to {MAX_HEADS} heads, got {hk}")
    if not 1 <= hv <= MAX_HEADS or hv % hk != 0:
        raise ShapeError(f"v: expected heads that are a multiple of q's {hk} (and at most {MAX_HEADS}), got {hv}")
    expect_shape(x, K, 4, b, t, hk, d)
    expect_shape(x, V, 4, b, t, hv, d)
    expect_shape(x, G, 4, b, t, hv, d)
    expect_shape(x, BETA, 3, b, t, hv, 0)
    if product_overflows(b, t, &call.total):
        raise ShapeError(f"q: expected sizes whose bytes 64 bits can count, got {b} times {t} tokens")
    for i in range(G + 1):
        expect_rows(x, i, on_gpu)
    expect_aligned(x, BETA, 2)
    expect_reach(x, BETA)
    if call.given[OUT]:
        expect_dtype(x, OUT, CODE_BFLOAT, 16)
        expect_shape(x, OUT, 4, b, t, hv, d)
        expect_compact(x, OUT, GPU_ALIGNMENT if on_gpu else 2)
        args.out = <uint16_t*>x[OUT].data
    args.q, args.k = <uint16_t*>x[Q].data, <uint16_t*>x[K].data
    args.v, args.g = <uint16_t*>x[V].data, <uint16_t*>x[G].data
    args.beta = <uint16_t*>x[BETA].data
    args.q_stride, args.k_stride = strides_of(&x[Q]), strides_of(&x[K])
    args.v_stride, args.g_stride = strides_of(&x[V]), strides_of(&x[G])
    args.beta_stride = strides_of(&x[BETA])
    args.batches, args.tokens = b, t
    args.key_heads, args.value_heads = <int>hk, <int>hv
    call.host.channels = <int>d
    return 0


cdef int read_gates(Call* call, bint activated) except -1:
    """Read A_log and dt_bias, which are there unless the gate is activated already."""
    cdef Operand* x = call.arrays
    cdef int64_t heads = call.host.args.value_heads
    if activated:
        return 0
    expect_dtype(x, A_LOG, CODE_FLOAT, 32)
    expect_shape(x, A_LOG, 1, heads, 0, 0, 0)
    expect_compact(x, A_LOG, 4)
    expect_dtype(x, DT_BIAS, CODE_FLOAT, 32)
    expect_shape(x, DT_BIAS, 2, heads, call.host.channels, 0, 0)
    expect_compact(x, DT_BIAS, 4)
    call.host.args.a_log = <float*>x[A_LOG].data
    call.host.args.dt_bias = <float*>x[DT_BIAS].data
    return 0


cdef int read_sequences(Call* call) except -1:
    """Read cu_seqlens and state_slots."""
    cdef Args* args = &call.host.args
    cdef Operand* x = call.arrays
    args.n_sequences = args.batches
    if call.given[CU_SEQLENS]:
        if args.batches != 1:
            raise ShapeError(f"q: expected B = 1 with cu_seqlens, got {args.batches}")
        args.flags |= kOffsets64 if expect_index(x, CU_SEQLENS) else 0
        if x[CU_SEQLENS].ndim != 1 or x[CU_SEQLENS].shape[0] < 1:
            raise ShapeError(f"cu_seqlens: expected shape [N + 1], got {shape_of(&x[CU_SEQLENS])}")
        expect_compact(x, CU_SEQLENS, x[CU_SEQLENS].bits // 8)
        args.cu_seqlens = x[CU_SEQLENS].data
        args.n_sequences = x[CU_SEQLENS].shape[0] - 1
    if call.given[STATE_SLOTS]:
        if not call.given[INITIAL_STATE] and not call.given[FINAL_STATE]:
            raise TypeError("state_slots: expected initial_state or final_state beside it, got neither")
        args.flags |= kSlots64 if expect_index(x, STATE_SLOTS) else 0
        expect_shape(x, STATE_SLOTS, 1, args.n_sequences, 0, 0, 0)
        expect_compact(x, STATE_SLOTS, x[STATE_SLOTS].bits // 8)
        args.state_slots = x[STATE_SLOTS].data
    return 0


cdef int read_states(Call* call, bint on_gpu) except -1:
    """Read initial_state and final_state."""
    cdef Args* args = &call.host.args
    cdef Operand* x = call.arrays
    cdef int64_t d = call.host.channels
    cdef int i
    args.n_slots = args.n_sequences
    for i in (INITIAL_STATE, FINAL_STATE):
        if not call.given[i]:
            continue
        args.flags |= kStateBf16 if expect_state(x, i) else 0
        if call.given[STATE_SLOTS] and x[i].ndim == 4 and (i == INITIAL_STATE or not call.given[INITIAL_STATE]):
            args.n_slots = x[i].shape[0]        # of a pool; the second one must have as many
        expect_shape(x, i, 4, args.n_slots, args.value_heads, d, d)
        expect_countable(x, i, args.value_heads)
        expect_compact(x, i, GPU_ALIGNMENT if on_gpu else x[i].bits // 8)
    if call.given[INITIAL_STATE]:
        args.initial_state = x[INITIAL_STATE].data
    if call.given[FINAL_STATE]:
        args.final_state = x[FINAL_STATE].data
    if call.given[INITIAL_STATE] and call.given[FINAL_STATE] and x[INITIAL_STATE].bits != x[FINAL_STATE].bits:
        raise DTypeError(f"final_state: expected the dtype of initial_state, {told_dtype(&x[INITIAL_STATE])}, "
                         f"got {told_dtype(&x[FINAL_STATE])}")
    return 0


cdef int read_snapshots(Call* call, bint on_gpu) except -1:
    """Read intermediate_state, intermediate_tokens and intermediate_offsets: all or none."""
    cdef Args* args = &call.host.args
    cdef Operand* x = call.arrays
    cdef int64_t n, d = call.host.channels
    cdef bint wide
    if not (call.given[SNAPSHOTS] or call.given[SNAPSHOT_TOKENS] or call.given[SNAPSHOT_OFFSETS]):
        return 0
    for i in (SNAPSHOTS, SNAPSHOT_TOKENS, SNAPSHOT_OFFSETS):
        if not call.given[i]:
            raise TypeError(f"{NAMES[i]}: expected an array, since intermediate_state, intermediate_tokens and "
                            "intermediate_offsets come together, got None")
    args.flags |= kSnapshotBf16 if expect_state(x, SNAPSHOTS) else 0
    n = x[SNAPSHOTS].shape[0] if x[SNAPSHOTS].ndim > 0 else 0
    expect_shape(x, SNAPSHOTS, 4, n, args.value_heads, d, d)
    expect_countable(x, SNAPSHOTS, args.value_heads)
    expect_compact(x, SNAPSHOTS, GPU_ALIGNMENT if on_gpu else x[SNAPSHOTS].bits // 8)
    wide = expect_index(x, SNAPSHOT_TOKENS)
    args.flags |= kSnapshotOffsets64 if wide else 0
    if expect_index(x, SNAPSHOT_OFFSETS) != wide:
        raise DTypeError(f"intermediate_offsets: expected the dtype of intermediate_tokens, "
                         f"{told_dtype(&x[SNAPSHOT_TOKENS])}, got {told_dtype(&x[SNAPSHOT_OFFSETS])}")
    expect_shape(x, SNAPSHOT_TOKENS, 1, n, 0, 0, 0)
    expect_shape(x, SNAPSHOT_OFFSETS, 1, args.n_sequences + 1, 0, 0, 0)
    expect_compact(x, SNAPSHOT_TOKENS, x[SNAPSHOT_TOKENS].bits // 8)
    expect_compact(x, SNAPSHOT_OFFSETS, x[SNAPSHOT_OFFSETS].bits // 8)
    args.snapshots = x[SNAPSHOTS].data
    args.snapshot_tokens = x[SNAPSHOT_TOKENS].data
    args.snapshot_offsets = x[SNAPSHOT_OFFSETS].data
    args.n_snapshots = n
    return 0


cdef int expect_dtype(Operand* x, int i, int code, int bits) except -1:
    if x[i].code != code or x[i].bits != bits:
        raise DTypeError(f"{NAMES[i]}: expected dtype {dtype_name(code, bits)}, got {told_dtype(&x[i])}")
    return 0


cdef bint expect_state(Operand* x, int i) except -1:
    """Return whether it is bfloat16; else it is float32."""
    if x[i].code == CODE_BFLOAT and x[i].bits == 16:
        return True
    if x[i].code == CODE_FLOAT and x[i].bits == 32:
        return False
    raise DTypeError(f"{NAMES[i]}: expected dtype bfloat16 or float32, got {told_dtype(&x[i])}")


cdef bint expect_index(Operand* x, int i) except -1:
    """Return whether it is int64; else it is int32."""
    if x[i].code == CODE_INT and (x[i].bits == 64 or x[i].bits == 32):
        return x[i].bits == 64
    raise DTypeError(f"{NAMES[i]}: expected dtype int32 or int64, got {told_dtype(&x[i])}")


cdef int expect_shape(Operand* x, int i, int ndim, int64_t n0, int64_t n1, int64_t n2, int64_t n3) except -1:
    cdef int64_t* shape = x[i].shape
    if x[i].ndim == ndim and shape[0] == n0 and (ndim < 2 or shape[1] == n1) and (ndim < 3 or shape[2] == n2) and (
            ndim < 4 or shape[3] == n3):
        return 0
    raise ShapeError(f"{NAMES[i]}: expected shape {(n0, n1, n2, n3)[:ndim]}, got {shape_of(&x[i])}")


cdef int expect_rows(Operand* x, int i, bint on_gpu) except -1:
    """Let any strides pass but that of the channels."""
    cdef int k
    cdef int64_t unit = GPU_ALIGNMENT // 2 if on_gpu else 1
    if x[i].shape[3] > 1 and x[i].strides[3] != 1 and x[i].shape[0] * x[i].shape[1] > 0:
        raise ShapeError(f"{NAMES[i]}: expected channels that are contiguous, got strides {strides_told(&x[i])} "
                         "(in elements)")
    expect_aligned(x, i, 2 * unit)
    expect_reach(x, i)
    for k in range(3):
        if x[i].shape[k] > 1 and x[i].strides[k] % unit != 0:
            raise ShapeError(f"{NAMES[i]}: expected rows aligned to {2 * unit} bytes, got strides "
                             f"{strides_told(&x[i])} (in elements of 2 bytes)")
    return 0


cdef int expect_reach(Operand* x, int i) except -1:
    """Refuse steps whose bytes do not fit: what lies where is computed in 64 bits."""
    cdef int k
    for k in range(3):
        if x[i].shape[k] > 1 and not steps_fit(x[i].shape[k], x[i].strides[k]):
            raise ShapeError(f"{NAMES[i]}: expected steps that 64 bits can count, got strides {strides_told(&x[i])} "
                             "(in elements)")
    return 0


cdef int expect_countable(Operand* x, int i, int64_t heads) except -1:
    """Refuse states whose bytes 64 bits cannot count."""
    if not states_fit(x[i].shape[0], heads):
        raise ShapeError(f"{NAMES[i]}: expected states whose bytes 64 bits can count, got {x[i].shape[0]} of {heads} "
                         "heads")
    return 0


cdef int expect_compact(Operand* x, int i, int alignment) except -1:
    if not is_compact(x[i].ndim, x[i].shape, x[i].strides):
        raise ShapeError(f"{NAMES[i]}: expected contiguous memory, got shape {shape_of(&x[i])} with strides "
                         f"{strides_told(&x[i])} (in elements)")
    return expect_aligned(x, i, alignment)


cdef int expect_aligned(Operand* x, int i, int64_t alignment) except -1:
    if <uintptr_t>x[i].data % <uintptr_t>alignment != 0:
        raise ShapeError(f"{NAMES[i]}: expected data aligned to {alignment} bytes, got {<uintptr_t>x[i].data:#x}")
    return 0


cdef inline Strides strides_of(Operand* x) noexcept:
    """Return the strides of batch, token and head; 0 where there is but one, which may come with any stride."""
    cdef Strides strides
    strides.batch = x.strides[0] if x.shape[0] > 1 else 0
    strides.token = x.strides[1] if x.shape[1] > 1 else 0
    strides.head = x.strides[2] if x.shape[2] > 1 else 0
    return strides


cdef str told_dtype(Operand* x):
    return dtype_name(x.code, x.bits)

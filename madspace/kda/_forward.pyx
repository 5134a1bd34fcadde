"""fwd: one call of Kimi Delta Attention, from the arguments to the launch."""

from libc.math cimport isfinite
from libc.stdint cimport int64_t, uint16_t
from libc.string cimport memset

from madspace.core._dtypes cimport CODE_BFLOAT
from madspace.core._operand cimport Intake, hand_over
from madspace.core.tensor cimport Tensor, empty_device, empty_host
from madspace.core.workspace cimport Workspace, as_workspace
from madspace.kda._args cimport Args, Plan, kActivated, kNormalize
from madspace.kda._check cimport (
    Call, CU_SEQLENS, FINAL_STATE, N_INPUTS, SNAPSHOT_OFFSETS, SNAPSHOT_TOKENS, STATE_SLOTS, read_arrays,
)
from madspace.kda._launch cimport KernelSet, kernels_on, launch, prepare, run_on_host
from madspace.kda._memo cimport Known, place_of, recall, remember
from madspace.kda._overlap cimport refuse_overlaps
from madspace.kda._sizes cimport required_workspace


cdef enum:
    DEVICE_CPU = 1
    DEVICE_CUDA = 2
    WORKSPACE_ALIGNMENT = 128    # of a record

cdef double LOWEST_BOUND = -5.0  # exp(5 * 16) is still a bfloat16, and the chunks have 16 tokens


def fwd(q, k, v, g, beta, scale, out=None, A_log=None, dt_bias=None, lower_bound=None, initial_state=None,
        final_state=None, cu_seqlens=None, workspace=None, *, state_slots=None, intermediate_state=None,
        intermediate_tokens=None, intermediate_offsets=None, bint use_qk_l2norm=True, bint gate_activated=False,
        bint validate=False, stream=None):
    """Compute Kimi Delta Attention: for each token the state decays, learns its value, and answers its query.

    Parameters
    ----------
    q, k : array, shape (B, T, HK, D), bfloat16
        Queries and keys. D is 64 or 128 on a GPU, 1 to 256 on the CPU.
    v, g : array, shape (B, T, HV, D), bfloat16
        Values, and gates before their activation. HV is a multiple of HK: head h uses q and k of head
        ``h // (HV // HK)``. These four may have any strides but along D, where they are contiguous; on a GPU rows start
        at multiples of 16 bytes.
    beta : array, shape (B, T, HV), bfloat16, any strides
        Logits of how much of a value is learnt.
    scale : float
        Of the queries; ``D**-0.5`` is usual.
    out : array, shape (B, T, HV, D), bfloat16, optional
        Where the result goes; made if left out.
    A_log : array, shape (HV,), float32
        Logarithm of the gates' rate. This and the next two are required, but for ``gate_activated=True``.
    dt_bias : array, shape (HV, D), float32
        Added to the gates.
    lower_bound : float
        The most negative log decay of a token, -5 <= lower_bound < 0.
    initial_state : array, shape (N, HV, D, D), bfloat16 or float32, optional
        State of each sequence before its first token, value channels first; zero if left out. ``N`` is B, or
        ``len(cu_seqlens) - 1``.
    final_state : array, as initial_state, optional
        Where the states after the last tokens go; may be `initial_state` itself.
    cu_seqlens : array, shape (N + 1,), int32 or int64, optional
        Sequences packed into one batch (B = 1): sequence n has tokens ``cu_seqlens[n]`` to ``cu_seqlens[n + 1]``.
    workspace : Workspace or array, uint8, optional
        At least `get_workspace_size` bytes on the device, aligned to 128 bytes. Without one a call allocates what it
        needs. Not used on the CPU.
    state_slots : array, shape (N,), int32 or int64, optional
        The states are pools of shape (P, HV, D, D) then, and sequence n has place ``state_slots[n]``. One whose place
        is negative or not below P starts from zero, and its final state is not written.
    intermediate_state : array, shape (M, HV, D, D), bfloat16 or float32, optional
        Where states within the sequences go; together with the next two.
    intermediate_tokens : array, shape (M,), int32 or int64
        After how many tokens of their sequence: multiples of 16, ascending within a sequence. Others, and those
        beyond the sequence, are not written.
    intermediate_offsets : array, shape (N + 1,), dtype as intermediate_tokens
        Sequence n has the states ``intermediate_offsets[n]`` to ``intermediate_offsets[n + 1]``.
    use_qk_l2norm : bool
        Whether q and k are divided by their norms, ``sqrt(sum(x**2) + 1e-6)``.
    gate_activated : bool
        Whether `g` holds the log decay itself (natural logarithm), used within [-5, 0].
    validate : bool
        Whether the contents of the integer arrays are checked. **Waits** for the device.
    stream : optional
        Where GPU work is queued: a `madspace.Stream`, a handle, anything with ``__cuda_stream__``, a torch stream. By
        default that of a ``with madspace.stream`` block, else the current stream of the framework that owns `q`, else
        the device's own stream.

    Returns
    -------
    array, shape (B, T, HV, D), bfloat16
        `out` itself where it was given, else an array of q's kind on q's device.

    Raises
    ------
    TypeError
        A_log, dt_bias or lower_bound is missing (or given with ``gate_activated=True``); one argument of a group is
        missing; an argument is no array or no number.
    ShapeError
        An array has a wrong shape, is not contiguous where it must be, or not aligned.
    DTypeError
        An array has a wrong dtype.
    DeviceMismatchError
        Not all arrays are on q's device.
    WorkspaceError
        The workspace is too small, of another dtype, not contiguous, misaligned, read-only or on another device.
    ValueError
        `scale` is not finite or `lower_bound` out of range; an array that is written is read-only or shares memory with
        another one; `validate` found something; `stream` is given for arrays on the CPU.
    ClosedError, CaptureError, OutOfMemoryError, DriverError
        As from other ops.

    Notes
    -----
    With the decay ``a = lower_bound * sigmoid(exp(A_log) * (g + dt_bias))`` and normalised q and k, for each token
    ``S <- S * exp(a)``; ``S <- S + sigmoid(beta) * (v - S k) k^T``; ``o = scale * S q``.

    Asynchronous on a GPU: one or two launches, nothing waited for; with `out` and `workspace` given nothing is
    allocated either, so a call can be captured as it is. On the CPU it returns when the result is there, computed in
    float32 on ``MADSPACE_NUM_THREADS`` threads. The same bits come out for the same input on the same device.

    By default the contents of `cu_seqlens` and the other integer arrays are not read on the host. Whatever they are,
    nothing outside of the arrays is touched: offsets are clamped to what there is and to their predecessors, and rows
    of `out` that no sequence covers are left as they were. See `madspace.kda` for workspaces and numerics.

    Source: Kimi Team, Kimi Linear, arXiv:2510.26692.

    Examples
    --------
    >>> import ml_dtypes, numpy as np
    >>> from madspace import kda
    >>> draw = np.random.default_rng(1).standard_normal
    >>> q, k, v, g = (draw((1, 100, 2, 64)).astype(ml_dtypes.bfloat16) for _ in range(4))
    >>> beta = draw((1, 100, 2)).astype(ml_dtypes.bfloat16)
    >>> states = np.zeros((1, 2, 64, 64), np.float32)
    >>> o = kda.fwd(q, k, v, g, beta, 64**-0.5, A_log=np.zeros(2, np.float32), dt_bias=np.zeros((2, 64), np.float32),
    ...             lower_bound=-5.0, final_state=states)
    >>> o.shape, o.dtype
    ((1, 100, 2, 64), dtype(bfloat16))
    """
    cdef Call call
    cdef Args* args = &call.host.args
    cdef Plan plan
    cdef Intake intake = Intake.__new__(Intake)
    cdef Workspace lent = None
    cdef KernelSet kernels = None
    cdef Tensor made = None
    cdef char* scratch = NULL
    cdef int64_t required
    cdef Known* known = NULL
    cdef unsigned int flags
    cdef bint is_known = False
    memset(&call.given, 0, sizeof(call.given))
    memset(&call.host, 0, sizeof(call.host))
    read_numbers(args, scale, A_log, dt_bias, lower_bound, use_qk_l2norm, gate_activated)
    intake.owns = validate          # check_contents() takes Tensors
    intake.locate(q, "q")
    if intake.device_type != DEVICE_CPU and intake.device_type != DEVICE_CUDA:
        raise TypeError(f"q: expected an array on the CPU or a CUDA tensor, got DLPack device type "
                        f"{intake.device_type}")
    intake.choose(stream, q)
    arrays = (q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens, state_slots, intermediate_tokens,
              intermediate_offsets, out, final_state, intermediate_state)
    if workspace is not None:
        lent = as_workspace(workspace, intake.stream, "workspace")
        if lent.lease_ is not None:
            scratch = <char*>lent.lease_.tensor.data_
    if intake.device is not None:
        kernels = kernels_on(intake.device)
        if not validate:
            known = place_of(arrays)
            is_known = known != NULL and recall(known, arrays, args, scratch)
    if is_known:
        required, call.host, plan = known.required, known.host, known.plan      # before another thread's call is there
        intake.take_known(arrays, N_INPUTS)
    else:
        flags = args.flags
        read_arrays(&call, intake, arrays, gate_activated)
        required = <int64_t>required_workspace(call.total, args.value_heads, args.n_sequences)
    if lent is not None:
        lent.check(intake.device, required, intake.stream, "workspace", WORKSPACE_ALIGNMENT)
    if not is_known:
        refuse_overlaps(&call, scratch, required)
        if validate:
            check_indices(&call, intake)
        if kernels is not None:
            plan = prepare(kernels, &call.host, intake.stream)
        if known != NULL:
            remember(known, arrays, flags, scratch, required, &call.host, &plan)
    if out is None:
        made = make_out(&call, intake)
    if intake.device is None:
        with nogil:
            run_on_host(&call.host)
    else:
        launch(kernels, &plan, &call.host, intake, lent)
    # After the launch: a framework that takes the result over orders itself behind what is queued by then.
    return out if made is None else hand_over(made, q, intake.stream_of(q))


cdef int read_numbers(Args* args, object scale, object A_log, object dt_bias, object lower_bound, bint normalize,
                      bint activated) except -1:
    args.flags = (kNormalize if normalize else 0) | (kActivated if activated else 0)
    args.scale = <float>number("scale", scale)
    if not isfinite(args.scale):
        raise ValueError(f"scale: expected a finite number, got {scale!r}")
    if activated:
        for name, value in (("A_log", A_log), ("dt_bias", dt_bias), ("lower_bound", lower_bound)):
            if value is not None:
                raise TypeError(f"{name}: expected None with gate_activated=True, got {type(value).__name__}")
        args.lower_bound = <float>LOWEST_BOUND
        return 0
    if A_log is None or dt_bias is None or lower_bound is None:
        raise TypeError(missing_told(A_log, dt_bias, lower_bound))
    bound = number("lower_bound", lower_bound)
    if not LOWEST_BOUND <= bound < 0.0:
        raise ValueError(f"lower_bound: expected a number from -5 to below 0, got {lower_bound!r}")
    args.lower_bound = <float>bound
    return 0


cdef double number(str name, object value) except? -1.0:
    if type(value) is float:
        return <double>value
    try:
        if isinstance(value, (str, bytes)):     # float() would read them
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name}: expected a number, got {value!r}") from None


cdef str missing_told(object A_log, object dt_bias, object lower_bound):
    """Python's own words for arguments that are not there."""
    given = {"A_log": A_log, "dt_bias": dt_bias, "lower_bound": lower_bound}
    names = [repr(name) for name, value in given.items() if value is None]
    told = names[0] if len(names) == 1 else " and ".join(names) if len(names) == 2 else \
        f"{names[0]}, {names[1]}, and {names[2]}"
    return f"fwd() missing {len(names)} required positional argument{'s' if len(names) > 1 else ''}: {told}"


cdef Tensor make_out(Call* call, Intake intake):
    cdef Args* args = &call.host.args
    cdef int64_t shape[4]
    cdef Tensor tensor
    shape[0], shape[1], shape[2], shape[3] = args.batches, args.tokens, args.value_heads, call.host.channels
    if intake.device is None:
        tensor = empty_host(CODE_BFLOAT, 16, 4, shape)
    else:
        tensor = empty_device(intake.device, intake.stream, CODE_BFLOAT, 16, 4, shape)
        intake.writes_.append(tensor)
    args.out = <uint16_t*>tensor.data_
    return tensor


cdef int check_indices(Call* call, Intake intake) except -1:
    from madspace.kda._validate import check_contents       # who validates has the time

    tokens = call.host.args.tokens
    snapshots = None
    if call.given[SNAPSHOT_TOKENS]:
        snapshots = taken(call, intake, SNAPSHOT_TOKENS), taken(call, intake, SNAPSHOT_OFFSETS)
    check_contents(tokens, taken(call, intake, CU_SEQLENS), taken(call, intake, STATE_SLOTS),
                   call.host.args.n_slots if call.given[FINAL_STATE] else 0, snapshots)
    return 0


cdef Tensor taken(Call* call, Intake intake, int which):
    """Find an input where take() has put it; None where it was not given."""
    cdef int i, position = 0
    if not call.given[which]:
        return None
    for i in range(which):
        position += call.given[i]
    return intake.reads_[position]

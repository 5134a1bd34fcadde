"""How large a workspace has to be, and one of that size."""

from operator import index

from libc.stdint cimport int64_t, uint64_t

from madspace.core._dtypes cimport CODE_BFLOAT, CODE_UINT, dtype_name
from madspace.core._layout cimport product_overflows
from madspace.core._operand cimport Intake, Operand, hand_over
from madspace.core.tensor cimport Tensor, empty_device, empty_host
from madspace.kda._args cimport workspace_size

from madspace.errors import DTypeError, ShapeError


# The channels of the GPU kernels whose workspace is the larger one; what a token or a state can take at most, in the
# workspace (each sequence has a record of its own beside those of its chunks) or in the arrays: no size in bytes leaves
# 62 bits.
cdef extern from *:
    """
    #include "kda/host_call.h"
    #include "kda/plan.h"

    namespace {
    enum { kMostChannels = 128, kBytesOfToken = 2048, kBytesOfState = 262144 };
    using MostRecord = madspace::kda::Record<kMostChannels>;
    static_assert(MostRecord::kBytes <= kBytesOfToken * madspace::kda::kChunk, "bytes of the workspace for a token");
    static_assert(MostRecord::kBytes <= kBytesOfState, "bytes of the workspace for a sequence");
    static_assert(madspace::kda::kMaxHostChannels * sizeof(float) <= kBytesOfToken, "bytes of an array for a token");
    static_assert(madspace::kda::kMaxHostChannels * madspace::kda::kMaxHostChannels * sizeof(float) <= kBytesOfState,
                  "bytes of an array for a state");
    }
    """
    enum:
        MAX_CHANNELS "kMostChannels"
        BYTES_OF_TOKEN "kBytesOfToken"
        BYTES_OF_STATE "kBytesOfState"

cdef int64_t LARGEST = 1LL << 62
cdef int64_t MOST_TOKENS = LARGEST // BYTES_OF_TOKEN
cdef int64_t MOST_STATES = LARGEST // BYTES_OF_STATE
cdef int64_t MOST_STEPS = LARGEST // 8      # elements of two bytes, along each of three axes


cdef bint states_fit(int64_t n, int64_t heads) noexcept nogil:
    cdef int64_t states = 0
    return not product_overflows(n, heads, &states) and states <= MOST_STATES


cdef bint steps_fit(int64_t n, int64_t step) noexcept nogil:
    cdef int64_t reach = 0
    return not product_overflows(n - 1, step, &reach) and -MOST_STEPS <= reach <= MOST_STEPS


cdef uint64_t workspace_bytes(int64_t total, int64_t heads, int64_t n_sequences) noexcept nogil:
    cdef int64_t elements = 0
    if (product_overflows(total, heads, &elements) or elements > MOST_TOKENS
            or not states_fit(n_sequences, heads)):
        return 0
    return workspace_size(total, heads, n_sequences, MAX_CHANNELS)


cdef uint64_t required_workspace(int64_t total, int64_t heads, int64_t n_sequences) except 0:
    cdef uint64_t nbytes = workspace_bytes(total, heads, n_sequences)
    if nbytes == 0:
        raise ShapeError(f"q: expected sizes whose bytes 64 bits can count, got {total} tokens, {heads} value heads "
                         f"and {n_sequences} sequences")
    return nbytes


def get_workspace_size(T_total, H, N=1):
    """Tell how many bytes of workspace `fwd` needs.

    Parameters
    ----------
    T_total : int
        Tokens in all, ``B * T``.
    H : int
        Heads of v (of all arrays, where there are as many of q and k).
    N : int
        Sequences: ``B``, or ``len(cu_seqlens) - 1``.

    Returns
    -------
    int
        Bytes. They need not grow with the sizes: where there are many heads and sequences the kernel hands nothing
        over in memory, and 128 bytes will do.

    Raises
    ------
    ValueError
        For a negative number, or sizes that 64 bits cannot count.
    TypeError
        For what is no int.

    Examples
    --------
    >>> from madspace import kda
    >>> kda.get_workspace_size(8192, 96)
    128
    """
    return required_workspace(checked("T_total", T_total), checked("H", H), checked("N", N))


cdef int64_t checked(str name, object number) except -1:
    try:
        value = index(number)
    except TypeError:
        raise TypeError(f"{name}: expected an int, got {number!r}") from None
    if not 0 <= value <= LARGEST:
        raise ValueError(f"{name}: expected 0 to 2**62, got {value}")
    return value


def allocate_workspace(q, cu_seqlens=None):
    """Make a workspace for calls of `fwd` with arrays like these.

    Parameters
    ----------
    q : array, shape (B, T, H, D), bfloat16
        The array that `fwd` will get, on the CPU or a GPU; `v` in its place, where that has more heads.
    cu_seqlens : array, shape (N + 1,), optional
        As for `fwd`; only its length is looked at.

    Returns
    -------
    array, shape (nbytes,), uint8
        Of q's kind and on q's device, with undefined contents: `get_workspace_size` bytes.

    Raises
    ------
    ShapeError, DTypeError
        When `q` or `cu_seqlens` is not of this kind.
    DeviceMismatchError
        When they lie on different devices.
    TypeError
        When one of them is no array.
    OutOfMemoryError
        When the device has no room (`MemoryError` on the host).

    Notes
    -----
    On a GPU allocated in stream order, on the stream that `fwd` would choose for `q`.

    Examples
    --------
    >>> import ml_dtypes, numpy as np
    >>> from madspace import kda
    >>> kda.allocate_workspace(np.zeros((1, 256, 1, 128), ml_dtypes.bfloat16)).nbytes == kda.get_workspace_size(256, 1)
    True
    """
    cdef Operand x
    cdef Operand offsets
    cdef Intake intake = Intake.__new__(Intake)
    cdef Tensor workspace
    cdef int64_t n_sequences, total, nbytes
    intake.locate(q, "q")
    intake.choose(None, q)
    intake.take(&x, q, "q", False)
    if x.code != CODE_BFLOAT or x.bits != 16:
        raise DTypeError(f"q: expected dtype bfloat16, got {dtype_name(x.code, x.bits)}")
    if x.ndim != 4:
        raise ShapeError(f"q: expected shape (B, T, H, D), got {x.ndim} dimensions")
    n_sequences = x.shape[0]
    if cu_seqlens is not None:
        intake.take(&offsets, cu_seqlens, "cu_seqlens", False)
        if offsets.ndim != 1 or offsets.shape[0] < 1:
            raise ShapeError(f"cu_seqlens: expected shape (N + 1,), got {offsets.ndim} dimensions")
        if x.shape[0] != 1:
            raise ShapeError(f"q: expected B = 1 with cu_seqlens, got {x.shape[0]}")
        n_sequences = offsets.shape[0] - 1
    if product_overflows(x.shape[0], x.shape[1], &total):
        raise ShapeError(f"q: expected sizes whose bytes 64 bits can count, got {x.shape[0]} times {x.shape[1]} tokens")
    nbytes = <int64_t>required_workspace(total, x.shape[2], n_sequences)
    if intake.device is None:
        workspace = empty_host(CODE_UINT, 8, 1, &nbytes)
    else:
        workspace = empty_device(intake.device, intake.stream, CODE_UINT, 8, 1, &nbytes)
    return hand_over(workspace, q, intake.stream_of(q))

"""A Cython extension on madspace's C API: Kimi Delta Attention on memoryviews, without the GIL."""
from libc.stdint cimport uint16_t
from libc.string cimport memset

from madspace.capi cimport (
    MADSPACE_API_MAJOR, MADSPACE_API_MINOR, MS_DEVICE_CPU, ms_device, ms_device_get, ms_import, ms_kda_args,
    ms_kda_forward, ms_kda_workspace_size, ms_last_error, ms_status_name,
)

ms_import()

version = MADSPACE_API_MAJOR, MADSPACE_API_MINOR


cdef int checked(int status) except -1:
    if status:
        raise RuntimeError(f"{ms_status_name(status).decode()}: {ms_last_error().decode()}")
    return 0


def workspace_size(tokens, heads, sequences=1):
    """Bytes of workspace for so many tokens, value heads and sequences."""
    cdef size_t nbytes
    checked(ms_kda_workspace_size(tokens, heads, sequences, &nbytes))
    return nbytes


def attend(const uint16_t[:, :, :, ::1] q, const uint16_t[:, :, :, ::1] k, const uint16_t[:, :, :, ::1] v,
           const uint16_t[:, :, :, ::1] g, const uint16_t[:, :, ::1] beta, const float[::1] a_log,
           const float[:, ::1] dt_bias, uint16_t[:, :, :, ::1] out, float[:, :, :, ::1] final_state, float scale,
           float lower_bound=-5.0):
    """Kimi Delta Attention of compact arrays on the CPU; uint16 are the bits of bfloat16."""
    cdef ms_device cpu
    cdef ms_kda_args args
    cdef int status
    memset(&args, 0, sizeof(args))
    args.size = sizeof(args)
    args.batches, args.tokens, args.key_heads, args.channels = q.shape[0], q.shape[1], q.shape[2], q.shape[3]
    args.value_heads = v.shape[2]
    args.q, args.k, args.v, args.g, args.beta = &q[0, 0, 0, 0], &k[0, 0, 0, 0], &v[0, 0, 0, 0], &g[0, 0, 0, 0], \
        &beta[0, 0, 0]
    args.a_log, args.dt_bias = &a_log[0], &dt_bias[0, 0]
    args.out, args.final_state = &out[0, 0, 0, 0], &final_state[0, 0, 0, 0]
    args.scale, args.lower_bound = scale, lower_bound
    checked(ms_device_get(MS_DEVICE_CPU, 0, &cpu))
    with nogil:
        status = ms_kda_forward(cpu, &args, NULL)
    checked(status)

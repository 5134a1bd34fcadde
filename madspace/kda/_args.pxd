# What the kernels of all executors get, and how the GPU's are launched: cuda_src/kda.
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t


cdef extern from "kda/host_call.h" namespace "madspace::kda" nogil:
    enum Flags:
        kStateBf16
        kSnapshotBf16
        kOffsets64
        kSlots64
        kSnapshotOffsets64
        kNormalize
        kActivated

    cdef struct Strides:
        long long batch, token, head

    cdef struct Args:
        const uint16_t* q
        const uint16_t* k
        const uint16_t* v
        const uint16_t* g
        const uint16_t* beta
        const float* a_log
        const float* dt_bias
        uint16_t* out
        const void* initial_state
        void* final_state
        const void* cu_seqlens
        const void* state_slots
        void* snapshots
        const void* snapshot_tokens
        const void* snapshot_offsets
        char* records
        Strides q_stride, k_stride, v_stride, g_stride, beta_stride
        long long batches, tokens
        long long n_sequences
        long long n_slots
        long long n_snapshots
        int key_heads, value_heads
        float scale, lower_bound
        uint32_t flags

    cdef struct HostCall:
        Args args
        int channels
        int row_blocks

    int kMaxHostChannels
    long long n_pieces(const HostCall& call)


cdef extern from "kda/plan.h" namespace "madspace::kda" nogil:
    enum KernelId:
        pass

    cdef struct Launch:
        KernelId kernel
        unsigned int grid, block, shared
        bint early

    cdef struct Target:
        int capability
        bint has_special

    cdef struct Plan:
        int n_launches
        Launch launch[2]
        unsigned long long workspace_bytes
        const char* problem

    enum:
        N_STEMS "((int)(sizeof(madspace::kda::kKernelStems) / sizeof(char*)))"
        N_KERNELS "(2 * (int)(sizeof(madspace::kda::kKernelStems) / sizeof(char*)))"     # for both D
    const char* kKernelStems[N_STEMS]
    unsigned long long workspace_size(long long total_tokens, long long value_heads, long long n_sequences,
                                      int channels)
    Plan make_plan(Args& args, int channels, int n_processors, int shared_limit, const Target& target)

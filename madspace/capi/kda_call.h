// The arguments of ms_kda_forward(): checked, and as the kernels get them.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kda/host_call.h"
#include "madspace/madspace.h"
#include "objects.h"

namespace madspace {
namespace capi {

constexpr int64_t kMaxHeads = 2147483647;
constexpr int64_t kLargest = int64_t{1} << 62;
constexpr int64_t kLargestToken = 2048, kLargestState = 4 * 256 * 256;  // bytes

struct KdaReader {
    const ms_kda_args& in;
    bool on_gpu;
    Failure* failure;

    int wrong(int code, const char* name, const char* rule, long long got) const {
        return write_failure(failure, code, "%s: expected %s, got %lld", name, rule, got);
    }

    // `n`: how many elements, or anything that is 0 where there are none, so that the address does not matter.
    int aligned(const char* name, const void* ptr, int64_t alignment, int64_t n = 1) const {
        if (n == 0 || reinterpret_cast<std::uintptr_t>(ptr) % static_cast<std::uintptr_t>(alignment) == 0) return 0;
        return write_failure(failure, MS_ERROR_SHAPE, "%s: expected data aligned to %lld bytes, got %p", name,
                             static_cast<long long>(alignment), ptr);
    }

    int present(const char* name, const void* ptr, bool wanted) const {
        if (ptr != nullptr || !wanted) return 0;
        return write_failure(failure, MS_ERROR_ARGUMENT, "%s: expected an address, got NULL", name);
    }

    // Rows of D channels: any strides that 64 bits can follow, in whole pieces of 16 bytes on a GPU.
    int rows(const char* name, const void* ptr, ms_kda_strides* strides, int64_t heads, int64_t channels) const {
        const int64_t unit = on_gpu && channels > 0 ? 8 : 1, width = channels > 0 ? channels : 1;
        if (int code = present(name, ptr, in.batches * in.tokens > 0)) return code;
        if (int code = aligned(name, ptr, 2 * unit, in.batches * in.tokens)) return code;
        if (strides->batch == 0 && strides->token == 0 && strides->head == 0 && in.batches > 0)
            *strides = {in.tokens * heads * width, heads * width, width};
        const int64_t lengths[] = {in.batches, in.tokens, heads};
        int64_t* const apart[] = {&strides->batch, &strides->token, &strides->head};
        int64_t reach = 0;
        for (int i = 0; i < 3; ++i) {
            if (lengths[i] <= 1) *apart[i] = 0;
            int64_t part = 0;
            if (__builtin_mul_overflow(lengths[i] > 0 ? lengths[i] - 1 : 0, *apart[i], &part) || part > kLargest / 8 ||
                part < -kLargest / 8 || __builtin_add_overflow(reach, part < 0 ? -part : part, &reach))
                return write_failure(failure, MS_ERROR_SHAPE,
                                     "%s_strides: expected steps that 64 bits can count, got %lld", name,
                                     static_cast<long long>(*apart[i]));
            if (*apart[i] % unit != 0)
                return write_failure(
                    failure, MS_ERROR_SHAPE,
                    "%s_strides: expected rows aligned to 16 bytes, got a step of %lld elements of 2 bytes", name,
                    static_cast<long long>(*apart[i]));
        }
        return 0;
    }

    int sizes() const {
        int64_t total = 0;
        if (in.batches < 0 || in.tokens < 0 || __builtin_mul_overflow(in.batches, in.tokens, &total))
            return write_failure(failure, MS_ERROR_SHAPE, "batches, tokens: expected 0 or more, got %lld and %lld",
                                 static_cast<long long>(in.batches), static_cast<long long>(in.tokens));
        if (on_gpu ? in.channels != 64 && in.channels != 128 : in.channels < 1 || in.channels > kda::kMaxHostChannels)
            return wrong(MS_ERROR_SHAPE, "channels", on_gpu ? "64 or 128 on a GPU" : "1 to 256", in.channels);
        if (in.key_heads < 1 || in.key_heads > kMaxHeads)
            return wrong(MS_ERROR_SHAPE, "key_heads", "1 to 2147483647", in.key_heads);
        if (in.value_heads < 1 || in.value_heads > kMaxHeads || in.value_heads % in.key_heads != 0)
            return wrong(MS_ERROR_SHAPE, "value_heads", "a multiple of key_heads, at most 2147483647", in.value_heads);
        if (__builtin_mul_overflow(total, in.value_heads, &total) || total > kLargest / kLargestToken)
            return write_failure(
                failure, MS_ERROR_SHAPE,
                "batches, tokens, value_heads: expected sizes whose bytes 64 bits can count, got %lld, %lld "
                "and %lld",
                static_cast<long long>(in.batches), static_cast<long long>(in.tokens),
                static_cast<long long>(in.value_heads));
        return 0;
    }

    int numbers() const {
        if (in.flags & ~0x7Fu) return wrong(MS_ERROR_ARGUMENT, "flags", "MS_KDA_ flags", in.flags);
        if (in.reserved != 0) return wrong(MS_ERROR_ARGUMENT, "reserved", "0", in.reserved);
        if (!std::isfinite(in.scale))
            return write_failure(failure, MS_ERROR_ARGUMENT, "scale: expected a finite number, got %g",
                                 static_cast<double>(in.scale));
        if (in.flags & MS_KDA_GATE_ACTIVATED) {
            if (in.a_log != nullptr || in.dt_bias != nullptr)
                return write_failure(failure, MS_ERROR_ARGUMENT,
                                     "a_log, dt_bias: expected NULL with MS_KDA_GATE_ACTIVATED, got addresses");
            return 0;
        }
        if (int code = present("a_log", in.a_log, true)) return code;
        if (int code = present("dt_bias", in.dt_bias, true)) return code;
        if (int code = aligned("a_log", in.a_log, 4)) return code;
        if (int code = aligned("dt_bias", in.dt_bias, 4)) return code;
        if (!(in.lower_bound >= -5.0f && in.lower_bound < 0.0f))
            return write_failure(failure, MS_ERROR_ARGUMENT,
                                 "lower_bound: expected a number from -5 to below 0, got %g",
                                 static_cast<double>(in.lower_bound));
        return 0;
    }

    int sequences(int64_t* n) const {
        *n = in.batches;
        if (in.cu_seqlens != nullptr) {
            if (in.batches != 1) return wrong(MS_ERROR_SHAPE, "batches", "1 with cu_seqlens", in.batches);
            if (in.sequences < 0 || in.sequences > kLargest)
                return wrong(MS_ERROR_SHAPE, "sequences", "0 or more", in.sequences);
            *n = in.sequences;
            if (int code = aligned("cu_seqlens", in.cu_seqlens, in.flags & MS_KDA_CU_SEQLENS_64 ? 8 : 4)) return code;
        } else if (in.sequences != 0 && in.sequences != in.batches) {
            return wrong(MS_ERROR_SHAPE, "sequences", "0, or batches, without cu_seqlens", in.sequences);
        }
        return 0;
    }

    int states(int64_t n, int64_t* n_slots) const {
        *n_slots = n;
        if (in.state_slots != nullptr) {
            if (in.initial_state == nullptr && in.final_state == nullptr)
                return write_failure(failure, MS_ERROR_ARGUMENT,
                                     "state_slots: expected initial_state or final_state beside it, got neither");
            if (in.n_slots < 0) return wrong(MS_ERROR_SHAPE, "n_slots", "0 or more", in.n_slots);
            *n_slots = in.n_slots;
            if (int code = aligned("state_slots", in.state_slots, in.flags & MS_KDA_STATE_SLOTS_64 ? 8 : 4, n))
                return code;
        } else if (in.n_slots != 0 && in.n_slots != n) {
            return wrong(MS_ERROR_SHAPE, "n_slots", "0, or the number of sequences, without state_slots", in.n_slots);
        }
        int64_t states = 0;
        if (__builtin_mul_overflow(*n_slots, in.value_heads, &states) || states > kLargest / kLargestState)
            return wrong(MS_ERROR_SHAPE, "n_slots", "states whose bytes 64 bits can count", *n_slots);
        const int64_t alignment = on_gpu ? 16 : in.flags & MS_KDA_STATE_BF16 ? 2 : 4;
        if (int code = aligned("initial_state", in.initial_state, alignment, *n_slots)) return code;
        return aligned("final_state", in.final_state, alignment, *n_slots);
    }

    int snapshots() const {
        const bool any = in.snapshots != nullptr || in.snapshot_tokens != nullptr || in.snapshot_offsets != nullptr;
        if (in.n_snapshots < 0 || in.n_snapshots > kLargest / kLargestState / in.value_heads)
            return wrong(MS_ERROR_SHAPE, "n_snapshots", "0 or more, of which 64 bits can count the bytes",
                         in.n_snapshots);
        if (!any && in.n_snapshots == 0) return 0;
        if (int code = present("snapshots", in.snapshots, in.n_snapshots > 0)) return code;
        if (int code = present("snapshot_tokens", in.snapshot_tokens, in.n_snapshots > 0)) return code;
        if (int code = present("snapshot_offsets", in.snapshot_offsets, true)) return code;
        const int64_t wide = in.flags & MS_KDA_SNAPSHOTS_64 ? 8 : 4;
        const int64_t alignment = on_gpu ? 16 : in.flags & MS_KDA_SNAPSHOT_BF16 ? 2 : 4;
        if (int code = aligned("snapshots", in.snapshots, alignment, in.n_snapshots)) return code;
        if (int code = aligned("snapshot_tokens", in.snapshot_tokens, wide, in.n_snapshots)) return code;
        return aligned("snapshot_offsets", in.snapshot_offsets, wide);
    }
};

inline kda::Strides kernel_strides(const ms_kda_strides& x) { return {x.batch, x.token, x.head}; }

// Everything but overlaps and the workspace. `args` is a copy of the caller's, with its strides filled in.
inline int read_kda(ms_kda_args* args, bool on_gpu, kda::HostCall* call, Failure* failure) {
    const KdaReader reader{*args, on_gpu, failure};
    int64_t n = 0, n_slots = 0;
    if (int code = reader.numbers()) return code;
    if (int code = reader.sizes()) return code;
    const int64_t d = args->channels, hk = args->key_heads, hv = args->value_heads;
    if (int code = reader.rows("q", args->q, &args->q_strides, hk, d)) return code;
    if (int code = reader.rows("k", args->k, &args->k_strides, hk, d)) return code;
    if (int code = reader.rows("v", args->v, &args->v_strides, hv, d)) return code;
    if (int code = reader.rows("g", args->g, &args->g_strides, hv, d)) return code;
    if (int code = reader.rows("beta", args->beta, &args->beta_strides, hv, 0)) return code;
    if (int code = reader.present("out", args->out, args->batches * args->tokens > 0)) return code;
    if (int code = reader.aligned("out", args->out, on_gpu ? 16 : 2, args->batches * args->tokens)) return code;
    if (int code = reader.sequences(&n)) return code;
    if (int code = reader.states(n, &n_slots)) return code;
    if (int code = reader.snapshots()) return code;
    std::memset(static_cast<void*>(call), 0, sizeof *call);
    kda::Args& to = call->args;
    to.q = static_cast<const kda::u16*>(args->q);
    to.k = static_cast<const kda::u16*>(args->k);
    to.v = static_cast<const kda::u16*>(args->v);
    to.g = static_cast<const kda::u16*>(args->g);
    to.beta = static_cast<const kda::u16*>(args->beta);
    to.a_log = args->a_log;
    to.dt_bias = args->dt_bias;
    to.out = static_cast<kda::u16*>(args->out);
    to.initial_state = args->initial_state;
    to.final_state = args->final_state;
    to.cu_seqlens = args->cu_seqlens;
    to.state_slots = args->state_slots;
    to.snapshots = args->n_snapshots > 0 ? args->snapshots : nullptr;
    to.snapshot_tokens = args->snapshot_tokens;
    to.snapshot_offsets = args->snapshot_offsets;
    to.q_stride = kernel_strides(args->q_strides);
    to.k_stride = kernel_strides(args->k_strides);
    to.v_stride = kernel_strides(args->v_strides);
    to.g_stride = kernel_strides(args->g_strides);
    to.beta_stride = kernel_strides(args->beta_strides);
    to.batches = args->batches;
    to.tokens = args->tokens;
    to.n_sequences = n;
    to.n_slots = n_slots;
    to.n_snapshots = args->n_snapshots;
    to.key_heads = static_cast<int>(hk);
    to.value_heads = static_cast<int>(hv);
    to.scale = args->scale;
    to.lower_bound = args->flags & MS_KDA_GATE_ACTIVATED ? -5.0f : args->lower_bound;
    to.flags = (args->flags & MS_KDA_STATE_BF16 ? kda::kStateBf16 : 0) |
               (args->flags & MS_KDA_SNAPSHOT_BF16 ? kda::kSnapshotBf16 : 0) |
               (args->flags & MS_KDA_CU_SEQLENS_64 ? kda::kOffsets64 : 0) |
               (args->flags & MS_KDA_STATE_SLOTS_64 ? kda::kSlots64 : 0) |
               (args->flags & MS_KDA_SNAPSHOTS_64 ? kda::kSnapshotOffsets64 : 0) |
               (args->flags & MS_KDA_NO_L2NORM ? 0 : kda::kNormalize) |
               (args->flags & MS_KDA_GATE_ACTIVATED ? kda::kActivated : 0);
    call->channels = static_cast<int>(d);
    return 0;
}

// A caller that was compiled with another minor version has a shorter or longer structure: what it does not know of is
// 0, and what is not known here must be.
inline int copy_kda_args(const ms_kda_args* given, ms_kda_args* args, Failure* failure) {
    constexpr std::size_t kFirst = sizeof(ms_kda_args);  // of version 1.0
    if (given == nullptr) return write_failure(failure, MS_ERROR_ARGUMENT, "args: expected an address, got NULL");
    if (given->size < kFirst)
        return write_failure(failure, MS_ERROR_ARGUMENT,
                             "args.size: expected sizeof(ms_kda_args), at least %zu, got %zu", kFirst, given->size);
    if (given->size > 65536)
        return write_failure(failure, MS_ERROR_ARGUMENT, "args.size: expected sizeof(ms_kda_args), got %zu",
                             given->size);
    const char* bytes = reinterpret_cast<const char*>(given);
    for (std::size_t i = sizeof *args; i < given->size; ++i)
        if (bytes[i] != 0)
            return write_failure(failure, MS_ERROR_UNSUPPORTED,
                                 "args: uses a field that is newer than this version of madspace (byte %zu)", i);
    std::memset(static_cast<void*>(args), 0, sizeof *args);
    std::memcpy(static_cast<void*>(args), given, given->size < sizeof *args ? given->size : sizeof *args);
    return 0;
}

}  // namespace capi
}  // namespace madspace

// How a call is launched: which kernels, how many blocks, how much workspace. Host code; a function of sizes and device
// properties alone, so that a captured launch fits every replay.
#pragma once

#include "args.h"
#include "record.h"

MS_BEGIN_NAMESPACE

namespace kda {

// Kernels of kda_forward.cu, each for D = 64 and 128 (the name ends in the number).
enum KernelId { kForward, kPrepare, kScan, kDecode, kForwardWide };
constexpr const char* kKernelStems[] = {"kda_forward_", "kda_prepare_", "kda_scan_", "kda_decode_",
                                        "kda_forward_wide_"};
static_assert(sizeof(kKernelStems) / sizeof(kKernelStems[0]) == kForwardWide + 1, "a stem for each kernel");

struct Launch {
    KernelId kernel;
    u32 grid, block, shared;  // blocks, threads, bytes of dynamic shared memory
    bool early;               // begins while the launch before it ends
};

struct Plan {
    int n_launches;  // 0 to 2
    Launch launch[2];
    u64 workspace_bytes;  // of what the plan uses; at most workspace_size()
    const char* problem;  // what is too large, null for nothing
};

// Beyond this many chains (sequences times heads) their scans fill a device; up to it the records are made by all
// multiprocessors first, and wait in the workspace.
constexpr i64 kMaxRecordedChains = 32;
constexpr i64 kDecodeTokens = 4;  // up to here no chunks are worth making
constexpr int kProducerWarps = 8;
constexpr int kMaxRingSlots = 12;
constexpr int kDecodeWarps = 4;
constexpr int kBasesBytes = 4 * 8;  // of a producer: where its rows of q, k, v and g begin

template <int D>
inline u64 records_size(i64 total_tokens, i64 value_heads, i64 n_sequences) {
    const i64 tiles = total_tokens / kChunk + n_sequences;  // see record_index() in sequence.h
    return static_cast<u64>(tiles) * value_heads * Record<D>::kBytes;
}

// Bytes of workspace that every call with these sizes can do with: get_workspace_size. Never 0.
inline u64 workspace_size(i64 total_tokens, i64 value_heads, i64 n_sequences, int channels) {
    u64 bytes = 128;
    if (total_tokens > 0 && n_sequences * value_heads <= kMaxRecordedChains)
        bytes += channels == 64 ? records_size<64>(total_tokens, value_heads, n_sequences)
                                : records_size<128>(total_tokens, value_heads, n_sequences);
    return bytes;
}

// What the kernels were compiled for, which may be less than the device: PTX of compute_80 runs on all later ones.
struct Target {
    int capability;    // 90 for 9.0
    bool has_special;  // with the instructions of that device alone: sm_90a
};

template <int D>
inline Plan plan_for(Args& args, int n_processors, int shared_limit, const Target& target) {
    Plan plan = {};
    const i64 total = args.batches * args.tokens;
    const i64 chains = args.n_sequences * args.value_heads;
    constexpr int kRowTiles = D / kRowsPerWarp;
    args.v_splits = 1;
    args.ring_slots = 0;
    const i64 kMaxGrid = 2147483647;
    if (chains == 0) return plan;
    const bool packed = args.cu_seqlens != nullptr;
    if (packed ? total <= kDecodeTokens * args.n_sequences : args.tokens <= kDecodeTokens) {
        // One warp per 16 rows of a state.
        const i64 blocks = (chains * kRowTiles + kDecodeWarps - 1) / kDecodeWarps;
        if (blocks > kMaxGrid) {
            plan.problem = "N * HV";
            return plan;
        }
        plan.n_launches = 1;
        plan.launch[0] = {kDecode, static_cast<u32>(blocks), 32 * kDecodeWarps, 0, false};
        return plan;
    }
    while (args.v_splits < kRowTiles && chains * args.v_splits * 2 <= n_processors) args.v_splits *= 2;
    if (chains * args.v_splits > kMaxGrid) {
        plan.problem = "N * HV";
        return plan;
    }
    // Warps with two tiles of rows each, where a block has the whole state and warps can hand registers to each other.
    const bool can_be_wide = target.capability == 90 && target.has_special;
    const bool is_wide = can_be_wide && D == 128 && args.v_splits == 1 && chains > kMaxRecordedChains;
    const int row_tiles = kRowTiles / args.v_splits, consumers = is_wide ? row_tiles / 2 : row_tiles;
    const int barriers = 2 * kMaxRingSlots * 8;
    const int fixed = barriers + row_tiles * Record<D>::kStaging + kProducerWarps * kBasesBytes;
    args.ring_slots = (shared_limit - fixed) / Record<D>::kBytes;
    if (args.ring_slots > kMaxRingSlots) args.ring_slots = kMaxRingSlots;
    const u32 shared = static_cast<u32>(fixed + args.ring_slots * Record<D>::kBytes);
    const u32 threads = static_cast<u32>(32 * (kProducerWarps + consumers));
    const u32 blocks = static_cast<u32>(chains * args.v_splits);
    if (chains > kMaxRecordedChains) {
        plan.n_launches = 1;
        plan.launch[0] = {is_wide ? kForwardWide : kForward, blocks, threads, shared, false};
        return plan;
    }
    const i64 tiles = total / kChunk + args.n_sequences;
    int warps = shared_limit / (Record<D>::kBytes + kBasesBytes);
    if (warps > kProducerWarps) warps = kProducerWarps;
    const i64 records = tiles * args.value_heads;
    // Few records are made fastest by a multiprocessor each.
    const i64 share = (records + n_processors - 1) / n_processors;
    if (warps > share) warps = static_cast<int>(share);
    const i64 prepare_blocks = (records + warps - 1) / warps;
    if (prepare_blocks > kMaxGrid) {
        plan.problem = "T_total";
        return plan;
    }
    plan.n_launches = 2;
    plan.launch[0] = {kPrepare, static_cast<u32>(prepare_blocks), static_cast<u32>(32 * warps),
                      static_cast<u32>(warps * (Record<D>::kBytes + kBasesBytes)), false};
    plan.launch[1] = {kScan, blocks, threads, shared, target.capability >= 90};
    plan.workspace_bytes = static_cast<u64>(records) * Record<D>::kBytes;
    return plan;
}

// n_processors and shared_limit: of the device, the latter per block with opt-in.
inline Plan make_plan(Args& args, int channels, int n_processors, int shared_limit, const Target& target) {
    return channels == 64 ? plan_for<64>(args, n_processors, shared_limit, target)
                          : plan_for<128>(args, n_processors, shared_limit, target);
}

}  // namespace kda

MS_END_NAMESPACE

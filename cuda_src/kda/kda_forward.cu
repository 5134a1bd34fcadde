// Kimi Delta Attention forward on sm_80 and later (arXiv:2510.26692): the kernels of plan.h. DESIGN.md beside this
// tells how they work.

// spills-allowed: addresses and the head's constants, set up once and read around the loops over 16 tokens, in which
// the state of the scan and the keys of the producers have the 128 registers of a thread to themselves; in decode a row

#include "decode.h"
#include "plan.h"
#include "scan.h"

MS_BEGIN_NAMESPACE

namespace kda {

// What a block of kda_forward or kda_scan works on.
template <int D>
struct Chain {
    Sequence sequence;
    int head, first_tile;

    MS_FN Chain(const Args& args, int tiles, int* shared) {
        const int chain = static_cast<int>(blockIdx.x) / args.v_splits;
        head = chain % args.value_heads;
        first_tile = static_cast<int>(blockIdx.x) % args.v_splits * tiles;
        sequence = sequence_at(args, sequence_of_rank(args, chain / args.value_heads, shared));
    }
};

// Copy a record from the workspace, of U0 only the rows of this block.
template <int D>
MS_FN void load_record(u32 slot, const char* record, int first_tile, int n_tiles) {
    using R = Record<D>;
    const u32 first = 16 * (threadIdx.x % 32);
#pragma unroll
    for (u32 at = first; at < R::kU0; at += 512) copy_async(slot + at, record + at, 16);
    for (u32 at = first; at < n_tiles * 1024; at += 512)
        copy_async(slot + R::kU0 + at, record + R::kU0 + first_tile * 1024 + at, 16);
#pragma unroll
    for (u32 at = R::kW + first; at < R::kBytes; at += 512) copy_async(slot + at, record + at, 16);
    commit_copies();
}

// What the warp number `producer` of those that make records does.
template <int D>
MS_FN void make_records(const Args& args, const Ring<D>& ring, const Sequence& sequence, int head, int first_tile,
                        int n_tiles, int producer) {
    const Gate<D> gate(args, head);
    const u32 bases = ring.bases + producer * kBasesBytes;
    find_inputs(bases, args, sequence, head);
    float beta = 0;
    const auto load = [&](int token, int slot) {
        const int valid = min(sequence.length - token, kChunk);
        load_inputs<D>(ring.slot(slot), bases, args, token, valid, first_tile, n_tiles);
        beta = load_beta(args, sequence, head, token, valid);
    };
    int token = producer * kChunk;
    Cursor at = {0, 1};  // a slot that was never used is empty
    at.advance(producer, ring.n_slots);
    bool loaded = false;
    while (token < sequence.length) {
        if (!loaded) {
            barrier_wait(ring.empty(at.slot), at.round);
            __syncwarp();
            load(token, at.slot);
        }
        const float this_beta = beta;
        const int slot = at.slot, valid = min(sequence.length - token, kChunk);
        token += kProducerWarps * kChunk;
        at.advance(kProducerWarps, ring.n_slots);
        wait_for_copies<0>();
        __syncwarp();
        // The next one's copies run while this one is made, if its slot is free by then.
        make_record<D>(ring.slot(slot), args, gate, this_beta, valid, first_tile, n_tiles, [&] {
            loaded = token < sequence.length && __all_sync(~0u, barrier_passed(ring.empty(at.slot), at.round));
            if (loaded) load(token, at.slot);
        });
        barrier_arrive(ring.full(slot));
    }
}

// What it does where records come from the workspace.
template <int D>
MS_FN void copy_records(const Args& args, const Ring<D>& ring, const Sequence& sequence, int head, int first_tile,
                        int n_tiles, int producer) {
    const i64 first = first_record(args, sequence);
    Cursor at = {0, 1};
    at.advance(producer, ring.n_slots);
    wait_for_kernel_before();
    for (int chunk = producer; chunk < chunks_of(sequence); chunk += kProducerWarps) {
        barrier_wait(ring.empty(at.slot), at.round);
        __syncwarp();
        const i64 record = (first + chunk) * args.value_heads + head;
        load_record<D>(ring.slot(at.slot), args.records + record * Record<D>::kBytes, first_tile, n_tiles);
        barrier_arrive_with_copies(ring.full(at.slot));
        at.advance(kProducerWarps, ring.n_slots);
    }
    wait_for_copies<0>();
}

// A block: warps that bring records into the ring, by making them or from the workspace, and warps that scan them.
template <int D, bool kMake, int kTiles>
MS_FN void run_chain(const Args& args) {
    extern __shared__ __align__(128) char memory[];
    const int warp = threadIdx.x / 32;
    // Warps of two tiles each scan a whole state: what is known of them is not computed.
    constexpr bool kIsWide = kTiles > 1;
    const int consumers = kIsWide ? D / kRowsPerWarp / kTiles : blockDim.x / 32 - kProducerWarps;
    const int n_tiles = kTiles * consumers;
    const Ring<D> ring(shared_address(memory), args, consumers, n_tiles);
    if (threadIdx.x == 0) ring.init();
    const Chain<D> chain(args, n_tiles, reinterpret_cast<int*>(memory));
    __syncthreads();
    // As many registers as a launch of 384 threads has: 128 times 232 and 256 times 136.
    if (warp < consumers) {
        if constexpr (kIsWide) take_registers<232>();
        scan<D, kTiles>(args, ring, chain.sequence, chain.head, chain.first_tile, warp);
        return;
    }
    if constexpr (kIsWide) give_registers<136>();
    const int first_tile = kIsWide ? 0 : chain.first_tile;
    if constexpr (kMake)
        make_records<D>(args, ring, chain.sequence, chain.head, first_tile, n_tiles, warp - consumers);
    else
        copy_records<D>(args, ring, chain.sequence, chain.head, first_tile, n_tiles, warp - consumers);
}

// All records of a call into the workspace, one per warp.
template <int D>
MS_FN void prepare(const Args& args) {
    extern __shared__ __align__(128) char memory[];
    using R = Record<D>;
    let_next_kernel_begin();
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const i64 item = static_cast<i64>(blockIdx.x) * (blockDim.x / 32) + warp;
    const i64 place = item / args.value_heads;
    const int head = static_cast<int>(item % args.value_heads);
    if (place >= n_record_places(args)) return;
    // The last sequence whose records start at or before this place.
    int low = 0, high = static_cast<int>(args.n_sequences);
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (first_record(args, sequence_at(args, middle)) <= place)
            low = middle;
        else
            high = middle;
    }
    const Sequence sequence = sequence_at(args, low);
    const i64 chunk = place - first_record(args, sequence);
    if (chunk < 0 || chunk >= chunks_of(sequence)) return;
    const int token = static_cast<int>(chunk) * kChunk;
    const int valid = min(sequence.length - token, kChunk);
    const u32 slot = shared_address(memory) + warp * R::kBytes;
    const u32 bases = shared_address(memory) + blockDim.x / 32 * R::kBytes + warp * kBasesBytes;
    find_inputs(bases, args, sequence, head);
    const Gate<D> gate(args, head);
    load_inputs<D>(slot, bases, args, token, valid, 0, D / kRowsPerWarp);
    const float beta = load_beta(args, sequence, head, token, valid);
    wait_for_copies<0>();
    __syncwarp();
    make_record<D>(slot, args, gate, beta, valid, 0, D / kRowsPerWarp, [] {});
    uint4* record = reinterpret_cast<uint4*>(args.records + item * R::kBytes);
#pragma unroll
    for (int i = lane; i < R::kBytes / 16; i += 32) record[i] = load_16(slot + 16 * i);
}

}  // namespace kda

MS_END_NAMESPACE

using madspace::kda::Args;

#define MS_KDA_KERNELS(D)                                                                                     \
    extern "C" __global__ void __launch_bounds__(512, 1) kda_forward_##D(const __grid_constant__ Args args) { \
        madspace::kda::run_chain<D, true, 1>(args);                                                           \
    }                                                                                                         \
    extern "C" __global__ void __launch_bounds__(512, 1) kda_scan_##D(const __grid_constant__ Args args) {    \
        madspace::kda::run_chain<D, false, 1>(args);                                                          \
    }                                                                                                         \
    extern "C" __global__ void __launch_bounds__(256, 1) kda_prepare_##D(const __grid_constant__ Args args) { \
        madspace::kda::prepare<D>(args);                                                                      \
    }                                                                                                         \
    extern "C" __global__ void __launch_bounds__(128, 4) kda_decode_##D(const __grid_constant__ Args args) {  \
        madspace::kda::decode<D>(args);                                                                       \
    }

// Warps that scan 32 rows each have half the loads, and more registers than a thread may have elsewhere.
extern "C" __global__ void __launch_bounds__(384, 1) kda_forward_wide_128(const __grid_constant__ Args args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    madspace::kda::run_chain<128, true, 2>(args);
#endif
}

MS_KDA_KERNELS(64)
MS_KDA_KERNELS(128)

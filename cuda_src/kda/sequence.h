// Where the tokens of a sequence, the states and the records are.
#pragma once

#include "args.h"
#include "record.h"

MS_BEGIN_NAMESPACE

namespace kda {

MS_FN i64 offset_at(const void* offsets, i64 i, bool wide) {
    return wide ? static_cast<const i64*>(offsets)[i] : static_cast<const int*>(offsets)[i];
}

MS_FN i64 clamped(i64 x, i64 low, i64 high) { return x < low ? low : x > high ? high : x; }

// Sequence n is `length` tokens from `begin` on (of batch n, or of the packed ones), whatever cu_seqlens has.
struct Sequence {
    int n, begin, length;
};

MS_FN Sequence sequence_at(const Args& args, int n) {
    if (args.cu_seqlens == nullptr) return {n, 0, static_cast<int>(args.tokens)};
    const bool wide = args.flags & kOffsets64;
    const i64 begin = clamped(offset_at(args.cu_seqlens, n, wide), 0, args.tokens);
    const i64 end = clamped(offset_at(args.cu_seqlens, n + 1, wide), begin, args.tokens);
    return {n, static_cast<int>(begin), static_cast<int>(end - begin)};
}

MS_FN int batch_of(const Args& args, const Sequence& sequence) { return args.cu_seqlens == nullptr ? sequence.n : 0; }

MS_FN int chunks_of(const Sequence& sequence) { return (sequence.length + kChunk - 1) / kChunk; }

// Place of a chunk's record: no two sequences meet, since ceil(b / 16) <= floor((a + b) / 16) - floor(a / 16) + 1.
MS_FN i64 first_record(const Args& args, const Sequence& sequence) {
    return (batch_of(args, sequence) * args.tokens + sequence.begin) / kChunk + sequence.n;
}

MS_FN i64 n_record_places(const Args& args) { return args.batches * args.tokens / kChunk + args.n_sequences; }

template <class T>
MS_FN T* rows_at(const Args& args, T* data, const Strides& stride, const Sequence& sequence, int head) {
    return data + batch_of(args, sequence) * stride.batch + sequence.begin * stride.token + head * stride.head;
}

// The output's row of the sequence's first token.
MS_FN u16* out_at(const Args& args, const Sequence& sequence, int head, int channels) {
    const i64 token = batch_of(args, sequence) * args.tokens + sequence.begin;
    return args.out + (token * args.value_heads + head) * channels;
}

MS_FN int key_head(const Args& args, int head) { return head / (args.value_heads / args.key_heads); }

// Place of the sequence's state in initial_state and final_state; negative for none.
MS_FN i64 state_place(const Args& args, int n) {
    if (args.state_slots == nullptr) return n;
    const i64 slot = offset_at(args.state_slots, n, args.flags & kSlots64);
    return slot < args.n_slots ? slot : -1;
}

// The sequences' order of launch: long ones first, so that no long one is left alone at the end.
// Called by all threads of a block; every sequence has one rank.
constexpr int kMaxRanked = 256;

MS_FN int sequence_of_rank(const Args& args, int rank, int* shared) {
    if (args.cu_seqlens == nullptr || args.n_sequences == 1 || args.n_sequences > kMaxRanked) return rank;
    for (int n = threadIdx.x; n < args.n_sequences; n += blockDim.x) {
        const int length = sequence_at(args, n).length;
        int before = 0;
        for (int other = 0; other < args.n_sequences; ++other) {
            const int its = sequence_at(args, other).length;
            before += its > length || (its == length && other < n);
        }
        if (before == rank) *shared = n;
    }
    __syncthreads();
    return *shared;
}

// The entries of snapshot_tokens that are of one sequence.
struct Snapshots {
    int first, end;

    MS_FN Snapshots(const Args& args, int n) {
        first = end = 0;
        if (args.snapshots == nullptr) return;
        const bool wide = args.flags & kSnapshotOffsets64;
        first = static_cast<int>(clamped(offset_at(args.snapshot_offsets, n, wide), 0, args.n_snapshots));
        end = static_cast<int>(clamped(offset_at(args.snapshot_offsets, n + 1, wide), first, args.n_snapshots));
    }

    MS_FN static i64 token(const Args& args, int i) {
        return offset_at(args.snapshot_tokens, i, args.flags & kSnapshotOffsets64);
    }

    // After how many tokens the next one is due; 0 for none. Those on no boundary of chunks never are.
    MS_FN int next_token(const Args& args, int done) const {
        i64 nearest = 0;
        for (int i = first; i < end; ++i) {
            const i64 at = token(args, i);
            if (at % kChunk == 0 && at > done && (nearest == 0 || at < nearest)) nearest = at;
        }
        return nearest > 0x7fffffff ? 0 : static_cast<int>(nearest);
    }
};

}  // namespace kda

MS_END_NAMESPACE

// What the KDA kernels get, by value; the host fills it in once per call, plan.h adds how to launch.
// Shapes: B batches (1 where sequences are packed) of T tokens, HK heads of q and k, HV heads of everything else
// (HV a multiple of HK: value head h reads q and k of head h / (HV / HK)), D channels, N sequences.
#pragma once

#include "../include/madspace/portable.h"

MS_BEGIN_NAMESPACE

namespace kda {

using u16 = unsigned short;  // the bits of a bfloat16
using u32 = unsigned int;

static_assert(sizeof(u16) == 2 && sizeof(u32) == 4, "sizes of the integer types");

enum Flags : u32 {
    kStateBf16 = 1,           // initial_state and final_state: bfloat16, else float
    kSnapshotBf16 = 2,        // snapshots, likewise
    kOffsets64 = 4,           // cu_seqlens: int64, else int32
    kSlots64 = 8,             // state_slots, likewise
    kSnapshotOffsets64 = 16,  // snapshot_tokens and snapshot_offsets, likewise
    kNormalize = 32,          // q and k are divided by their norms
    kActivated = 64,          // g is the logarithm of the decay already: no gate parameters
};

// Elements from one batch, token and head to the next. Channels of q, k, v and g are contiguous.
struct Strides {
    i64 batch, token, head;
};

struct Args {
    const u16* q;                 // [B, T, HK, D]
    const u16* k;                 // [B, T, HK, D]
    const u16* v;                 // [B, T, HV, D]
    const u16* g;                 // [B, T, HV, D]
    const u16* beta;              // [B, T, HV], logits
    const float* a_log;           // [HV]; null if kActivated
    const float* dt_bias;         // [HV, D]; null if kActivated
    u16* out;                     // [B, T, HV, D], contiguous
    const void* initial_state;    // [N or n_slots, HV, D of v, D of k], contiguous; null: zero
    void* final_state;            // likewise; null: not wanted
    const void* cu_seqlens;       // [N + 1]; null: sequence n is batch n
    const void* state_slots;      // [N], places in the two states; null: n. One outside: start from zero, write nothing
    void* snapshots;              // [n_snapshots, HV, D of v, D of k]; null: none
    const void* snapshot_tokens;  // [n_snapshots]: after how many tokens of its sequence, a positive multiple of 16
    const void* snapshot_offsets;  // [N + 1]: sequence n has snapshots offsets[n] to offsets[n + 1], tokens ascending
    char* records;                 // workspace; null where the plan needs none
    Strides q_stride, k_stride, v_stride, g_stride, beta_stride;
    i64 batches, tokens;  // B, T
    i64 n_sequences;      // N
    i64 n_slots;          // places in the states: N without state_slots
    i64 n_snapshots;
    int key_heads, value_heads;
    float scale, lower_bound;
    u32 flags;
    int v_splits;    // blocks that share the rows of one state; set by plan.h
    int ring_slots;  // records that a block holds in shared memory; set by plan.h
};

}  // namespace kda

MS_END_NAMESPACE

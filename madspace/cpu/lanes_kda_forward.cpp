// Kimi Delta Attention forward on the host, token by token with an fp32 state: the recurrence of arXiv:2510.26692,
//   S <- S diag(exp a);  e = beta (v - S k);  S <- S + e k^T;  o = scale S q,
// compiled once per instruction set (macro MS_ISA). Rows of S do not meet: a piece of work is some rows of one state,
// and the same bits come out however the rows are dealt out.
#include "host_kernel.h"
#include "kda_chunk.h"

#define MS_JOIN_(a, b) a##b
#define MS_JOIN(a, b) MS_JOIN_(a, b)

MS_BEGIN_NAMESPACE

namespace kda {

constexpr int kRows = 4;  // scanned together: they share the loads of a token's vectors
constexpr int kSnapshotTokens = 16;

inline i64 index_at(const void* array, i64 i, bool wide) {
    return wide ? static_cast<const i64*>(array)[i] : static_cast<const int*>(array)[i];
}

inline i64 clamped(i64 x, i64 low, i64 high) { return x < low ? low : x > high ? high : x; }

// One token for kRows rows, `d` floats each and kMaxHostChannels apart; returns scale S q in o.
template <int kD>
void step(float* state, int channels, const Chunk& chunk, int t, const float (&v)[kRows], float (&o)[kRows]) {
    const int d = kD > 0 ? kD : channels;
    float* s0 = state;
    float* s1 = state + kMaxHostChannels;
    float* s2 = state + 2 * kMaxHostChannels;
    float* s3 = state + 3 * kMaxHostChannels;
    const float* decayed_k = chunk.decayed_k[t];
    const float* k = chunk.k[t];
    const float* q = chunk.q[t];
    const float* decay = chunk.decay[t];
    float x0 = 0.0f, x1 = 0.0f, x2 = 0.0f, x3 = 0.0f;
#pragma omp simd reduction(+ : x0, x1, x2, x3)
    for (int i = 0; i < d; ++i) {
        x0 += s0[i] * decayed_k[i];
        x1 += s1[i] * decayed_k[i];
        x2 += s2[i] * decayed_k[i];
        x3 += s3[i] * decayed_k[i];
    }
    const float beta = chunk.beta[t];
    const float e0 = beta * (v[0] - x0), e1 = beta * (v[1] - x1), e2 = beta * (v[2] - x2), e3 = beta * (v[3] - x3);
    float y0 = 0.0f, y1 = 0.0f, y2 = 0.0f, y3 = 0.0f;
#pragma omp simd reduction(+ : y0, y1, y2, y3)
    for (int i = 0; i < d; ++i) {
        s0[i] = s0[i] * decay[i] + e0 * k[i];
        s1[i] = s1[i] * decay[i] + e1 * k[i];
        s2[i] = s2[i] * decay[i] + e2 * k[i];
        s3[i] = s3[i] * decay[i] + e3 * k[i];
        y0 += s0[i] * q[i];
        y1 += s1[i] * q[i];
        y2 += s2[i] * q[i];
        y3 += s3[i] * q[i];
    }
    o[0] = y0;
    o[1] = y1;
    o[2] = y2;
    o[3] = y3;
}

// Rows of the state of one sequence and head.
struct Piece {
    i64 sequence, batch, first, last;  // of tokens: [first, last) of the batch
    int head, first_row, n_rows;
};

// First element of the piece in an array of states, [place, head, row, channel].
inline i64 element_of(const Piece& piece, int d, int heads, i64 place) {
    return ((place * heads + piece.head) * d + piece.first_row) * static_cast<i64>(d);
}

inline void store_state(const Piece& piece, int d, int heads, i64 place, void* array, bool narrow, const float* state) {
    const i64 first = element_of(piece, d, heads, place);
    for (int r = 0; r < piece.n_rows; ++r) {
        const float* from = state + r * kMaxHostChannels;
        if (narrow) {
            u16* to = static_cast<u16*>(array) + first + r * d;
#pragma omp simd
            for (int i = 0; i < d; ++i) to[i] = to_bf16(from[i]);
        } else {
            __builtin_memcpy(static_cast<float*>(array) + first + r * d, from, d * sizeof(float));
        }
    }
}

inline void load_state(const Piece& piece, int d, int heads, i64 place, const void* array, bool narrow, float* state) {
    const i64 first = array == nullptr ? 0 : element_of(piece, d, heads, place);
    for (int r = 0; r < piece.n_rows; ++r) {
        float* to = state + r * kMaxHostChannels;
        if (array == nullptr) {
            for (int i = 0; i < d; ++i) to[i] = 0.0f;
        } else if (narrow) {
            const u16* from = static_cast<const u16*>(array) + first + r * d;
#pragma omp simd
            for (int i = 0; i < d; ++i) to[i] = from_bf16(from[i]);
        } else {
            __builtin_memcpy(to, static_cast<const float*>(array) + first + r * d, d * sizeof(float));
        }
    }
    // Rows that fill up the last group of kRows.
    for (int i = piece.n_rows * kMaxHostChannels; i % (kRows * kMaxHostChannels) != 0; ++i) state[i] = 0.0f;
}

// Snapshots of one sequence, in the order of their tokens; none outside of the array, whatever the offsets are.
class Snapshots {
public:
    Snapshots(const Args& args, i64 sequence) : args_(args), wide_(args.flags & kSnapshotOffsets64) {
        if (args.snapshots == nullptr) return;
        next_ = clamped(index_at(args.snapshot_offsets, sequence, wide_), 0, args.n_snapshots);
        end_ = clamped(index_at(args.snapshot_offsets, sequence + 1, wide_), next_, args.n_snapshots);
    }

    // The state after `done` tokens of the sequence.
    void take(i64 done, const Piece& piece, int d, const float* state) {
        for (; next_ < end_; ++next_) {
            const i64 wanted = index_at(args_.snapshot_tokens, next_, wide_);
            if (wanted > done) return;
            if (wanted == done)
                store_state(piece, d, args_.value_heads, next_, args_.snapshots, args_.flags & kSnapshotBf16, state);
        }
    }

private:
    const Args& args_;
    bool wide_;
    i64 next_ = 0, end_ = 0;
};

// All tokens of a piece's sequence. state: row r of the piece from r * kMaxHostChannels on.
template <int kD>
void scan(const Args& args, int channels, const Piece& piece, float* state, Chunk& chunk) {
    const int d = kD > 0 ? kD : channels;
    const float rate = args.flags & kActivated ? 0.0f : __builtin_expf(args.a_log[piece.head]);
    Snapshots snapshots(args, piece.sequence);
    for (i64 first = piece.first; first < piece.last; first += kTokens) {
        const int count = piece.last - first < kTokens ? static_cast<int>(piece.last - first) : kTokens;
        load_chunk<kD>(args, d, piece.batch, piece.head, rate, first, count, chunk);
        for (int row = 0; row < piece.n_rows; row += kRows) {
            const int n = piece.n_rows - row < kRows ? piece.n_rows - row : kRows;
            const i64 channel = piece.first_row + row;
            for (int t = 0; t < count; ++t) {
                const i64 token = first + t;
                const u16* from = args.v + piece.batch * args.v_stride.batch + token * args.v_stride.token +
                                  piece.head * args.v_stride.head + channel;
                u16* to =
                    args.out + ((piece.batch * args.tokens + token) * args.value_heads + piece.head) * d + channel;
                float v[kRows] = {}, o[kRows];
                for (int r = 0; r < n; ++r) v[r] = from_bf16(from[r]);
                step<kD>(state + row * kMaxHostChannels, d, chunk, t, v, o);
                for (int r = 0; r < n; ++r) to[r] = to_bf16(o[r]);
            }
        }
        const i64 done = first + count - piece.first;
        if (done % kSnapshotTokens == 0) snapshots.take(done, piece, d, state);
    }
}

inline Piece piece_at(const HostCall& call, i64 index) {
    const Args& args = call.args;
    const i64 chain = index / call.row_blocks;
    const int block = static_cast<int>(index % call.row_blocks);
    const int rows = (call.channels + call.row_blocks - 1) / call.row_blocks;
    Piece piece = {};
    piece.sequence = chain / args.value_heads;
    piece.head = static_cast<int>(chain % args.value_heads);
    piece.first_row = block * rows;
    piece.n_rows = call.channels - piece.first_row < rows ? call.channels - piece.first_row : rows;
    piece.last = args.tokens;
    if (args.cu_seqlens != nullptr) {
        const bool wide = args.flags & kOffsets64;
        piece.first = clamped(index_at(args.cu_seqlens, piece.sequence, wide), 0, args.tokens);
        piece.last = clamped(index_at(args.cu_seqlens, piece.sequence + 1, wide), piece.first, args.tokens);
    } else {
        piece.batch = piece.sequence;
    }
    return piece;
}

inline void run_piece(const HostCall& call, i64 index) {
    alignas(64) float state[kMaxHostChannels * kMaxHostChannels];
    Chunk chunk;
    const Args& args = call.args;
    const Piece piece = piece_at(call, index);
    if (piece.n_rows <= 0) return;
    i64 place = piece.sequence;
    if (args.state_slots != nullptr) place = index_at(args.state_slots, piece.sequence, args.flags & kSlots64);
    const bool kept = place >= 0 && place < args.n_slots;
    const bool narrow = args.flags & kStateBf16;
    const int heads = args.value_heads;
    load_state(piece, call.channels, heads, place, kept ? args.initial_state : nullptr, narrow, state);
    switch (call.channels) {
        case 64:
            scan<64>(args, 64, piece, state, chunk);
            break;
        case 128:
            scan<128>(args, 128, piece, state, chunk);
            break;
        default:
            scan<0>(args, call.channels, piece, state, chunk);
    }
    if (kept && args.final_state != nullptr)
        store_state(piece, call.channels, heads, place, args.final_state, narrow, state);
}

inline void run_forward(const void* call, long long begin, long long end) {
    for (i64 index = begin; index < end; ++index) run_piece(*static_cast<const HostCall*>(call), index);
}

}  // namespace kda

MS_END_NAMESPACE

using namespace madspace;

extern "C" {
extern const HostKernel MS_JOIN(madspace_kda_forward_, MS_ISA)[];
const HostKernel MS_JOIN(madspace_kda_forward_, MS_ISA)[] = {{"kda_forward", kda::run_forward}, {nullptr, nullptr}};
}

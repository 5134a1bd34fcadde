// Copies of memory that nobody reads soon, past the caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace madspace {

// As memcpy. An ordinary store first reads the line that it overwrites, half as much traffic again, and pushes
// something else out of the cache. Elsewhere than on x86 memcpy knows best.
inline void stream_copy(char* to, const char* from, size_t n) {
#if defined(__SSE2__)
    constexpr size_t kLine = 64;
    if (n >= 4 * kLine) {
        const size_t head = -reinterpret_cast<uintptr_t>(to) % kLine;
        std::memcpy(to, from, head);
        to += head, from += head, n -= head;
        for (; n >= kLine; to += kLine, from += kLine, n -= kLine) {
            for (size_t k = 0; k < kLine; k += sizeof(__m128i)) {
                const __m128i word = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + k));
                _mm_stream_si128(reinterpret_cast<__m128i*>(to + k), word);
            }
        }
        _mm_sfence();  // before anybody is told that the copy is done
    }
#endif
    std::memcpy(to, from, n);
}

}  // namespace madspace

# Counts of allocations, bytes and blocks. They may be read in any thread; they are changed with the GIL held, where
# there is one, and after share() without it as well.
from libc.stdint cimport int64_t, uint64_t

cdef extern from *:
    """
    #include <atomic>
    #include <cstdint>
    #include <initializer_list>
    #ifndef MADSPACE_TALLY
    #define MADSPACE_TALLY
    namespace madspace {
    // Two additions for an allocation and two for a free; what is in use is the difference.
    struct Tally {
      std::atomic<uint64_t> bytes{0}, blocks{0};              // allocated so far
      std::atomic<uint64_t> freed_bytes{0}, freed_blocks{0};
      std::atomic<int64_t> peak_bytes{0}, peak_blocks{0};
      std::atomic<uint64_t> limit{UINT64_MAX};                // of the bytes in use
      std::atomic<bool> shared{false};

      // Once, with the GIL held, so that nobody is in the midst of an addition.
      void share() { shared.store(true); }

      int64_t used_bytes() const { return difference(bytes, freed_bytes); }
      int64_t used_blocks() const { return difference(blocks, freed_blocks); }

      // Before an allocation: false where it would pass the limit. cancel() where it fails afterwards.
      bool reserve(uint64_t n) {
        uint64_t most = limit.load();
        if (most == UINT64_MAX) {
          add(bytes, n);
        } else {
          for (uint64_t before = bytes.load();;) {
            uint64_t used = before - freed_bytes.load();
            if (n > most || used > most - n) {
              uint64_t now = bytes.load();
              if (now == before) return false;
              before = now;
            } else if (bytes.compare_exchange_weak(before, before + n)) {
              break;
            }
          }
        }
        add(blocks, 1);
        return true;
      }
      void cancel(uint64_t n) {
        add(bytes, 0 - n);
        add(blocks, 0 - uint64_t{1});
      }
      void note_peaks() {
        raise(peak_bytes, used_bytes());
        raise(peak_blocks, used_blocks());
      }
      void release(uint64_t n) {
        add(freed_bytes, n);
        add(freed_blocks, 1);
      }
      void reset_peaks() {
        peak_bytes.store(used_bytes());
        peak_blocks.store(used_blocks());
      }
      void clear() {
        for (auto* count : {&bytes, &blocks, &freed_bytes, &freed_blocks}) count->store(0);
        reset_peaks();
      }

     private:
      // Under a GIL a locked instruction would only cost time, several times that of the addition.
      void add(std::atomic<uint64_t>& count, uint64_t n) {
    #ifdef Py_GIL_DISABLED
        count.fetch_add(n);
    #else
        if (shared.load(std::memory_order_relaxed)) {
          count.fetch_add(n);
        } else {
          count.store(count.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
        }
    #endif
      }
      // Of one moment, although the two are read one after the other.
      static int64_t difference(const std::atomic<uint64_t>& all, const std::atomic<uint64_t>& freed) {
        for (uint64_t before = all.load();;) {
          uint64_t gone = freed.load();
          uint64_t now = all.load();
          if (now == before) return static_cast<int64_t>(now - gone);
          before = now;
        }
      }
      static void raise(std::atomic<int64_t>& peak, int64_t now) {
        int64_t before = peak.load();
        while (before < now && !peak.compare_exchange_weak(before, now)) {
        }
      }
    };
    }  // namespace madspace
    #endif
    """
    cdef cppclass Count "std::atomic<uint64_t>":
        uint64_t load() noexcept nogil
        void store(uint64_t value) noexcept nogil
    cdef cppclass Peak "std::atomic<int64_t>":
        int64_t load() noexcept nogil
    cdef cppclass Tally "madspace::Tally":
        Count bytes
        Count blocks
        Count limit
        Peak peak_bytes
        Peak peak_blocks
        int64_t used_bytes() noexcept nogil
        int64_t used_blocks() noexcept nogil
        bint reserve(uint64_t n) noexcept nogil
        void cancel(uint64_t n) noexcept nogil
        void note_peaks() noexcept nogil
        void release(uint64_t n) noexcept nogil
        void reset_peaks() noexcept nogil
        void share() noexcept nogil
        void clear() noexcept nogil

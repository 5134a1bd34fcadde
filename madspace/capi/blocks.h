// What ms_alloc() has given out and ms_free() may take: a free of anything else is refused.
#pragma once

#include <Python.h>
#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <unordered_map>

namespace madspace {
namespace capi {

struct Block {
    std::size_t nbytes;
    int device;        // -1 for the CPU
    PyObject* buffer;  // the Buffer that owns it, where it did not come from the driver's pool directly
};

class Blocks {
public:
    bool add(const void* ptr, const Block& block) noexcept {
        Shard& shard = shard_of(ptr);
        std::lock_guard<std::mutex> guard(shard.lock);
        try {
            return shard.blocks.emplace(ptr, block).second;
        } catch (const std::bad_alloc&) {
            return false;
        }
    }

    // The block goes out of the table; false where there is none of this device.
    bool take(const void* ptr, int device, Block* block) noexcept {
        Shard& shard = shard_of(ptr);
        std::lock_guard<std::mutex> guard(shard.lock);
        const auto found = shard.blocks.find(ptr);
        if (found == shard.blocks.end() || found->second.device != device) return false;
        *block = found->second;
        shard.blocks.erase(found);
        return true;
    }

    void lock_all() noexcept {
        for (Shard& shard : shards_) shard.lock.lock();
    }
    void unlock_all() noexcept {
        for (Shard& shard : shards_) shard.lock.unlock();
    }

private:
    struct Shard {
        std::mutex lock;
        std::unordered_map<const void*, Block> blocks;
    };

    Shard& shard_of(const void* ptr) noexcept {
        // Addresses are multiples of 64 or 256 bytes, large ones of megabytes.
        const std::uint64_t mixed = (reinterpret_cast<std::uintptr_t>(ptr) >> 6) * 0x9E3779B97F4A7C15u;
        return shards_[mixed >> 60];
    }

    Shard shards_[16];
};

}  // namespace capi
}  // namespace madspace

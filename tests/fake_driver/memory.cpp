// Memory pools, allocations, copies and fills over host memory.
// Fresh and freed memory is filled with 0xFF (NaN in every float type); freed memory stays in quarantine, so that
// late reads see NaN and late writes are found.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "fake.h"

namespace fake {

constexpr uint64_t kDeviceBytes = 4ull << 30;
constexpr uint64_t kQuarantineBytes = 256ull << 20;
constexpr size_t kPoisonCheck = 4096;  // how much at each end of a freed block is looked at

Memory* memory_at(uintptr_t address) {
    auto it = state().memory.upper_bound(address);
    if (it == state().memory.begin()) return nullptr;
    Memory* memory = (--it)->second;
    auto base = reinterpret_cast<uintptr_t>(memory->base);
    return address < base + std::max<size_t>(memory->size, 1) ? memory : nullptr;
}

void touch(uintptr_t address, size_t size, const char* what) {
    Memory* memory = memory_at(address);
    if (!memory || !size) return;
    auto offset = address - reinterpret_cast<uintptr_t>(memory->base);
    std::string at = hex(reinterpret_cast<void*>(address)) + " by " + what;
    if (memory->life == Life::kFreed) fault("use after free: " + at);
    if (memory->life == Life::kAllocQueued) fault("use before the allocation is complete: " + at);
    if (offset + size > memory->size) fault("access past the end of an allocation: " + at);
}

static bool poisoned(const Memory* m) {
    // The first byte is right, and each the same as the next: memcmp looks at many at once.
    auto all_ones = [](const char* p, size_t n) { return !n || (*p == '\xFF' && !std::memcmp(p, p + 1, n - 1)); };
    size_t n = std::min(m->size, kPoisonCheck);
    return all_ones(m->base, n) && all_ones(m->base + m->size - n, n);
}
static void inspect(Memory* memory) {
    if (poisoned(memory)) return;
    fault("write after free: block " + hex(memory->base));
    std::memset(memory->base, 0xFF, memory->size);
}
void check_quarantine() {
    for (Memory* memory : state().quarantine) inspect(memory);
}

static void count(Memory* memory, int sign) {
    State& s = state();
    s.live[memory->kind] += sign;
    if (memory->kind == kDeviceMemory) {
        s.live_bytes += sign * memory->size;
        s.used_by_device[memory->device] += sign * memory->size;
    }
    Pool* pool = memory->pool;
    if (!pool) return;
    pool->used += sign * memory->size;
    pool->used_high = std::max(pool->used_high, pool->used);
    pool->reserved = std::max(pool->reserved, pool->used);
    pool->reserved_high = std::max(pool->reserved_high, pool->reserved);
}

// Blocks begin at multiples of a page, at addresses whose upper half is odd and large: what else kernels are given,
// numbers and code, is not taken for one of them.
constexpr size_t kPage = 4096;
static size_t mapped_size(size_t size) { return (std::max<size_t>(size, 1) + kPage - 1) / kPage * kPage; }
static char* map_memory(size_t size) {
    static uintptr_t next = 0x2bad00000000;
    size_t n = mapped_size(size);
    if ((next + n) >> 32 != next >> 32) next = (next >> 32 | 1) + 2ull << 32;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    void* base = mmap(reinterpret_cast<void*>(next), n, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (base == MAP_FAILED) return nullptr;
    next += n;
    return static_cast<char*>(base);
}

static Memory* allocate(Kind kind, size_t size, int device, Pool* pool) {
    auto* memory = new Memory(kind);
    memory->base = map_memory(size);
    if (!memory->base) {
        delete memory;
        return nullptr;
    }
    std::memset(memory->base, 0xFF, mapped_size(size));
    memory->size = size;
    memory->device = device;
    memory->pool = pool;
    count(memory, +1);
    state().memory[reinterpret_cast<uintptr_t>(memory->base)] = memory;
    return memory;
}

// The memory leaves its owner now; the block itself waits in quarantine.
static void release(Memory* memory) {
    State& s = state();
    std::memset(memory->base, 0xFF, memory->size);
    memory->life = Life::kFreed;
    memory->live = false;
    s.quarantine.push_back(memory);
    s.quarantined += memory->size;
    while (s.quarantined > kQuarantineBytes) {
        Memory* oldest = s.quarantine.front();
        s.quarantine.pop_front();
        inspect(oldest);
        s.quarantined -= oldest->size;
        s.memory.erase(reinterpret_cast<uintptr_t>(oldest->base));
        munmap(oldest->base, mapped_size(oldest->size));  // the Memory itself stays: queued work may still name it
        oldest->base = nullptr;
    }
}

// The graph that has the node keeps it, and graphs are kept for ever.
Memory* graph_memory(size_t size, int device) {
    Memory* memory = allocate(kDeviceMemory, size, device, nullptr);
    if (!memory) return nullptr;
    count(memory, -1);
    std::memset(memory->base, 0xFF, size);
    memory->life = Life::kAllocQueued;
    return memory;
}

static bool fits(Context* context, Pool* pool, size_t size) {
    // The sums may overflow: a caller may ask for any size.
    if (size > kDeviceBytes) return false;
    if (pool && pool->max_size && pool->used + size > pool->max_size) return false;
    return state().used_by_device[pool ? pool->device : context->device] + size <= kDeviceBytes;
}

void sweep_pools() {
    for (Pool* pool : state().pools) {
        if (pool->reserved > pool->used && pool->reserved > pool->threshold)
            pool->reserved = std::max(pool->used, pool->threshold);
    }
}

static Memory* find_memory(uint64_t address, Kind kind) {
    auto it = state().memory.find(address);
    Memory* memory = it == state().memory.end() ? nullptr : it->second;
    std::string at = hex(reinterpret_cast<void*>(address));
    if (!memory || memory->kind != kind)
        fault("free of an address that was not allocated: " + at);
    else if (memory->life == Life::kFreed || memory->life == Life::kFreeQueued)
        fault("double free of " + at);
    else
        return memory;
    return nullptr;
}

static Pool* default_pool(int device) {
    Pool*& pool = state().default_pool[device];
    if (!pool) {
        pool = new Pool(device);
        state().objects[pool] = pool;  // not counted: nobody creates or destroys it
        state().pools.push_back(pool);
    }
    return pool;
}

constexpr uint64_t kGathered = 64 << 20;

static int allocate_async(Call& call, uint64_t* out, size_t size, Pool* pool, Stream* stream) {
    if (!size) return call(kInvalidValue);
    if (!fits(stream->context, pool, size)) {
        // Driver 580 keeps what it gathered before it gave up.
        pool->reserved += kGathered;
        return call(kOutOfMemory);
    }
    Memory* memory = allocate(kDeviceMemory, size, pool->device, pool);
    if (!memory) return call(kOutOfMemory);
    memory->life = Life::kAllocQueued;
    if (stream->capture) memory->graph = stream->capture->graph;
    int code = submit(stream, 10, [memory] {
        if (memory->life == Life::kFreed) return fault("free ran before the allocation it gives back");
        std::memset(memory->base, 0xFF, memory->size);
        if (memory->life == Life::kAllocQueued) memory->life = Life::kUsable;
    });
    if (code) {
        count(memory, -1);
        release(memory);
        return call(code);
    }
    *out = reinterpret_cast<uint64_t>(memory->base);
    return call.code;
}

}  // namespace fake

using namespace fake;

API int cuMemPoolCreate(void** out, const char* props) {
    Call call("cuMemPoolCreate", kInit);
    if (call.code) return call.code;
    if (int code = capture_unsafe()) return call(code);
    // CUmemPoolProps: allocType, handleTypes, location {type, id}, a pointer, maxSize.
    int fields[4];
    std::memcpy(fields, props, sizeof fields);
    if (fields[0] != 1 || fields[2] != 1 || fields[3] < 0 || fields[3] >= state().device_count)
        return call(kInvalidValue);
    Pool* pool = add(new Pool(fields[3]));
    size_t max_size;
    std::memcpy(&max_size, props + 24, sizeof max_size);
    pool->max_size = max_size;
    state().pools.push_back(pool);
    *out = pool;
    return call.code;
}
API int cuMemPoolDestroy(void* handle) {
    Call call("cuMemPoolDestroy", kInit, {{"pool", handle}});
    if (call.code) return call.code;
    Pool* pool = find<Pool>(handle);
    if (!pool) return call(kInvalidValue);
    drop(pool);
    auto& pools = state().pools;
    pools.erase(std::find(pools.begin(), pools.end(), pool));
    return call.code;
}
static uint64_t* pool_counter(Pool* pool, int attribute) {
    switch (attribute) {
        case 4:
            return &pool->threshold;
        case 5:
            return &pool->reserved;
        case 6:
            return &pool->reserved_high;
        case 7:
            return &pool->used;
        case 8:
            return &pool->used_high;
        default:
            return nullptr;
    }
}
API int cuMemPoolGetAttribute(void* handle, int attribute, void* value) {
    Call call("cuMemPoolGetAttribute", kInit, {{"pool", handle}, {"attribute", attribute}});
    if (call.code) return call.code;
    Pool* pool = find<Pool>(handle);
    if (!pool) return call(kInvalidValue);
    if (attribute >= 1 && attribute <= 3)
        *static_cast<int*>(value) = pool->reuse[attribute];
    else if (uint64_t* counter = pool_counter(pool, attribute))
        *static_cast<uint64_t*>(value) = *counter;
    else
        return call(kInvalidValue);
    return call.code;
}
API int cuMemPoolSetAttribute(void* handle, int attribute, void* value) {
    Call call("cuMemPoolSetAttribute", kInit, {{"pool", handle}, {"attribute", attribute}});
    if (call.code) return call.code;
    Pool* pool = find<Pool>(handle);
    if (!pool) return call(kInvalidValue);
    if (attribute >= 1 && attribute <= 3) {
        pool->reuse[attribute] = *static_cast<int*>(value);
        return call.code;
    }
    uint64_t wanted = *static_cast<uint64_t*>(value);
    if (attribute == 4)
        pool->threshold = wanted;
    else if ((attribute == 6 || attribute == 8) && wanted == 0)
        *pool_counter(pool, attribute) = *pool_counter(pool, attribute - 1);
    else
        return call(kInvalidValue);
    return call.code;
}
API int cuMemPoolTrimTo(void* handle, size_t keep) {
    Call call("cuMemPoolTrimTo", kInit, {{"pool", handle}, {"keep", keep}});
    if (call.code) return call.code;
    if (int code = capture_unsafe()) return call(code);
    Pool* pool = find<Pool>(handle);
    if (!pool) return call(kInvalidValue);
    pool->reserved = std::max<uint64_t>(pool->used, std::min<uint64_t>(pool->reserved, keep));
    return call.code;
}
API int cuMemPoolSetAccess(void* handle, const void*, size_t n) {
    Call call("cuMemPoolSetAccess", kInit, {{"pool", handle}, {"n", n}});
    if (call.code) return call.code;
    return call(find<Pool>(handle) ? kSuccess : kInvalidValue);
}
static int give_pool(Call& call, void** out, int device) {
    if (call.code) return call.code;
    if (device < 0 || device >= state().device_count) return call(kInvalidDevice);
    *out = default_pool(device);
    return call.code;
}
API int cuDeviceGetMemPool(void** out, int device) {
    Call call("cuDeviceGetMemPool", kInit, {{"device", device}});
    return give_pool(call, out, device);
}
API int cuDeviceGetDefaultMemPool(void** out, int device) {
    Call call("cuDeviceGetDefaultMemPool", kInit, {{"device", device}});
    return give_pool(call, out, device);
}

API int cuMemAllocFromPoolAsync(uint64_t* out, size_t size, void* pool_handle, void* handle) {
    Call call("cuMemAllocFromPoolAsync", kCurrent, {{"size", size}, {"pool", pool_handle}, {"stream", handle}});
    if (call.code) return call.code;
    Stream* stream = find_stream(handle);
    Pool* pool = find<Pool>(pool_handle);
    if (!stream) return call(kInvalidHandle);
    if (!stream->capture)
        if (int code = capture_unsafe()) return call(code);
    return pool ? allocate_async(call, out, size, pool, stream) : call(kInvalidValue);
}
API int cuMemAllocAsync(uint64_t* out, size_t size, void* handle) {
    Call call("cuMemAllocAsync", kCurrent, {{"size", size}, {"stream", handle}});
    if (call.code) return call.code;
    Stream* stream = find_stream(handle);
    if (stream && !stream->capture)
        if (int code = capture_unsafe()) return call(code);
    return stream ? allocate_async(call, out, size, default_pool(stream->context->device), stream)
                  : call(kInvalidHandle);
}
API int cuMemFreeAsync(uint64_t address, void* handle) {
    Call call("cuMemFreeAsync", kCurrent, {{"ptr", reinterpret_cast<void*>(address)}, {"stream", handle}});
    if (call.code) return call.code;
    Stream* stream = find_stream(handle);
    if (!stream) return call(kInvalidHandle);
    if (!stream->capture)
        if (int code = capture_unsafe()) return call(code);
    Memory* memory = find_memory(address, kDeviceMemory);
    if (!memory) return call(kInvalidValue);
    if (stream->capture && memory->graph != stream->capture->graph) {
        stream->capture->invalid = true;
        return call(kInvalidValue);
    }
    bool was_graph = stream->capture != nullptr;
    Life before = memory->life;
    if (!was_graph) {
        memory->life = Life::kFreeQueued;
        count(memory, -1);  // before the free runs: counts are about what the caller still owns
    }
    int code = submit(stream, 11, [memory, was_graph] {
        if (was_graph)
            std::memset(memory->base, 0xFF, memory->size);  // the graph keeps the address for its next launch
        else
            release(memory);
    });
    if (code && !was_graph) {
        memory->life = before;
        count(memory, +1);
    }
    return call(code);
}
API int cuMemAlloc_v2(uint64_t* out, size_t size) {
    Call call("cuMemAlloc", kCurrent, {{"size", size}});
    if (call.code) return call.code;
    if (int code = capture_unsafe()) return call(code);
    if (!size) return call(kInvalidValue);
    Memory* memory =
        fits(current(), nullptr, size) ? allocate(kDeviceMemory, size, current()->device, nullptr) : nullptr;
    if (!memory) return call(kOutOfMemory);
    *out = reinterpret_cast<uint64_t>(memory->base);
    return call.code;
}
ALIAS(int, cuMemAlloc, cuMemAlloc_v2);
API int cuMemFree_v2(uint64_t address) {
    Call call("cuMemFree", kCurrent, {{"ptr", reinterpret_cast<void*>(address)}});
    if (call.code || !address) return call.code;
    if (int code = capture_unsafe()) return call(code);
    Memory* memory = find_memory(address, kDeviceMemory);
    if (!memory) return call(kInvalidValue);
    drain_context(current());  // a plain free waits for the device
    count(memory, -1);
    release(memory);
    return call.code;
}
ALIAS(int, cuMemFree, cuMemFree_v2);
static int host_alloc(Call& call, void** out, size_t size) {
    if (call.code) return call.code;
    if (int code = capture_unsafe()) return call(code);
    Memory* memory = size ? allocate(kHostMemory, size, current()->device, nullptr) : nullptr;
    if (!memory) return call(size ? kOutOfMemory : kInvalidValue);
    *out = memory->base;
    return call.code;
}
API int cuMemHostAlloc(void** out, size_t size, unsigned flags) {
    Call call("cuMemHostAlloc", kCurrent, {{"size", size}, {"flags", flags}});
    return host_alloc(call, out, size);
}
API int cuMemAllocHost_v2(void** out, size_t size) {
    Call call("cuMemAllocHost", kCurrent, {{"size", size}});
    return host_alloc(call, out, size);
}
ALIAS(int, cuMemAllocHost, cuMemAllocHost_v2);
API int cuMemFreeHost(void* pointer) {
    Call call("cuMemFreeHost", kCurrent, {{"ptr", pointer}});
    if (call.code) return call.code;
    if (int code = capture_unsafe()) return call(code);
    Memory* memory = find_memory(reinterpret_cast<uint64_t>(pointer), kHostMemory);
    if (!memory) return call(kInvalidValue);
    count(memory, -1);
    release(memory);
    return call.code;
}
API int cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
    Call call("cuMemGetInfo", kCurrent);
    if (call.code) return call.code;
    *total = kDeviceBytes;
    *free_bytes = kDeviceBytes - state().used_by_device[current()->device];
    return call.code;
}
ALIAS(int, cuMemGetInfo, cuMemGetInfo_v2);

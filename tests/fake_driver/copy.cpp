// Copies, fills and pointer attributes.
#include <cstring>

#include "fake.h"

namespace fake {

static bool is_device(uint64_t address) {
    Memory* memory = memory_at(address);
    return memory && memory->kind == kDeviceMemory;
}
static bool pageable(uint64_t address) { return !memory_at(address); }

// Device ranges must lie within one allocation; a range that was freed for good is a fault when the copy runs.
static bool in_bounds(uint64_t address, size_t size) {
    Memory* memory = memory_at(address);
    return !memory || address + size <= reinterpret_cast<uint64_t>(memory->base) + memory->size;
}

enum Side { kHost, kDevice, kEither };
static int copy(Call& call, uint64_t to, Side to_side, uint64_t from, Side from_side, size_t size, void* handle,
                bool wait) {
    if (call.code) return call.code;
    Stream* stream = find_stream(handle);
    if (!stream) return call(kInvalidHandle);
    if (wait && stream->capture) return call(kCaptureUnsupported);
    if (!size) return call.code;
    if ((to_side == kDevice && !is_device(to)) || (from_side == kDevice && !is_device(from)) || !in_bounds(to, size) ||
        !in_bounds(from, size)) {
        fault("copy with an address that is no device memory, or past its end");
        return call(kInvalidValue);
    }
    // Pageable sources are read during the call, pageable destinations are written during it; pinned memory is neither.
    auto staged = std::make_shared<std::string>();
    if (pageable(from) && !stream->capture) staged->assign(reinterpret_cast<char*>(from), size);
    int code = submit(stream, 1, [=] {
        touch(to, size, "a copy's destination");
        touch(from, size, "a copy's source");
        std::memmove(reinterpret_cast<char*>(to), staged->empty() ? reinterpret_cast<char*>(from) : staged->data(),
                     size);
    });
    if (!code && !stream->capture && (wait || pageable(to))) complete(OpRef(stream->last));
    return call(code);
}

template <class T>
static int fill(Call& call, uint64_t to, T value, size_t n, void* handle) {
    if (call.code) return call.code;
    Stream* stream = find_stream(handle);
    if (!stream) return call(kInvalidHandle);
    if (!n) return call.code;
    if (!memory_at(to) || to % sizeof(T) || !in_bounds(to, n * sizeof(T))) {
        fault("fill of an address that is no device memory, or past its end");
        return call(kInvalidValue);
    }
    return call(submit(stream, 2, [=] {
        touch(to, n * sizeof(T), "a fill");
        T* data = reinterpret_cast<T*>(to);
        for (size_t i = 0; i < n; i++) data[i] = value;
    }));
}

struct Rows {
    uint64_t address;
    size_t pitch;
};
// One call of a two-dimensional copy or fill is one piece of work; each row is checked as a range of its own.
static bool rows_in_bounds(Rows rows, size_t width, size_t height) {
    uint64_t last = rows.address + (height - 1) * rows.pitch;
    return is_device(rows.address) && memory_at(last) == memory_at(rows.address) && in_bounds(last, width);
}
static int copy_rows(Call& call, Rows to, Rows from, size_t width, size_t height, void* handle) {
    if (call.code) return call.code;
    Stream* stream = find_stream(handle);
    if (!stream) return call(kInvalidHandle);
    if (to.pitch < width || from.pitch < width || to.pitch > 0x7fffffff || from.pitch > 0x7fffffff)
        return call(kInvalidValue);
    if (!width || !height) return call.code;
    if (!rows_in_bounds(to, width, height) || !rows_in_bounds(from, width, height)) {
        fault("two-dimensional copy with an address that is no device memory, or past its end");
        return call(kInvalidValue);
    }
    return call(submit(stream, 1, [=] {
        for (size_t i = 0; i < height; i++) {
            uint64_t target = to.address + i * to.pitch, source = from.address + i * from.pitch;
            touch(target, width, "a copy's destination");
            touch(source, width, "a copy's source");
            std::memcpy(reinterpret_cast<char*>(target), reinterpret_cast<char*>(source), width);
        }
    }));
}
static int fill_rows(Call& call, Rows to, unsigned value, size_t width, size_t height, void* handle) {
    if (call.code) return call.code;
    Stream* stream = find_stream(handle);
    if (!stream) return call(kInvalidHandle);
    if (to.address % sizeof value || to.pitch % sizeof value || (height > 1 && to.pitch < width * sizeof value))
        return call(kInvalidValue);
    if (!width || !height) return call.code;
    if (!rows_in_bounds(to, width * sizeof value, height)) {
        fault("two-dimensional fill of an address that is no device memory, or past its end");
        return call(kInvalidValue);
    }
    return call(submit(stream, 2, [=] {
        for (size_t i = 0; i < height; i++) {
            uint64_t row = to.address + i * to.pitch;
            touch(row, width * sizeof value, "a fill");
            for (size_t j = 0; j < width; j++) reinterpret_cast<unsigned*>(row)[j] = value;
        }
    }));
}

// CUDA_MEMCPY2D: kinds of memory are 1 host, 2 device, 3 array.
struct Side2D {
    size_t x, y;
    int kind;
    void* host;
    uint64_t device;
    void* array;
    size_t pitch;
};
struct Copy2D {
    Side2D from, to;
    size_t width, height;
};

static void* pointer(uint64_t address) { return reinterpret_cast<void*>(address); }
static uint64_t address(const void* p) { return reinterpret_cast<uint64_t>(p); }

}  // namespace fake

using namespace fake;

#define COPY_CALL(name) \
    Call call(name, kCurrent, {{"dst", pointer(to)}, {"src", pointer(from)}, {"size", size}, {"stream", stream}})

API int cuMemcpyAsync(uint64_t to, uint64_t from, size_t size, void* stream) {
    COPY_CALL("cuMemcpyAsync");
    return copy(call, to, kEither, from, kEither, size, stream, false);
}
API int cuMemcpyHtoDAsync_v2(uint64_t to, const void* source, size_t size, void* stream) {
    uint64_t from = address(source);
    COPY_CALL("cuMemcpyHtoDAsync");
    return copy(call, to, kDevice, from, kHost, size, stream, false);
}
ALIAS(int, cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2);
API int cuMemcpyDtoHAsync_v2(void* target, uint64_t from, size_t size, void* stream) {
    uint64_t to = address(target);
    COPY_CALL("cuMemcpyDtoHAsync");
    return copy(call, to, kHost, from, kDevice, size, stream, false);
}
ALIAS(int, cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2);
API int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, void* stream) {
    COPY_CALL("cuMemcpyDtoDAsync");
    return copy(call, to, kDevice, from, kDevice, size, stream, false);
}
ALIAS(int, cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2);
API int cuMemcpyPeerAsync(uint64_t to, void* to_context, uint64_t from, void* from_context, size_t size, void* stream) {
    COPY_CALL("cuMemcpyPeerAsync");
    if (!call.code && (!find<Context>(to_context) || !find<Context>(from_context))) return call(kInvalidContext);
    return copy(call, to, kDevice, from, kDevice, size, stream, false);
}
// The synchronous copies go through the legacy stream and return when they are done.
#define LEGACY void* stream = pointer(1)
API int cuMemcpy(uint64_t to, uint64_t from, size_t size) {
    LEGACY;
    COPY_CALL("cuMemcpy");
    return copy(call, to, kEither, from, kEither, size, stream, true);
}
API int cuMemcpyHtoD_v2(uint64_t to, const void* source, size_t size) {
    LEGACY;
    uint64_t from = address(source);
    COPY_CALL("cuMemcpyHtoD");
    return copy(call, to, kDevice, from, kHost, size, stream, true);
}
ALIAS(int, cuMemcpyHtoD, cuMemcpyHtoD_v2);
API int cuMemcpyDtoH_v2(void* target, uint64_t from, size_t size) {
    LEGACY;
    uint64_t to = address(target);
    COPY_CALL("cuMemcpyDtoH");
    return copy(call, to, kHost, from, kDevice, size, stream, true);
}
ALIAS(int, cuMemcpyDtoH, cuMemcpyDtoH_v2);

// Between device memory alone, from the first byte on.
API int cuMemcpy2DAsync_v2(const Copy2D* c, void* stream) {
    Call call("cuMemcpy2DAsync", kCurrent,
              {{"dst", pointer(c->to.device)},
               {"src", pointer(c->from.device)},
               {"width", c->width},
               {"height", c->height},
               {"stream", stream}});
    if (!call.code && (c->from.kind != 2 || c->to.kind != 2 || c->from.x || c->from.y || c->to.x || c->to.y))
        return call(kInvalidValue);
    return copy_rows(call, {c->to.device, c->to.pitch}, {c->from.device, c->from.pitch}, c->width, c->height, stream);
}
ALIAS(int, cuMemcpy2DAsync, cuMemcpy2DAsync_v2);

#define FILL_CALL(name) Call call(name, kCurrent, {{"dst", pointer(to)}, {"n", n}, {"stream", stream}})
API int cuMemsetD8Async(uint64_t to, unsigned char value, size_t n, void* stream) {
    FILL_CALL("cuMemsetD8Async");
    return fill(call, to, value, n, stream);
}
API int cuMemsetD16Async(uint64_t to, unsigned short value, size_t n, void* stream) {
    FILL_CALL("cuMemsetD16Async");
    return fill(call, to, value, n, stream);
}
API int cuMemsetD32Async(uint64_t to, unsigned value, size_t n, void* stream) {
    FILL_CALL("cuMemsetD32Async");
    return fill(call, to, value, n, stream);
}
API int cuMemsetD2D32Async(uint64_t to, size_t pitch, unsigned value, size_t width, size_t height, void* stream) {
    size_t n = width * height;
    FILL_CALL("cuMemsetD2D32Async");
    return fill_rows(call, {to, pitch}, value, width, height, stream);
}

static int pointer_attribute(void* out, int attribute, uint64_t at) {
    Memory* memory = memory_at(at);
    if (!memory || memory->life == Life::kFreed) return kInvalidValue;
    switch (attribute) {
        case 1: {
            auto it = state().primary.find(memory->device);
            *static_cast<void**>(out) = it == state().primary.end() || memory->pool ? nullptr : it->second;
            return kSuccess;
        }
        case 2:
            *static_cast<unsigned*>(out) = memory->kind == kDeviceMemory ? 2 : 1;
            return kSuccess;
        case 3:
            *static_cast<uint64_t*>(out) = at;
            return kSuccess;
        case 4:
            if (memory->kind == kDeviceMemory) return kInvalidValue;
            *static_cast<uint64_t*>(out) = at;
            return kSuccess;
        case 8:
            *static_cast<int*>(out) = 0;
            return kSuccess;
        case 9:
            *static_cast<int*>(out) = memory->device;
            return kSuccess;
        case 11:
            *static_cast<void**>(out) = memory->base;
            return kSuccess;
        case 12:
            *static_cast<size_t*>(out) = memory->size;
            return kSuccess;
        case 13:
            *static_cast<int*>(out) = 1;
            return kSuccess;
        case 17:
            *static_cast<void**>(out) = memory->pool;
            return kSuccess;
        default:
            return kInvalidValue;
    }
}
API int cuPointerGetAttribute(void* out, int attribute, uint64_t at) {
    Call call("cuPointerGetAttribute", kInit, {{"attribute", attribute}, {"ptr", pointer(at)}});
    return call.code ? call.code : call(pointer_attribute(out, attribute, at));
}
API int cuPointerGetAttributes(unsigned n, const int* attributes, void** out, uint64_t at) {
    Call call("cuPointerGetAttributes", kInit, {{"n", n}, {"ptr", pointer(at)}});
    if (call.code) return call.code;
    static const std::map<int, size_t> kSizes = {{1, 8}, {2, 4},  {3, 8},  {4, 8},  {8, 4},
                                                 {9, 4}, {11, 8}, {12, 8}, {13, 4}, {17, 8}};
    for (unsigned i = 0; i < n; i++) {
        auto size = kSizes.find(attributes[i]);
        if (size == kSizes.end()) return call(kInvalidValue);
        // Unlike the single query, this one answers with empty values for memory that the driver does not know.
        if (pointer_attribute(out[i], attributes[i], at)) {
            std::memset(out[i], 0, size->second);
            if (attributes[i] == 9) *static_cast<int*>(out[i]) = -2;
        }
    }
    return call.code;
}

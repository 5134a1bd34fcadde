// What the handles of the C API stand for. A handle is a number, not an address: a place in a table whose entries are
// never given back to the system, and how often that place was used. So any value, also one that was released or never
// given out, can be looked up without harm.
#pragma once

#include <Python.h>
#include <pthread.h>

#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <new>

namespace madspace {
namespace capi {

enum Kind : int { kFree, kDevice, kStream, kEvent, kWorkspace, kModule, kKernel, kCapture, kGraph, kProgram, kKinds };

constexpr const char* kKindNames[] = {"released", "device", "stream",  "event", "workspace",
                                      "module",   "kernel", "capture", "graph", "program"};

// What is needed of an object without the interpreter. `owner` is a reference of its own, and what the other pointers
// point into lives as long as it.
struct Object {
    std::atomic<std::uint64_t> stamp{0};  // uses of this place so far << 8 | Kind
    std::uint32_t index = 0;
    std::uint32_t next = 0;  // of the free ones
    int device = -1;         // number, -1 for the CPU
    void* context = nullptr;
    void* native = nullptr;       // the driver's handle
    const int* closed = nullptr;  // whether the Python object was closed; null: it cannot be
    PyObject* owner = nullptr;
    void* more[3] = {};  // what the kind has beyond this, see who makes it
};

class Registry {
public:
    Object* find(const void* handle, int kind) const noexcept {
        const std::uint64_t number = reinterpret_cast<std::uintptr_t>(handle);
        const std::uint64_t index = number & kIndexMask;
        if (index >= kChunks * kChunkSize) return nullptr;
        Object* chunk = chunks_[index / kChunkSize].load(std::memory_order_acquire);
        if (chunk == nullptr) return nullptr;
        Object* object = chunk + index % kChunkSize;
        const std::uint64_t stamp = (number >> kIndexBits) << 8 | static_cast<std::uint64_t>(kind);
        return object->stamp.load(std::memory_order_acquire) == stamp ? object : nullptr;
    }

    // The kind of an open handle; kFree for none.
    int kind(const void* handle) const noexcept {
        for (int k = kDevice; k < kKinds; ++k)
            if (find(handle, k) != nullptr) return k;
        return kFree;
    }

    // An object that nobody can find until publish(); null where there is no memory left.
    Object* make() noexcept {
        std::lock_guard<std::mutex> guard(lock);
        if (free_ == kNone && !grow()) return nullptr;
        Object* object = at(free_);
        free_ = object->next;
        return object;
    }

    void* publish(Object* object, int kind) noexcept {
        const std::uint64_t uses = (object->stamp.load() >> 8) + 1;
        object->stamp.store(uses << 8 | static_cast<std::uint64_t>(kind), std::memory_order_release);
        return reinterpret_cast<void*>(static_cast<std::uintptr_t>(uses << kIndexBits | object->index));
    }

    // Take an object out of sight, to be given back; null where it is not there, or another thread was first.
    Object* end(const void* handle, int kind) noexcept {
        Object* object = find(handle, kind);
        if (object == nullptr) return nullptr;
        std::uint64_t stamp =
            (reinterpret_cast<std::uintptr_t>(handle) >> kIndexBits) << 8 | static_cast<std::uint64_t>(kind);
        return object->stamp.compare_exchange_strong(stamp, stamp >> 8 << 8) ? object : nullptr;
    }

    void give_back(Object* object) noexcept {
        std::lock_guard<std::mutex> guard(lock);
        object->device = -1;
        object->context = object->native = object->more[0] = object->more[1] = object->more[2] = nullptr;
        object->closed = nullptr;
        object->owner = nullptr;
        object->next = free_;
        free_ = object->index;
    }

    std::mutex lock;

private:
    static constexpr int kIndexBits = 22;
    static constexpr std::uint64_t kIndexMask = (1u << kIndexBits) - 1;
    static constexpr std::uint64_t kChunkSize = 1024, kChunks = 4096;
    static constexpr std::uint32_t kNone = 0xFFFFFFFF;

    Object* at(std::uint32_t index) noexcept { return chunks_[index / kChunkSize].load() + index % kChunkSize; }

    bool grow() noexcept {
        if (n_chunks_ == kChunks) return false;
        Object* chunk = new (std::nothrow) Object[kChunkSize];
        if (chunk == nullptr) return false;
        for (std::uint32_t i = 0; i < kChunkSize; ++i) {
            chunk[i].index = static_cast<std::uint32_t>(n_chunks_ * kChunkSize + i);
            chunk[i].next = i + 1 < kChunkSize ? chunk[i].index + 1 : kNone;
        }
        free_ = chunk[0].index;
        chunks_[n_chunks_++].store(chunk, std::memory_order_release);
        return true;
    }

    std::atomic<Object*> chunks_[kChunks] = {};
    std::uint64_t n_chunks_ = 0;
    std::uint32_t free_ = kNone;
};

// ---- messages ----

constexpr int kMessageLength = 2048;

struct Failure {
    char text[kMessageLength];
    int status;  // the code that was returned
    int driver_code;
};

// Write a message and return the code.
__attribute__((format(printf, 3, 4))) inline int write_failure(Failure* failure, int code, const char* format, ...) {
    va_list values;
    va_start(values, format);
    std::vsnprintf(failure->text, kMessageLength, format, values);
    va_end(values);
    failure->status = code;
    failure->driver_code = 0;
    return code;
}

// ---- the interpreter ----

// Who holds or waits for the GIL on behalf of a caller: the exit hook lets them finish, since the interpreter would end
// or hang a thread that asks for the GIL too late.
struct Sections {
    std::atomic<int> inside{0};
    std::atomic<int> closing{0};
};

// Between enter() and leave() the GIL is held, and a pending exception of the caller is put aside.
struct Section {
    PyGILState_STATE state;
    PyObject *kind, *value, *trace;
};

inline bool enter(Sections* sections, Section* section) noexcept {
    sections->inside.fetch_add(1);
    if (sections->closing.load()) {
        sections->inside.fetch_sub(1);
        return false;
    }
    section->state = PyGILState_Ensure();
    PyErr_Fetch(&section->kind, &section->value, &section->trace);
    return true;
}

inline int leave(Sections* sections, Section* section, int code) noexcept {
    PyErr_Restore(section->kind, section->value, section->trace);
    PyGILState_Release(section->state);
    sections->inside.fetch_sub(1);
    return code;
}

// ---- what threads without the GIL read ----

// It is written with the GIL held, then a flag that tells so: the two in between, where each side writes or reads it.
inline void before_flag() noexcept { std::atomic_thread_fence(std::memory_order_release); }
inline void after_flag() noexcept { std::atomic_thread_fence(std::memory_order_acquire); }

}  // namespace capi
}  // namespace madspace

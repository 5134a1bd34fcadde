// Call log, faults, injected failures, the report at exit, and the fake_* functions that the tests call.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "fake.h"

namespace fake {

const char* const kKindNames[kKinds] = {"context", "stream", "event",    "pool",  "device_memory", "host_memory",
                                        "library", "kernel", "function", "graph", "graph_exec"};
constexpr size_t kLogLimit = 200000;  // a soak test makes millions of calls; the newest ones matter

State& state() {
    static State* instance = [] {
        auto* made = new State;
        if (const char* n = std::getenv("MADSPACE_FAKE_DEVICES")) made->device_count = std::atoi(n);
        return made;
    }();
    return *instance;
}

std::vector<Context*>& context_stack() {
    thread_local std::vector<Context*> stack;
    return stack;
}
int& capture_mode() {
    thread_local int mode = 0;
    return mode;
}
uint64_t this_thread() { return std::hash<std::thread::id>()(std::this_thread::get_id()); }

std::string hex(const void* pointer) {
    char text[32];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(pointer)));
    return text;
}

// Lines written at once: the process may be on its way out.
static void report(const std::string& line) {
    const char* path = std::getenv("MADSPACE_FAKE_REPORT");
    if (!path) return;
    if (FILE* file = std::fopen(path, "a")) {
        std::fprintf(file, "%s\n", line.c_str());
        std::fclose(file);
    }
}

void fault(const std::string& text) {
    state().faults.push_back(text);
    report("fault " + text);
}

// The interpreter counts as gone as soon as its finalisation has passed the atexit hooks.
static bool interpreter_gone() {
    using IsInitialized = int (*)();
    static auto is_initialized = reinterpret_cast<IsInitialized>(dlsym(RTLD_DEFAULT, "Py_IsInitialized"));
    return is_initialized && !is_initialized();
}

static int gil_held() {
    using Check = int (*)();
    static auto check = reinterpret_cast<Check>(dlsym(RTLD_DEFAULT, "PyGILState_Check"));
    return check && check();
}

Call::Call(const char* name, Need need, std::initializer_list<Arg> args) {
    State& s = state();
    if (s.pid && s.pid != getpid()) {  // before the lock, which another thread of the parent may have held
        report(std::string("fault call after fork: ") + name);
        code = kNotInitialized;
        return;
    }
    // Unlocked, so that other threads may make calls meanwhile.
    if (Hook hook = s.hook.load(); hook && s.hook_name == name) hook(gil_held());
    guard_ = std::unique_lock<std::recursive_mutex>(s.lock);
    s.calls++;
    line_ = name;
    for (const Arg& arg : args) line_ += " " + arg.key + "=" + arg.value;
    logged_ = true;
    if (s.deinitialised) {
        fault(std::string("call after deinitialisation: ") + name);
        code = kDeinitialized;
        return;
    }
    if (need != kNothing && interpreter_gone()) fault(std::string("call after interpreter finalisation: ") + name);
    for (size_t i = 0; i < s.rules.size(); i++) {
        FailRule& rule = s.rules[i];
        if (rule.name != "*" && rule.name != name) continue;
        if (--rule.countdown > 0) continue;
        code = rule.code;
        s.rules_fired++;
        s.rules.erase(s.rules.begin() + i);
        return;
    }
    if (need == kNothing) return;
    if (!s.pid) {
        code = kNotInitialized;
        return;
    }
    if (need != kCurrent) return;
    if (s.sticky) {
        code = s.sticky;
        return;
    }
    if (!current()) code = kInvalidContext;
}

Call::~Call() {
    if (!logged_) return;
    State& s = state();
    if (s.log.size() >= kLogLimit) s.log.pop_front();
    s.log.push_back(line_ + " -> " + std::to_string(code));
}

void drop(Object* object) {
    object->live = false;
    state().live[object->kind]--;
}

Object* find_object(void* handle, Kind kind) {
    auto it = state().objects.find(handle);
    if (it == state().objects.end() || it->second->kind != kind) {
        fault(std::string("unknown ") + kKindNames[kind] + " handle " + hex(handle));
        return nullptr;
    }
    if (!it->second->live) {
        fault(std::string(kKindNames[kind]) + " handle used after its end: " + hex(handle));
        return nullptr;
    }
    return it->second;
}

static void at_exit() {
    State& s = state();
    if (!s.pid || s.pid != getpid()) return;
    std::string line = "live";
    for (int k = 0; k < kKinds; k++) line += std::string(" ") + kKindNames[k] + "=" + std::to_string(s.live[k]);
    report(line);
    s.deinitialised = true;
}
__attribute__((destructor)) static void unload() { at_exit(); }

// Copies text for ctypes: returns the needed size, writes at most `size` bytes.
static size_t give(const std::string& text, char* out, size_t size) {
    if (out && size) {
        size_t n = std::min(size - 1, text.size());
        std::memcpy(out, text.data(), n);
        out[n] = 0;
    }
    return text.size() + 1;
}
template <class Lines>
static std::string join(const Lines& lines) {
    std::string all;
    for (const std::string& line : lines) all += line + "\n";
    return all;
}

}  // namespace fake

using namespace fake;
#define LOCKED std::lock_guard<std::recursive_mutex> guard(state().lock)

API size_t fake_log(char* out, size_t size) {
    LOCKED;
    return give(join(state().log), out, size);
}
API size_t fake_faults(char* out, size_t size) {
    LOCKED;
    check_quarantine();
    return give(join(state().faults), out, size);
}
API void fake_clear_log() {
    LOCKED;
    state().log.clear();
}
API void fake_clear_faults() {
    LOCKED;
    state().faults.clear();
}
API long fake_live(int kind) {
    LOCKED;
    return kind >= 0 && kind < kKinds ? state().live[kind] : -1;
}
API const char* fake_kind_name(int kind) { return kind >= 0 && kind < kKinds ? kKindNames[kind] : nullptr; }
API unsigned long long fake_live_bytes() {
    LOCKED;
    return state().live_bytes;
}
API unsigned long long fake_null_stream_uses() {
    LOCKED;
    return state().null_stream_uses;
}
API unsigned long long fake_calls() {
    LOCKED;
    return state().calls;
}
API void fake_fail(const char* name, long nth, int code) {
    LOCKED;
    state().rules.push_back({name, nth, code});
}
API void fake_clear_failures() {
    LOCKED;
    state().rules.clear();
    state().rules_fired = 0;
}
API long fake_failures_fired() {
    LOCKED;
    return state().rules_fired;
}
// Stand for functions of another library that fail as functions of Python's C interface do.
static int refuse(const char* kind) {
    auto set = reinterpret_cast<void (*)(void*, const char*)>(dlsym(RTLD_DEFAULT, "PyErr_SetString"));
    set(*static_cast<void**>(dlsym(RTLD_DEFAULT, kind)), "no room left");
    return -1;
}
API int fake_refuse(void*, void**) { return refuse("PyExc_ValueError"); }
API int fake_interrupt(void*, void**) { return refuse("PyExc_KeyboardInterrupt"); }
API void fake_on_call(const char* name, Hook hook) {
    LOCKED;
    state().hook.store(nullptr);
    state().hook_name = name;
    state().hook.store(hook);
}
API void fake_sticky(int code) {
    LOCKED;
    state().sticky = code;
}
API void fake_deinitialise() {
    LOCKED;
    at_exit();
    state().deinitialised = true;
}
API void fake_accept_all(int on) {
    LOCKED;
    state().accept_all = on;
}
API void fake_set_device_count(int n) {
    LOCKED;
    state().device_count = n;
}
API void fake_set_attribute(int device, int attribute, int value) {
    LOCKED;
    state().attributes[{device, attribute}] = value;
}
API void fake_defer_new(int on) {
    LOCKED;
    state().defer_new = on;
}
API void fake_trim_contexts(size_t depth) { context_stack().resize(std::min(depth, context_stack().size())); }
API int fake_context_depth() { return static_cast<int>(context_stack().size()); }

API int fake_defer(void* handle, int on) {
    LOCKED;
    Stream* stream = find_stream(handle);
    if (!stream) return kInvalidHandle;
    stream->deferred = on;
    if (!on) drain(stream);
    return kSuccess;
}
API long fake_pending(void* handle) {
    LOCKED;
    Stream* stream = find_stream(handle);
    return stream ? static_cast<long>(stream->queue.size()) : -1;
}
// Executes the first n pieces of queued work of a stream (n < 0: all of it).
API int fake_run(void* handle, long n) {
    LOCKED;
    Stream* stream = find_stream(handle);
    if (!stream) return kInvalidHandle;
    for (; n != 0 && !stream->queue.empty(); n--) complete(stream->queue.front());
    return kSuccess;
}
// Back to the state of a fresh session, but for the live handles, which others own.
API void fake_reset() {
    LOCKED;
    State& s = state();
    s.rules.clear();
    s.rules_fired = 0;
    s.sticky = 0;
    s.accept_all = s.defer_new = false;
    s.attributes.clear();
    s.null_stream_uses = 0;
    capture_mode() = 0;
    for (Stream* stream : streams_of(nullptr)) {
        stream->deferred = false;
        drain(stream);
    }
    check_quarantine();
    s.log.clear();
    s.faults.clear();
}
API void fake_register_kernel(const char* name, KernelFn fn, int n, const size_t* sizes) {
    LOCKED;
    Registered entry{fn, {}};
    size_t offset = 0;
    for (int i = 0; i < n; i++) {
        // Natural alignment up to 8 bytes, which is what scalars and pointers have.
        size_t align = sizes[i] >= 8 ? 8 : sizes[i] >= 4 ? 4 : sizes[i] >= 2 ? 2 : 1;
        offset = (offset + align - 1) / align * align;
        entry.params.push_back({offset, sizes[i]});
        offset += sizes[i];
    }
    state().registry[name] = entry;
}
API void fake_unregister_kernel(const char* name) {
    LOCKED;
    state().registry.erase(name);
}

// State shared by the parts of the fake driver: handles, queued work, the call log, injected failures.
// Nothing here comes from cuda.h: the tests build this library where no CUDA header is installed.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))
// The same entry point under a second exported name (the plain name of a versioned function).
#define ALIAS(type, alias_name, target) \
    extern "C" __attribute__((visibility("default"), alias(#target))) type alias_name(...)

namespace fake {

// Driver result codes used by the fake, by value as in the public documentation of the driver API.
enum Code : int {
    kSuccess = 0,
    kInvalidValue = 1,
    kOutOfMemory = 2,
    kNotInitialized = 3,
    kDeinitialized = 4,
    kInvalidDevice = 101,
    kInvalidImage = 200,
    kInvalidContext = 201,
    kInvalidPtx = 218,
    kInvalidHandle = 400,
    kNotFound = 500,
    kNotReady = 600,
    kNotSupported = 801,
    kCooperativeTooLarge = 720,
    kInvalidClusterSize = 912,
    kCaptureUnsupported = 900,
    kCaptureInvalidated = 901,
    kCaptureMerge = 902,
    kCaptureUnmatched = 903,
    kCaptureUnjoined = 904,
    kCaptureIsolation = 905,
    kCaptureImplicit = 906,
    kCapturedEvent = 907,
    kCaptureWrongThread = 908,
    kUpdateFailure = 910,
};

enum Kind {
    kContext,
    kStream,
    kEvent,
    kPool,
    kDeviceMemory,
    kHostMemory,
    kLibrary,
    kKernel,
    kFunction,
    kGraph,
    kGraphExec,
    kKinds
};
extern const char* const kKindNames[kKinds];

struct Stream;
struct Capture;

// Handles are addresses of Objects. A destroyed Object is never deallocated, so a stale handle is always recognised.
struct Object {
    explicit Object(Kind k) : kind(k) {}
    Kind kind;
    bool live = true;
};

struct Context : Object {
    static constexpr Kind kThisKind = kContext;
    explicit Context(int dev) : Object(kContext), device(dev) {}
    int device;
    int retained = 0;
    Stream* legacy = nullptr;
};

// One piece of queued device work.
struct Op {
    std::function<void()> run;
    Stream* stream = nullptr;
    std::vector<std::shared_ptr<Op>> after;  // work of other streams that must be complete first
    bool done = false;
    std::chrono::steady_clock::time_point finished;
};
using OpRef = std::shared_ptr<Op>;
using Clock = std::map<Stream*, uint64_t>;  // which captured work of which stream is known to come before

struct Stream : Object {
    static constexpr Kind kThisKind = kStream;
    Stream(Context* c, unsigned f, int p) : Object(kStream), context(c), flags(f), priority(p) {}
    Context* context;
    unsigned flags;  // 1: does not synchronise with the legacy stream
    int priority;
    bool deferred = false;
    std::deque<OpRef> queue;  // not yet executed
    OpRef last;               // the most recently queued work
    Capture* capture = nullptr;
    Clock clock;
};

struct Event : Object {
    static constexpr Kind kThisKind = kEvent;
    Event(Context* c, unsigned f) : Object(kEvent), context(c), flags(f) {}
    Context* context;
    unsigned flags;              // 2: no timing
    OpRef op;                    // the last record, null before the first
    Capture* capture = nullptr;  // the last record was captured
    Clock clock;
};

struct Pool : Object {
    static constexpr Kind kThisKind = kPool;
    explicit Pool(int dev) : Object(kPool), device(dev) {}
    int device;
    uint64_t max_size = 0, threshold = 0, reserved = 0, reserved_high = 0, used = 0, used_high = 0;
    int reuse[4] = {0, 1, 1, 1};
};

enum class Life { kAllocQueued, kUsable, kFreeQueued, kFreed };
struct Memory : Object {
    explicit Memory(Kind k) : Object(k) {}
    char* base = nullptr;
    size_t size = 0;
    int device = -1;
    Pool* pool = nullptr;
    Life life = Life::kUsable;
    struct GraphObject* graph = nullptr;  // allocated by this graph
};

using KernelFn = void (*)(void** params, const unsigned* grid, const unsigned* block);
struct Param {
    size_t offset, size;
};
struct Registered {
    KernelFn fn;
    std::vector<Param> params;
};

struct Library : Object {
    static constexpr Kind kThisKind = kLibrary;
    Library() : Object(kLibrary) {}
    bool is_image = true;
    std::string image;
    std::map<std::string, struct Kernel*> kernels;
};
struct Kernel : Object {
    static constexpr Kind kThisKind = kKernel;
    Kernel() : Object(kKernel) {}
    Library* library = nullptr;
    std::string name;
    bool params_known = false;
    std::vector<Param> params;
    std::map<std::pair<int, int>, int> attributes;  // (device, attribute)
    std::map<Context*, struct Function*> functions;
};
struct Function : Object {
    static constexpr Kind kThisKind = kFunction;
    Function() : Object(kFunction) {}
    Kernel* kernel = nullptr;
    Context* context = nullptr;
};

// A captured launch as its node tells it.
struct Launched {
    void* function;
    unsigned grid[3], block[3], shared;
    std::string values;
    std::vector<void*> params;
};
// Types as CUgraphNodeType: 0 kernel, 1 memcpy, 2 memset, 4 child graph, 10 allocation, 11 free, 13 conditional ...
struct Node {
    int type;
    std::function<void()> run;  // null where a body or a child is run instead
    struct GraphObject* graph = nullptr;
    std::vector<Node*> after;
    std::vector<struct GraphObject*> bodies;  // of a conditional: then, else; of a child graph: its copy
    struct Condition* condition = nullptr;
    bool loop = false;
    std::shared_ptr<Launched> launched;
};
struct GraphObject : Object {
    static constexpr Kind kThisKind = kGraph;
    GraphObject() : Object(kGraph) {}
    std::vector<Node*> nodes;  // never deallocated, in an order that respects `after`
    bool body = false;         // belongs to a node: nobody destroys it
    long executables = 0;
};
struct Condition {
    unsigned value, start;
    bool assign;
};
struct Program;  // what a launch runs, see graphs.cpp
struct GraphExec : Object {
    static constexpr Kind kThisKind = kGraphExec;
    GraphExec() : Object(kGraphExec) {}
    std::shared_ptr<Program> program;  // launches that are queued keep the one that they were made with
    GraphObject* graph = nullptr;
};
struct Capture {
    uint64_t id;
    int mode;  // 0 global, 1 thread local, 2 relaxed
    GraphObject* graph;
    Stream* origin;
    uint64_t thread;
    bool active = true, invalid = false;
    std::vector<Stream*> streams;
    std::vector<Node*> tail;  // what the next captured work comes after
    bool into = false;        // a graph that was there before
};

using Hook = void (*)(int gil_held);  // see fake_on_call
struct FailRule {
    std::string name;
    long countdown;
    int code;
};

struct State {
    std::recursive_mutex lock;
    int pid = 0;  // process of cuInit; 0 before
    bool deinitialised = false;
    int sticky = 0;
    int device_count = 2;
    bool accept_all = false, defer_new = false;
    std::unordered_map<void*, Object*> objects;  // live and dead
    std::vector<Stream*> streams;                // live, or dead with work still queued
    std::vector<Pool*> pools;
    long live[kKinds] = {};
    uint64_t live_bytes = 0, quarantined = 0, next_id = 1, null_stream_uses = 0, calls = 0;
    std::deque<std::string> log;
    std::vector<std::string> faults;
    std::vector<FailRule> rules;
    long rules_fired = 0;
    std::string hook_name;
    std::atomic<Hook> hook{nullptr};
    std::map<int, Context*> primary;
    std::map<int, Pool*> default_pool;
    std::map<int, uint64_t> used_by_device;
    std::map<uintptr_t, Memory*> memory;  // by base address, freed but quarantined ones included
    std::deque<Memory*> quarantine;
    std::map<std::string, Registered> registry;
    std::map<std::pair<int, int>, int> attributes;  // (device, attribute) set by a test
    std::vector<Capture*> captures;
};
State& state();                          // never destroyed: calls may come after static destructors
std::vector<Context*>& context_stack();  // of this thread
int& capture_mode();                     // of this thread, as cuThreadExchangeStreamCaptureMode
uint64_t this_thread();

bool used_by_graphs(const Library* library);  // that are not destroyed yet
void fault(const std::string& text);
std::string hex(const void* pointer);

struct Arg {
    std::string key, value;
    template <class T>
    Arg(const char* k, T* v) : key(k), value(hex(reinterpret_cast<const void*>(v))) {}
    Arg(const char* k, const char* v) : key(k), value(v ? v : "null") {}
    Arg(const char* k, unsigned long long v) : key(k), value(std::to_string(v)) {}
    Arg(const char* k, unsigned long v) : Arg(k, static_cast<unsigned long long>(v)) {}
    Arg(const char* k, unsigned v) : Arg(k, static_cast<unsigned long long>(v)) {}
    Arg(const char* k, int v) : key(k), value(std::to_string(v)) {}
};

// What a call needs before it may do anything.
enum Need { kNothing, kInit, kCurrent };

// Opens every entry point: takes the lock, counts, logs, applies injected failures and the state checks.
// `if (call.code) return call.code;` and later `return call(result);`.
class Call {
public:
    Call(const char* name, Need need, std::initializer_list<Arg> args = {});
    ~Call();
    int operator()(int result) { return code = result; }
    int code = 0;

private:
    std::unique_lock<std::recursive_mutex> guard_;
    std::string line_;
    bool logged_ = false;
};

template <class T>
T* add(T* object) {
    state().objects[object] = object;
    state().live[object->kind]++;
    return object;
}
void drop(Object* object);
// The live object behind a handle, or null after noting a fault.
Object* find_object(void* handle, Kind kind);
template <class T>
T* find(void* handle) {
    return static_cast<T*>(find_object(handle, T::kThisKind));
}

// stream.cpp
Context* current();
Stream* find_stream(void* handle);  // resolves 0, 1 and 2 in the current context
Stream* legacy_stream(Context* context);
std::vector<Stream*> streams_of(Context* context);  // null: of all contexts
void complete(const OpRef& op);
void drain(Stream* stream);
void drain_context(Context* context);
// Queue work: executed at once unless the stream is deferred or captures.
int submit(Stream* stream, int node_type, std::function<void()> run, std::vector<OpRef> after = {});

// capture.cpp
int capture_submit(Stream* stream, int node_type, std::function<void()> run);
int capture_unsafe();  // nonzero: this thread may not make the call now; the capture is invalidated
int capture_wait(Stream* stream, Event* event);
void capture_record(Stream* stream, Event* event);
int capture_forbids_sync(Stream* stream);
bool context_captures(Context* context);

// graphs.cpp
Node* append_node(GraphObject* graph, int type, std::function<void()> run, std::vector<Node*> after);

// memory.cpp
Memory* memory_at(uintptr_t address);  // allocation that holds the address, freed ones included
void touch(uintptr_t address, size_t size, const char* what);
void check_quarantine();
void sweep_pools();
Memory* graph_memory(size_t size, int device);  // of an allocation node; counted as nobody's

// module.cpp and images.cpp
bool image_has_kernel(const std::string& image, const std::string& name);
bool image_params(const std::string& image, const std::string& name, std::vector<Param>* out);
std::vector<std::string> image_kernels(const std::string& image);
bool read_image(const void* code, std::string* out);
void register_test_kernels();
const char* code_name(int code);

}  // namespace fake

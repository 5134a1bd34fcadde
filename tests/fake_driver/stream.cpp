// Streams, events and the order of queued work.
#include <algorithm>

#include "fake.h"

namespace fake {

Context* current() {
    auto& stack = context_stack();
    return stack.empty() || !stack.back()->live ? nullptr : stack.back();
}

static Stream* new_stream(Context* context, unsigned flags, int priority) {
    auto* stream = new Stream(context, flags, priority);
    state().objects[stream] = stream;
    state().streams.push_back(stream);
    return stream;
}

// The default streams are not counted: nobody creates or destroys them.
Stream* legacy_stream(Context* context) {
    if (!context->legacy) context->legacy = new_stream(context, 0, 0);
    return context->legacy;
}

static Stream* per_thread_stream(Context* context) {
    thread_local std::map<Context*, Stream*> streams;
    Stream*& stream = streams[context];
    if (!stream) stream = new_stream(context, 0, 0);
    return stream;
}

Stream* find_stream(void* handle) {
    auto value = reinterpret_cast<uintptr_t>(handle);
    if (value == 0) state().null_stream_uses++;
    if (value <= 2) {
        Context* context = current();
        if (!context) return nullptr;
        return value == 2 ? per_thread_stream(context) : legacy_stream(context);
    }
    return find<Stream>(handle);
}

// Runs the first queued work of a stream.
static void execute(const OpRef& op) {
    op->stream->queue.pop_front();
    op->run();
    op->run = nullptr;
    op->after.clear();
    op->done = true;
    op->finished = std::chrono::steady_clock::now();
}

static bool ready(const OpRef& op) {
    return std::all_of(op->after.begin(), op->after.end(), [](const OpRef& before) { return before->done; });
}

// Runs what is ready on the streams that are not deferred: their work never waits for the host.
static void advance() {
    for (bool moved = true; moved;) {
        moved = false;
        for (Stream* stream : streams_of(nullptr)) {
            while (!stream->deferred && !stream->queue.empty()) {
                OpRef first = stream->queue.front();
                if (!ready(first)) break;
                execute(first);
                moved = true;
            }
        }
    }
}

// Runs a stream's work up to and including `op`, other streams' work first where `op` waits for it.
static void force(const OpRef& op) {
    Stream* stream = op->stream;
    while (!op->done) {
        OpRef first = stream->queue.front();
        for (const OpRef& before : first->after) force(before);
        if (!first->done) execute(first);
    }
}

void complete(const OpRef& op) {
    force(op);
    advance();
}

void drain(Stream* stream) {
    while (!stream->queue.empty()) complete(OpRef(stream->queue.front()));
}

std::vector<Stream*> streams_of(Context* context) {
    auto& all = state().streams;
    all.erase(std::remove_if(all.begin(), all.end(), [](Stream* s) { return !s->live && s->queue.empty(); }),
              all.end());
    std::vector<Stream*> found;
    for (Stream* stream : all)
        if (!context || stream->context == context) found.push_back(stream);
    return found;
}

void drain_context(Context* context) {
    for (Stream* stream : streams_of(context)) drain(stream);
}

// The legacy stream waits for all blocking streams of its context, and they wait for it.
static void add_legacy_order(Stream* stream, std::vector<OpRef>* after) {
    if (stream->flags & 1) return;
    Stream* legacy = legacy_stream(stream->context);
    if (stream != legacy) {
        if (legacy->last && !legacy->last->done) after->push_back(legacy->last);
        return;
    }
    for (Stream* other : streams_of(legacy->context))
        if (other != legacy && !(other->flags & 1) && other->last && !other->last->done) after->push_back(other->last);
}

int submit(Stream* stream, int node_type, std::function<void()> run, std::vector<OpRef> after) {
    if (stream->capture) return capture_submit(stream, node_type, std::move(run));
    if (!(stream->flags & 1) && stream == legacy_stream(stream->context))
        for (Capture* capture : state().captures)
            for (Stream* other : capture->streams)
                if (other->context == stream->context && !(other->flags & 1) && capture->mode != 2) {
                    capture->invalid = true;
                    return kCaptureImplicit;
                }
    auto op = std::make_shared<Op>();
    op->run = std::move(run);
    op->stream = stream;
    op->after = std::move(after);
    add_legacy_order(stream, &op->after);
    stream->queue.push_back(op);
    stream->last = op;
    if (!stream->deferred && stream->queue.size() == 1 && ready(op)) execute(op);
    return kSuccess;
}

static bool timed(Event* event) { return !(event->flags & 2); }

}  // namespace fake

using namespace fake;

static int create_stream(Call& call, void** out, unsigned flags, int priority) {
    if (flags > 1) return call(kInvalidValue);
    auto* stream = new_stream(current(), flags, priority < -5 ? -5 : priority > 0 ? 0 : priority);
    state().live[kStream]++;
    stream->deferred = state().defer_new;
    *out = stream;
    return call(kSuccess);
}
API int cuStreamCreate(void** out, unsigned flags) {
    Call call("cuStreamCreate", kCurrent, {{"flags", flags}});
    return call.code ? call.code : create_stream(call, out, flags, 0);
}
API int cuStreamCreateWithPriority(void** out, unsigned flags, int priority) {
    Call call("cuStreamCreateWithPriority", kCurrent, {{"flags", flags}, {"priority", priority}});
    return call.code ? call.code : create_stream(call, out, flags, priority);
}
API int cuStreamDestroy_v2(void* handle) {
    Call call("cuStreamDestroy", kCurrent, {{"stream", handle}});
    if (call.code) return call.code;
    Stream* stream = find<Stream>(handle);
    if (!stream) return call(kInvalidHandle);
    if (stream->capture) stream->capture->invalid = true;
    drop(stream);  // work that is still queued runs when something waits for it, as on a GPU
    return call.code;
}
ALIAS(int, cuStreamDestroy, cuStreamDestroy_v2);

#define STREAM_CALL(name)                             \
    Call call(#name, kCurrent, {{"stream", handle}}); \
    if (call.code) return call.code;                  \
    Stream* stream = find_stream(handle);             \
    if (!stream) return call(kInvalidHandle)

API int cuStreamQuery(void* handle) {
    STREAM_CALL(cuStreamQuery);
    if (int code = capture_forbids_sync(stream)) return call(code);
    return call(stream->queue.empty() ? kSuccess : kNotReady);
}
API int cuStreamSynchronize(void* handle) {
    STREAM_CALL(cuStreamSynchronize);
    if (int code = capture_forbids_sync(stream)) return call(code);
    if (stream == legacy_stream(stream->context)) {
        std::vector<OpRef> before;
        add_legacy_order(stream, &before);
        for (const OpRef& op : before) complete(op);
    }
    drain(stream);
    sweep_pools();
    return call.code;
}
API int cuStreamGetCtx(void* handle, void** out) {
    STREAM_CALL(cuStreamGetCtx);
    *out = stream->context;
    return call.code;
}
API int cuStreamGetDevice(void* handle, int* device) {
    STREAM_CALL(cuStreamGetDevice);
    *device = stream->context->device;
    return call.code;
}
API int cuStreamGetPriority(void* handle, int* priority) {
    STREAM_CALL(cuStreamGetPriority);
    *priority = stream->priority;
    return call.code;
}
API int cuStreamGetFlags(void* handle, unsigned* flags) {
    STREAM_CALL(cuStreamGetFlags);
    *flags = stream->flags;
    return call.code;
}
API int cuStreamGetId(void* handle, unsigned long long* id) {
    STREAM_CALL(cuStreamGetId);
    *id = reinterpret_cast<uintptr_t>(stream);
    return call.code;
}
API int cuLaunchHostFunc(void* handle, void (*fn)(void*), void* data) {
    STREAM_CALL(cuLaunchHostFunc);
    return call(submit(stream, 3, [fn, data] { fn(data); }));
}
API int cuStreamWaitEvent(void* handle, void* event_handle, unsigned flags) {
    Call call("cuStreamWaitEvent", kCurrent, {{"stream", handle}, {"event", event_handle}, {"flags", flags}});
    if (call.code) return call.code;
    Stream* stream = find_stream(handle);
    Event* event = find<Event>(event_handle);
    if (!stream || !event) return call(kInvalidHandle);
    if (stream->capture || event->capture) return call(capture_wait(stream, event));
    if (!event->op || event->op->done) return call.code;
    return call(submit(stream, -1, [] {}, {event->op}));
}

API int cuEventCreate(void** out, unsigned flags) {
    Call call("cuEventCreate", kCurrent, {{"flags", flags}});
    if (call.code) return call.code;
    if (flags > 7) return call(kInvalidValue);
    *out = add(new Event(current(), flags));
    return call.code;
}
API int cuEventDestroy_v2(void* handle) {
    Call call("cuEventDestroy", kCurrent, {{"event", handle}});
    if (call.code) return call.code;
    Event* event = find<Event>(handle);
    if (!event) return call(kInvalidHandle);
    drop(event);
    return call.code;
}
ALIAS(int, cuEventDestroy, cuEventDestroy_v2);

static int record(Call& call, void* event_handle, void* handle) {
    if (call.code) return call.code;
    Stream* stream = find_stream(handle);
    Event* event = find<Event>(event_handle);
    if (!stream || !event || stream->context != event->context) return call(kInvalidHandle);
    if (stream->capture) {
        if (stream->capture->invalid) return call(kCaptureInvalidated);
        capture_record(stream, event);
        return call.code;
    }
    int code = submit(stream, -1, [] {});
    if (code) return call(code);
    event->op = stream->last;
    event->capture = nullptr;
    return call.code;
}
API int cuEventRecord(void* event, void* stream) {
    Call call("cuEventRecord", kCurrent, {{"event", event}, {"stream", stream}});
    return record(call, event, stream);
}
API int cuEventRecordWithFlags(void* event, void* stream, unsigned flags) {
    Call call("cuEventRecordWithFlags", kCurrent, {{"event", event}, {"stream", stream}, {"flags", flags}});
    return record(call, event, stream);
}
// Asking for an event of a capture breaks the capture.
static int ask_captured(Event* event) {
    event->capture->invalid = true;
    return kCapturedEvent;
}
API int cuEventQuery(void* handle) {
    Call call("cuEventQuery", kCurrent, {{"event", handle}});
    if (call.code) return call.code;
    Event* event = find<Event>(handle);
    if (!event) return call(kInvalidHandle);
    if (event->capture) return call(ask_captured(event));
    if (int code = capture_unsafe()) return call(code);
    return call(event->op && !event->op->done ? kNotReady : kSuccess);
}
API int cuEventSynchronize(void* handle) {
    Call call("cuEventSynchronize", kCurrent, {{"event", handle}});
    if (call.code) return call.code;
    Event* event = find<Event>(handle);
    if (!event) return call(kInvalidHandle);
    if (event->capture) return call(ask_captured(event));
    if (int code = capture_unsafe()) return call(code);
    if (event->op) complete(event->op);
    sweep_pools();
    return call.code;
}
API int cuEventElapsedTime_v2(float* ms, void* start_handle, void* end_handle) {
    Call call("cuEventElapsedTime", kCurrent, {{"start", start_handle}, {"end", end_handle}});
    if (call.code) return call.code;
    Event* start = find<Event>(start_handle);
    Event* end = find<Event>(end_handle);
    for (Event* event : {start, end})
        if (event && event->capture) return call(ask_captured(event));
    if (!start || !end || !timed(start) || !timed(end) || !start->op || !end->op || start->context != end->context)
        return call(kInvalidHandle);
    if (!start->op->done || !end->op->done) return call(kNotReady);
    *ms = std::chrono::duration<float, std::milli>(end->op->finished - start->op->finished).count();
    return call.code;
}
ALIAS(int, cuEventElapsedTime, cuEventElapsedTime_v2);

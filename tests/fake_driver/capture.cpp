// Stream capture. The captured work becomes a chain of nodes in the order of capture, whatever the streams.
#include <algorithm>

#include "fake.h"

namespace fake {

constexpr int kGlobal = 0, kThreadLocal = 1, kRelaxed = 2;

static void join(Stream* stream, Capture* capture, const Clock& clock) {
    if (!stream->capture) {
        stream->capture = capture;
        stream->clock.clear();
        capture->streams.push_back(stream);
    }
    for (auto& entry : clock) stream->clock[entry.first] = std::max(stream->clock[entry.first], entry.second);
}

int capture_submit(Stream* stream, int node_type, std::function<void()> run) {
    Capture* capture = stream->capture;
    if (capture->invalid) return kCaptureInvalidated;
    stream->clock[stream]++;
    if (node_type >= 0) capture->tail = {append_node(capture->graph, node_type, std::move(run), capture->tail)};
    return kSuccess;
}

void capture_record(Stream* stream, Event* event) {
    event->op = nullptr;
    event->capture = stream->capture;
    event->clock = stream->clock;
}

int capture_wait(Stream* stream, Event* event) {
    if (stream->capture && stream->capture->invalid) return kCaptureInvalidated;
    if (!event->capture) {
        if (!event->op) return kSuccess;  // never recorded: nothing to wait for
        stream->capture->invalid = true;
        return kCaptureIsolation;
    }
    if (!event->capture->active) {
        if (stream->capture) stream->capture->invalid = true;
        return stream->capture ? kCaptureIsolation : kInvalidValue;  // as driver 580 says
    }
    if (stream->capture && stream->capture != event->capture) {
        stream->capture->invalid = event->capture->invalid = true;
        return kCaptureMerge;
    }
    join(stream, event->capture, event->clock);
    return kSuccess;
}

int capture_forbids_sync(Stream* stream) {
    if (stream->capture) {
        stream->capture->invalid = true;
        return kCaptureUnsupported;
    }
    return capture_unsafe();
}

int capture_unsafe() {
    int own = capture_mode();
    if (own == kRelaxed) return kSuccess;
    int code = kSuccess;
    for (Capture* capture : state().captures) {
        bool from_here = capture->thread == this_thread();
        bool hit =
            capture->mode == kGlobal ? (own == kGlobal || from_here) : capture->mode == kThreadLocal && from_here;
        if (!hit) continue;
        capture->invalid = true;
        code = kCaptureUnsupported;
    }
    return code;
}

bool context_captures(Context* context) {
    for (Capture* capture : state().captures)
        for (Stream* stream : capture->streams)
            if (stream->context == context) return true;
    return false;
}

static int capture_status(Stream* stream) { return !stream->capture ? 0 : stream->capture->invalid ? 2 : 1; }

}  // namespace fake

using namespace fake;

#define STREAM_CALL(name)                             \
    Call call(#name, kCurrent, {{"stream", handle}}); \
    if (call.code) return call.code;                  \
    Stream* stream = find_stream(handle);             \
    if (!stream) return call(kInvalidHandle)

static int begin_capture(Call& call, Stream* stream, int mode, GraphObject* graph, std::vector<Node*> tail) {
    if (mode < 0 || mode > 2) return call(kInvalidValue);
    if (stream == legacy_stream(stream->context)) return call(kCaptureUnsupported);
    if (stream->capture) return call(1);
    bool into = graph != nullptr;
    if (!into) {
        graph = new GraphObject;
        state().objects[graph] = graph;  // counted as live from the end of the capture on
        graph->live = false;
    }
    auto* capture =
        new Capture{state().next_id++, mode, graph, stream, this_thread(), true, false, {}, std::move(tail), into};
    state().captures.push_back(capture);
    join(stream, capture, {});
    return call(kSuccess);
}
API int cuStreamBeginCapture_v2(void* handle, int mode) {
    Call call("cuStreamBeginCapture", kCurrent, {{"stream", handle}, {"mode", mode}});
    if (call.code) return call.code;
    Stream* stream = find_stream(handle);
    if (!stream) return call(kInvalidHandle);
    return begin_capture(call, stream, mode, nullptr, {});
}
API int cuStreamBeginCaptureToGraph(void* handle, void* graph_handle, void* const* dependencies, const void*, size_t n,
                                    int mode) {
    STREAM_CALL(cuStreamBeginCaptureToGraph);
    GraphObject* graph = find<GraphObject>(graph_handle);
    if (!graph) return call(kInvalidValue);
    std::vector<Node*> tail;
    for (size_t i = 0; i < n; i++) tail.push_back(static_cast<Node*>(dependencies[i]));
    return begin_capture(call, stream, mode, graph, std::move(tail));
}
API int cuStreamEndCapture(void* handle, void** out) {
    STREAM_CALL(cuStreamEndCapture);
    *out = nullptr;
    Capture* capture = stream->capture;
    if (!capture) return call(kInvalidValue);
    if (capture->origin != stream) return call(kCaptureUnmatched);
    if (capture->mode != kRelaxed && capture->thread != this_thread()) return call(kCaptureWrongThread);
    bool unjoined = false;
    for (Stream* other : capture->streams) unjoined |= stream->clock[other] < other->clock[other];
    for (Stream* other : capture->streams) other->capture = nullptr;
    capture->active = false;
    auto& all = state().captures;
    all.erase(std::find(all.begin(), all.end(), capture));
    if (capture->invalid) return call(kCaptureInvalidated);
    if (unjoined) return call(kCaptureUnjoined);
    if (!capture->into) {
        capture->graph->live = true;
        state().live[kGraph]++;
    }
    *out = capture->graph;
    return call.code;
}
API int cuStreamIsCapturing(void* handle, int* status) {
    STREAM_CALL(cuStreamIsCapturing);
    if (stream == legacy_stream(stream->context) && context_captures(stream->context)) return call(kCaptureImplicit);
    *status = capture_status(stream);
    return call.code;
}
static int capture_info(Call& call, Stream* stream, int* status, unsigned long long* id, void** graph,
                        const void*** dependencies, size_t* n) {
    if (stream == legacy_stream(stream->context) && context_captures(stream->context)) return call(kCaptureImplicit);
    *status = capture_status(stream);
    if (n) *n = 0;
    if (!stream->capture) return call(kSuccess);
    if (id) *id = stream->capture->id;
    if (graph) *graph = stream->capture->graph;
    if (dependencies) *dependencies = (const void**)stream->capture->tail.data();
    if (n) *n = stream->capture->tail.size();
    return call(kSuccess);
}
API int cuStreamGetCaptureInfo_v2(void* handle, int* status, unsigned long long* id, void** graph,
                                  const void*** dependencies, size_t* n) {
    STREAM_CALL(cuStreamGetCaptureInfo);
    return capture_info(call, stream, status, id, graph, dependencies, n);
}
API int cuStreamGetCaptureInfo_v3(void* handle, int* status, unsigned long long* id, void** graph,
                                  const void*** dependencies, const void**, size_t* n) {
    STREAM_CALL(cuStreamGetCaptureInfo);
    return capture_info(call, stream, status, id, graph, dependencies, n);
}
API int cuThreadExchangeStreamCaptureMode(int* mode) {
    Call call("cuThreadExchangeStreamCaptureMode", kInit, {{"mode", *mode}});
    if (call.code) return call.code;
    std::swap(capture_mode(), *mode);
    return call.code;
}

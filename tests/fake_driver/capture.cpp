// Stream capture and graphs, as far as bookkeeping goes: a graph is the list of captured work in the order of capture.
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
  if (node_type >= 0) capture->graph->nodes.push_back({node_type, std::move(run)});
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
    if (!event->op) return kSuccess;   // never recorded: nothing to wait for
    stream->capture->invalid = true;
    return kCaptureIsolation;
  }
  if (!event->capture->active) {
    if (stream->capture) stream->capture->invalid = true;
    return stream->capture ? kCaptureIsolation : kCapturedEvent;
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
    bool hit = capture->mode == kGlobal ? (own == kGlobal || from_here) : capture->mode == kThreadLocal && from_here;
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

#define STREAM_CALL(name)                                   \
  Call call(#name, kCurrent, {{"stream", handle}});         \
  if (call.code) return call.code;                          \
  Stream* stream = find_stream(handle);                     \
  if (!stream) return call(kInvalidHandle)

API int cuStreamBeginCapture_v2(void* handle, int mode) {
  STREAM_CALL(cuStreamBeginCapture);
  if (mode < 0 || mode > 2) return call(kInvalidValue);
  if (stream == legacy_stream(stream->context)) return call(kCaptureUnsupported);
  if (stream->capture) return call(1);
  auto* capture = new Capture{state().next_id++, mode, new GraphObject, stream, this_thread(), true, false, {}};
  state().objects[capture->graph] = capture->graph;   // counted as live from the end of the capture on
  capture->graph->live = false;
  state().captures.push_back(capture);
  join(stream, capture, {});
  return call.code;
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
  capture->graph->live = true;
  state().live[kGraph]++;
  *out = capture->graph;
  return call.code;
}
API int cuStreamIsCapturing(void* handle, int* status) {
  STREAM_CALL(cuStreamIsCapturing);
  if (stream == legacy_stream(stream->context) && context_captures(stream->context)) return call(kCaptureImplicit);
  *status = capture_status(stream);
  return call.code;
}
static int capture_info(Call& call, Stream* stream, int* status, unsigned long long* id, void** graph) {
  if (stream == legacy_stream(stream->context) && context_captures(stream->context)) return call(kCaptureImplicit);
  *status = capture_status(stream);
  if (stream->capture && id) *id = stream->capture->id;
  if (stream->capture && graph) *graph = stream->capture->graph;
  return call(kSuccess);
}
API int cuStreamGetCaptureInfo_v2(void* handle, int* status, unsigned long long* id, void** graph, const void***, size_t* n) {
  STREAM_CALL(cuStreamGetCaptureInfo);
  if (n) *n = 0;
  return capture_info(call, stream, status, id, graph);
}
API int cuStreamGetCaptureInfo_v3(void* handle, int* status, unsigned long long* id, void** graph, const void***,
                                  const void**, size_t* n) {
  STREAM_CALL(cuStreamGetCaptureInfo);
  if (n) *n = 0;
  return capture_info(call, stream, status, id, graph);
}
API int cuThreadExchangeStreamCaptureMode(int* mode) {
  Call call("cuThreadExchangeStreamCaptureMode", kInit, {{"mode", *mode}});
  if (call.code) return call.code;
  std::swap(capture_mode(), *mode);
  return call.code;
}

API int cuGraphDestroy(void* handle) {
  Call call("cuGraphDestroy", kInit, {{"graph", handle}});
  if (call.code) return call.code;
  GraphObject* graph = find<GraphObject>(handle);
  if (!graph) return call(kInvalidValue);
  drop(graph);
  return call.code;
}
API int cuGraphGetNodes(void* handle, void** nodes, size_t* n) {
  Call call("cuGraphGetNodes", kInit, {{"graph", handle}});
  if (call.code) return call.code;
  GraphObject* graph = find<GraphObject>(handle);
  if (!graph) return call(kInvalidValue);
  if (nodes)
    for (size_t i = 0; i < *n; i++) nodes[i] = i < graph->nodes.size() ? &graph->nodes[i] : nullptr;
  if (!nodes || *n > graph->nodes.size()) *n = graph->nodes.size();
  return call.code;
}
API int cuGraphNodeGetType(void* node, int* type) {
  Call call("cuGraphNodeGetType", kInit, {{"node", node}});
  if (!call.code) *type = static_cast<Node*>(node)->type;
  return call.code;
}
API int cuGraphInstantiateWithFlags(void** out, void* handle, unsigned long long flags) {
  Call call("cuGraphInstantiate", kCurrent, {{"graph", handle}, {"flags", flags}});
  if (call.code) return call.code;
  GraphObject* graph = find<GraphObject>(handle);
  if (!graph) return call(kInvalidValue);
  auto* exec = add(new GraphExec);
  exec->nodes = graph->nodes;
  *out = exec;
  return call.code;
}
API int cuGraphExecDestroy(void* handle) {
  Call call("cuGraphExecDestroy", kInit, {{"exec", handle}});
  if (call.code) return call.code;
  GraphExec* exec = find<GraphExec>(handle);
  if (!exec) return call(kInvalidValue);
  drop(exec);
  return call.code;
}
API int cuGraphUpload(void* exec, void* handle) {
  STREAM_CALL(cuGraphUpload);
  return call(find<GraphExec>(exec) ? kSuccess : kInvalidValue);
}
API int cuGraphLaunch(void* exec_handle, void* handle) {
  Call call("cuGraphLaunch", kCurrent, {{"exec", exec_handle}, {"stream", handle}});
  if (call.code) return call.code;
  Stream* stream = find_stream(handle);
  GraphExec* exec = find<GraphExec>(exec_handle);
  if (!stream || !exec) return call(kInvalidHandle);
  return call(submit(stream, 4, [exec] {
    for (const Node& node : exec->nodes) node.run();
  }));
}

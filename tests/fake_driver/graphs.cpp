// Graphs: nodes, executable graphs, their launch.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "fake.h"

namespace fake {

constexpr int kKernelNode = 0, kChildNode = 4, kAllocNode = 10, kFreeNode = 11, kConditionalNode = 13;

Node* append_node(GraphObject* graph, int type, std::function<void()> run, std::vector<Node*> after) {
    auto* node = new Node{type, std::move(run), graph, std::move(after), {}, nullptr, false};
    graph->nodes.push_back(node);
    return node;
}

// A graph as it was when it was instantiated; nodes know by position what they come after.
struct Step {
    int type;
    std::function<void()> run;
    Node* origin;
    std::vector<size_t> after;
    std::vector<std::shared_ptr<Program>> bodies;
    Condition* condition;
    bool loop;
    std::shared_ptr<Launched> launched;
};
struct Program {
    std::vector<Step> steps;
};

static bool launches(const std::shared_ptr<Launched>& launched, const Library* library) {
    return launched && static_cast<Function*>(launched->function)->kernel->library == library;
}
static bool uses(const Program& program, const Library* library) {
    for (const Step& step : program.steps) {
        if (launches(step.launched, library)) return true;
        for (const auto& body : step.bodies)
            if (uses(*body, library)) return true;
    }
    return false;
}
static bool uses(const GraphObject& graph, const Library* library) {
    for (const Node* node : graph.nodes) {
        if (launches(node->launched, library)) return true;
        for (const GraphObject* body : node->bodies)
            if (uses(*body, library)) return true;
    }
    return false;
}
bool used_by_graphs(const Library* library) {
    for (auto& entry : state().objects) {
        const Object* object = entry.second;
        if (!object->live) continue;
        if (object->kind == kGraphExec && uses(*static_cast<const GraphExec*>(object)->program, library)) return true;
        if (object->kind != kGraph) continue;
        const auto* graph = static_cast<const GraphObject*>(object);
        if (!graph->body && uses(*graph, library)) return true;  // bodies end with the graph that has them
    }
    return false;
}

static std::shared_ptr<Program> compile(GraphObject* graph) {
    auto program = std::make_shared<Program>();
    std::map<Node*, size_t> position;
    for (Node* node : graph->nodes) {
        Step step{node->type, node->run, node, {}, {}, node->condition, node->loop, node->launched};
        for (Node* before : node->after) step.after.push_back(position[before]);
        for (GraphObject* body : node->bodies) step.bodies.push_back(compile(body));
        position[node] = program->steps.size();
        program->steps.push_back(std::move(step));
    }
    return program;
}

static void start_conditions(Program& program) {
    for (Step& step : program.steps) {
        if (step.condition && step.condition->assign) step.condition->value = step.condition->start;
        for (auto& body : step.bodies) start_conditions(*body);
    }
}

static void run(Program& program);
static void run(Step& step) {
    if (step.run) step.run();
    if (step.type == kChildNode)
        for (auto& child : step.bodies) run(*child);
    if (step.type != kConditionalNode) return;
    if (step.loop) {
        for (int turn = 0; step.condition->value; turn++) {
            if (turn == 10000) return fault("a conditional node loops for ever");
            run(*step.bodies[0]);
        }
    } else if (size_t which = step.condition->value ? 0 : 1; which < step.bodies.size()) {
        run(*step.bodies[which]);
    }
}
// Of the steps that may run, the newest runs first: a dependency that is missing gives wrong data always.
static void run(Program& program) {
    std::vector<bool> done(program.steps.size());
    for (size_t left = done.size(); left > 0; left--)
        for (size_t i = done.size(); i-- > 0;) {
            auto& after = program.steps[i].after;
            if (done[i] || !std::all_of(after.begin(), after.end(), [&](size_t k) { return done[k]; })) continue;
            run(program.steps[i]);
            done[i] = true;
            break;
        }
}

static GraphObject* copy_graph(GraphObject* graph, bool body) {
    GraphObject* copy = body ? new GraphObject : add(new GraphObject);
    copy->body = body;
    if (body) state().objects[copy] = copy;
    std::map<Node*, Node*> twins;
    for (Node* node : graph->nodes) {
        std::vector<Node*> after;
        for (Node* before : node->after) after.push_back(twins[before]);
        Node* twin = twins[node] = append_node(copy, node->type, node->run, after);
        for (GraphObject* inner : node->bodies) twin->bodies.push_back(copy_graph(inner, true));
    }
    return copy;
}

// Allocations and conditionals tie a graph to its one executable: no copies, no life as a child.
static bool tied(GraphObject* graph) {
    return std::any_of(graph->nodes.begin(), graph->nodes.end(), [](Node* node) {
        return node->type == kAllocNode || node->type == kFreeNode || node->type == kConditionalNode;
    });
}

static int add_node(Call& call, void** out, void* handle, void* const* dependencies, size_t n, int type,
                    std::function<void()> run, Node** made = nullptr) {
    if (call.code) return call.code;
    GraphObject* graph = find<GraphObject>(handle);
    if (!graph) return call(kInvalidValue);
    std::vector<Node*> after;
    for (size_t i = 0; i < n; i++) {
        auto* before = static_cast<Node*>(dependencies[i]);
        if (std::find(graph->nodes.begin(), graph->nodes.end(), before) == graph->nodes.end())
            return call(kInvalidValue);
        after.push_back(before);
    }
    Node* node = append_node(graph, type, std::move(run), std::move(after));
    if (made) *made = node;
    *out = node;
    return call.code;
}

static bool same_shape(const Program& a, const Program& b, int* result, Node** node) {
    *result = 2;  // the topology changed
    *node = nullptr;
    if (a.steps.size() != b.steps.size()) return false;
    for (size_t i = 0; i < a.steps.size(); i++) {
        *node = b.steps[i].origin;
        if (a.steps[i].after != b.steps[i].after) return false;
        if (a.steps[i].type != b.steps[i].type) return *result = 3, false;
        if (a.steps[i].bodies.size() != b.steps[i].bodies.size()) return *result = 6, false;
        for (size_t k = 0; k < a.steps[i].bodies.size(); k++)
            if (!same_shape(*a.steps[i].bodies[k], *b.steps[i].bodies[k], result, node)) return false;
    }
    return true;
}

}  // namespace fake

using namespace fake;

#define GRAPH_CALL(name)                            \
    Call call(#name, kInit, {{"graph", handle}});   \
    if (call.code) return call.code;                \
    GraphObject* graph = find<GraphObject>(handle); \
    if (!graph) return call(kInvalidValue)

API int cuGraphCreate(void** out, unsigned flags) {
    Call call("cuGraphCreate", kInit, {{"flags", flags}});
    if (call.code) return call.code;
    if (flags) return call(kInvalidValue);
    *out = add(new GraphObject);
    return call.code;
}
API int cuGraphDestroy(void* handle) {
    GRAPH_CALL(cuGraphDestroy);
    if (graph->body) {
        fault("destruction of a graph that belongs to a node: " + hex(handle));
        return call(kInvalidValue);
    }
    for (Capture* capture : state().captures)
        if (capture->graph == graph) fault("destruction of a graph that is being captured into: " + hex(handle));
    drop(graph);
    return call.code;
}
API int cuGraphClone(void** out, void* handle) {
    GRAPH_CALL(cuGraphClone);
    if (tied(graph)) return call(kNotSupported);
    *out = copy_graph(graph, false);
    return call.code;
}
API int cuGraphGetNodes(void* handle, void** nodes, size_t* n) {
    GRAPH_CALL(cuGraphGetNodes);
    if (nodes)
        for (size_t i = 0; i < *n; i++) nodes[i] = i < graph->nodes.size() ? graph->nodes[i] : nullptr;
    if (!nodes || *n > graph->nodes.size()) *n = graph->nodes.size();
    return call.code;
}
API int cuGraphNodeGetType(void* node, int* type) {
    Call call("cuGraphNodeGetType", kInit, {{"node", node}});
    if (!call.code) *type = static_cast<Node*>(node)->type;
    return call.code;
}
API int cuGraphDestroyNode(void* handle) {
    Call call("cuGraphDestroyNode", kInit, {{"node", handle}});
    if (call.code) return call.code;
    auto* node = static_cast<Node*>(handle);
    auto& nodes = node->graph->nodes;
    nodes.erase(std::find(nodes.begin(), nodes.end(), node));
    for (Node* other : nodes)
        other->after.erase(std::remove(other->after.begin(), other->after.end(), node), other->after.end());
    return call.code;
}
API int cuGraphDebugDotPrint(void* handle, const char* path, unsigned) {
    GRAPH_CALL(cuGraphDebugDotPrint);
    FILE* file = std::fopen(path, "w");
    if (!file) return call(kInvalidValue);
    std::fprintf(file, "digraph graph_fake {\n");
    for (Node* node : graph->nodes) {
        std::fprintf(file, "n%p [label=\"type %d\"];\n", static_cast<void*>(node), node->type);
        for (Node* before : node->after)
            std::fprintf(file, "n%p -> n%p;\n", static_cast<void*>(before), static_cast<void*>(node));
    }
    std::fprintf(file, "}\n");
    std::fclose(file);
    return call.code;
}

// ---- nodes ----

// `extra` leads back to the node: that it is not used with parameters is the driver's affair.
struct KernelParams {
    void* function;
    unsigned grid[3], block[3], shared;
    void** params;
    void** extra;
    void* kernel;
    void* context;
};
API int cuGraphKernelNodeGetParams_v2(void* handle, KernelParams* params) {
    Call call("cuGraphKernelNodeGetParams", kInit, {{"node", handle}});
    if (call.code) return call.code;
    if (static_cast<Node*>(handle)->type != kKernelNode) return call(kInvalidValue);
    *params = {};
    if (Launched* launched = static_cast<Node*>(handle)->launched.get()) {
        params->function = launched->function;
        std::memcpy(params->grid, launched->grid, sizeof launched->grid + sizeof launched->block);
        params->shared = launched->shared;
        params->params = launched->params.data();
    }
    params->extra = static_cast<void**>(handle);
    return call.code;
}
API int cuGraphAddChildGraphNode(void** out, void* handle, void* const* dependencies, size_t n, void* child_handle) {
    Call call("cuGraphAddChildGraphNode", kInit, {{"graph", handle}, {"n", n}, {"child", child_handle}});
    if (call.code) return call.code;
    GraphObject* child = find<GraphObject>(child_handle);
    if (!child || tied(child)) return call(child ? kNotSupported : kInvalidValue);
    Node* node;
    int code = add_node(call, out, handle, dependencies, n, kChildNode, nullptr, &node);
    if (!code) node->bodies.push_back(copy_graph(child, true));
    return code;
}

// CUmemPoolProps, then access descriptors, their number, the size, and the address that goes back.
struct AllocParams {
    int alloc_type, handle_types, location_type, device;
    char rest[72];
    void* access;
    size_t n_access, size;
    uint64_t address;
};
API int cuGraphAddMemAllocNode(void** out, void* handle, void* const* dependencies, size_t n, AllocParams* params) {
    Call call("cuGraphAddMemAllocNode", kInit, {{"graph", handle}, {"n", n}, {"size", params->size}});
    if (call.code) return call.code;
    if (params->alloc_type != 1 || params->location_type != 1 || !params->size) return call(kInvalidValue);
    Memory* memory = graph_memory(params->size, params->device);
    if (!memory) return call(kOutOfMemory);
    params->address = reinterpret_cast<uint64_t>(memory->base);
    return add_node(call, out, handle, dependencies, n, kAllocNode, [memory] {
        if (memory->life == Life::kUsable) fault("a graph was launched again with its memory still allocated");
        memory->life = Life::kUsable;
    });
}
API int cuGraphAddMemFreeNode(void** out, void* handle, void* const* dependencies, size_t n, uint64_t address) {
    Call call("cuGraphAddMemFreeNode", kInit, {{"graph", handle}, {"n", n}, {"ptr", reinterpret_cast<void*>(address)}});
    if (call.code) return call.code;
    Memory* memory = memory_at(address);
    if (!memory) return call(kInvalidValue);
    return add_node(call, out, handle, dependencies, n, kFreeNode, [memory] {
        std::memset(memory->base, 0xFF, memory->size);
        memory->life = Life::kAllocQueued;  // the address stays, for the next launch
    });
}

API int cuGraphConditionalHandleCreate(uint64_t* out, void* handle, void* context, unsigned start, unsigned flags) {
    GRAPH_CALL(cuGraphConditionalHandleCreate);
    if (!find<Context>(context) || flags > 1) return call(kInvalidValue);
    *out = reinterpret_cast<uint64_t>(new Condition{start, start, flags == 1});
    return call.code;
}
struct ConditionalParams {
    Condition* condition;
    int type;
    unsigned size;
    void** graphs;
    void* context;
};
struct NodeParams {
    int type, reserved[3];
    ConditionalParams conditional;
};
API int cuGraphAddNode_v2(void** out, void* handle, void* const* dependencies, const void* edges, size_t n,
                          NodeParams* params) {
    Call call("cuGraphAddNode", kInit, {{"graph", handle}, {"n", n}, {"type", params->type}});
    if (call.code) return call.code;
    ConditionalParams& p = params->conditional;
    if (edges || params->type != kConditionalNode || p.type < 0 || p.type > 1 || !p.size ||
        p.size > (p.type ? 1u : 2u) || !find<Context>(p.context))
        return call(kInvalidValue);
    Node* node;
    if (int code = add_node(call, out, handle, dependencies, n, kConditionalNode, nullptr, &node)) return code;
    node->condition = p.condition;
    node->loop = p.type == 1;
    for (unsigned i = 0; i < p.size; i++) {
        auto* body = new GraphObject;
        state().objects[body] = body;
        body->body = true;
        node->bodies.push_back(body);
    }
    p.graphs = reinterpret_cast<void**>(node->bodies.data());
    return call.code;
}
// What a kernel does with cudaGraphSetConditional().
API void fake_set_condition(uint64_t condition, unsigned value) {
    reinterpret_cast<Condition*>(condition)->value = value;
}

// ---- executable graphs ----

static int instantiate(Call& call, void** out, void* handle) {
    if (call.code) return call.code;
    GraphObject* graph = find<GraphObject>(handle);
    if (!graph) return call(kInvalidValue);
    if (tied(graph) && graph->executables) return call(kNotSupported);
    auto* exec = add(new GraphExec);
    exec->program = compile(graph);
    exec->graph = graph;
    graph->executables++;
    *out = exec;
    return call.code;
}
API int cuGraphInstantiateWithFlags(void** out, void* handle, unsigned long long flags) {
    Call call("cuGraphInstantiate", kCurrent, {{"graph", handle}, {"flags", flags}});
    return instantiate(call, out, handle);
}
struct InstantiateParams {
    unsigned long long flags;
    void* stream;
    void* node;
    int result;
};
API int cuGraphInstantiateWithParams(void** out, void* handle, InstantiateParams* params) {
    Call call("cuGraphInstantiateWithParams", kCurrent, {{"graph", handle}, {"flags", params->flags}});
    params->node = nullptr;
    params->result = call.code ? 1 : 0;
    return instantiate(call, out, handle);
}
API int cuGraphExecDestroy(void* handle) {
    Call call("cuGraphExecDestroy", kInit, {{"exec", handle}});
    if (call.code) return call.code;
    GraphExec* exec = find<GraphExec>(handle);
    if (!exec) return call(kInvalidValue);
    exec->graph->executables--;
    exec->program = nullptr;
    drop(exec);
    return call.code;
}
struct UpdateInfo {
    int result;
    void* node;
    void* from;
};
API int cuGraphExecUpdate_v2(void* handle, void* graph_handle, UpdateInfo* info) {
    Call call("cuGraphExecUpdate", kCurrent, {{"exec", handle}, {"graph", graph_handle}});
    *info = {1, nullptr, nullptr};
    if (call.code) return call.code;
    GraphExec* exec = find<GraphExec>(handle);
    GraphObject* graph = find<GraphObject>(graph_handle);
    if (!exec || !graph) return call(kInvalidValue);
    auto program = compile(graph);
    Node* node;
    if (!same_shape(*exec->program, *program, &info->result, &node)) {
        info->node = node;
        return call(kUpdateFailure);
    }
    info->result = 0;
    for (size_t i = 0; i < program->steps.size(); i++) program->steps[i].origin = exec->program->steps[i].origin;
    exec->program = program;
    return call.code;
}
API int cuGraphExecKernelNodeSetParams_v2(void* handle, void* node, const KernelParams* params) {
    Call call("cuGraphExecKernelNodeSetParams", kCurrent, {{"exec", handle}, {"node", node}});
    if (call.code) return call.code;
    GraphExec* exec = find<GraphExec>(handle);
    if (!exec) return call(kInvalidValue);
    if (!static_cast<Node*>(node)->graph->live) {
        fault("node of a graph used after its end: " + hex(node));
        return call(kInvalidValue);
    }
    auto program = std::make_shared<Program>(*exec->program);
    for (Step& step : program->steps) {
        if (step.origin != node || step.type != kKernelNode) continue;
        step.run = reinterpret_cast<Node*>(params->extra)->run;
        step.launched = reinterpret_cast<Node*>(params->extra)->launched;
        exec->program = program;
        return call.code;
    }
    return call(kInvalidValue);
}
API int cuGraphUpload(void* exec, void* handle) {
    Call call("cuGraphUpload", kCurrent, {{"exec", exec}, {"stream", handle}});
    if (call.code) return call.code;
    return call(find_stream(handle) && find<GraphExec>(exec) ? kSuccess : kInvalidHandle);
}
API int cuGraphLaunch(void* exec_handle, void* handle) {
    Call call("cuGraphLaunch", kCurrent, {{"exec", exec_handle}, {"stream", handle}});
    if (call.code) return call.code;
    Stream* stream = find_stream(handle);
    GraphExec* exec = find<GraphExec>(exec_handle);
    if (!stream || !exec) return call(kInvalidHandle);
    if (stream->capture) {
        stream->capture->invalid = true;
        return call(kCaptureUnsupported);
    }
    return call(submit(stream, kChildNode, [program = exec->program] {
        start_conditions(*program);
        run(*program);
    }));
}

"""The driver's entry points about captures and graphs, each wrapped once."""
from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport (
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS, CUcontext, CUdeviceptr,
    CUgraph, CUgraphConditionalHandle, CUgraphExec, CUgraphExecUpdateResultInfo, CUgraphNode, CUgraphNodeParams,
    CUgraphNodeType, CUresult, CUstream, CUstreamCaptureMode,
)

from madspace.core cimport _driver as drv
from madspace.core._teardown cimport is_closed, refuse

ctypedef CUresult (*end_fn)(CUstream, CUgraph*) noexcept nogil
ctypedef CUresult (*graph_fn)(CUgraph) noexcept nogil
ctypedef CUresult (*executable_fn)(CUgraphExec) noexcept nogil
ctypedef CUresult (*launch_fn)(CUgraphExec, CUstream) noexcept nogil

cdef end_fn raw_stream_end_capture
cdef graph_fn raw_graph_destroy
cdef executable_fn raw_graph_exec_destroy
cdef launch_fn raw_graph_launch
cdef bint prepared = False


cdef int prepare() except -1:
    # Twice at the same time does no harm: the answers are the same.
    global prepared
    if prepared:
        return 0
    drv.resolve("cuStreamEndCapture", <void**>&raw_stream_end_capture)
    drv.resolve("cuGraphDestroy", <void**>&raw_graph_destroy)
    drv.resolve("cuGraphExecDestroy", <void**>&raw_graph_exec_destroy)
    drv.resolve("cuGraphLaunch", <void**>&raw_graph_launch)
    prepared = True
    return 0


cdef inline int ready(const char* call) except -1 nogil:
    if is_closed():
        refuse(call)
    return 0


cdef inline int check(CUresult code, const char* call) except -1 nogil:
    if code != cydriver.CUDA_SUCCESS:
        drv.raise_code(code, call)
    return 0


# ---- captures ----

cdef int stream_begin_capture(CUstream stream, CUstreamCaptureMode mode) except -1 nogil:
    ready("cuStreamBeginCapture")
    return check(cydriver.cuStreamBeginCapture(stream, mode), "cuStreamBeginCapture")


cdef int stream_begin_capture_to_graph(CUstream stream, CUgraph graph, const CUgraphNode* after, size_t n_after,
                                       CUstreamCaptureMode mode) except -1 nogil:
    ready("cuStreamBeginCaptureToGraph")
    return check(
        cydriver.cuStreamBeginCaptureToGraph(stream, graph, after, NULL, n_after, mode), "cuStreamBeginCaptureToGraph")


cdef int stream_capture_tail(CUstream stream, CUgraphNode* node) except -1 nogil:
    cdef cydriver.CUstreamCaptureStatus status = cydriver.CU_STREAM_CAPTURE_STATUS_NONE
    cdef const CUgraphNode* nodes = NULL
    cdef size_t n = 0
    ready("cuStreamGetCaptureInfo")
    check(cydriver.cuStreamGetCaptureInfo(stream, &status, NULL, NULL, &nodes, NULL, &n), "cuStreamGetCaptureInfo")
    if status != cydriver.CU_STREAM_CAPTURE_STATUS_ACTIVE or n != 1:
        return 0
    node[0] = nodes[0]
    return 1


# ---- graphs ----

cdef int graph_create(CUgraph* graph) except -1 nogil:
    ready("cuGraphCreate")
    return check(cydriver.cuGraphCreate(graph, 0), "cuGraphCreate")


cdef int graph_clone(CUgraph* clone, CUgraph graph) except -1 nogil:
    ready("cuGraphClone")
    return check(cydriver.cuGraphClone(clone, graph), "cuGraphClone")


cdef int graph_get_nodes(CUgraph graph, CUgraphNode* nodes, size_t* n) except -1 nogil:
    ready("cuGraphGetNodes")
    return check(cydriver.cuGraphGetNodes(graph, nodes, n), "cuGraphGetNodes")


cdef int graph_node_get_type(CUgraphNode node, CUgraphNodeType* kind) except -1 nogil:
    ready("cuGraphNodeGetType")
    return check(cydriver.cuGraphNodeGetType(node, kind), "cuGraphNodeGetType")


cdef int graph_debug_dot_print(CUgraph graph, const char* path, unsigned int flags) except -1 nogil:
    ready("cuGraphDebugDotPrint")
    return check(cydriver.cuGraphDebugDotPrint(graph, path, flags), "cuGraphDebugDotPrint")


cdef int graph_add_child(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t n_after,
                         CUgraph child) except -1 nogil:
    ready("cuGraphAddChildGraphNode")
    return check(cydriver.cuGraphAddChildGraphNode(node, graph, after, n_after, child), "cuGraphAddChildGraphNode")


cdef int graph_add_mem_alloc(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t n_after,
                             CUDA_MEM_ALLOC_NODE_PARAMS* params) except -1 nogil:
    ready("cuGraphAddMemAllocNode")
    return check(cydriver.cuGraphAddMemAllocNode(node, graph, after, n_after, params), "cuGraphAddMemAllocNode")


cdef int graph_add_mem_free(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t n_after,
                            CUdeviceptr ptr) except -1 nogil:
    ready("cuGraphAddMemFreeNode")
    return check(cydriver.cuGraphAddMemFreeNode(node, graph, after, n_after, ptr), "cuGraphAddMemFreeNode")


cdef int graph_conditional_handle_create(CUgraphConditionalHandle* handle, CUgraph graph, CUcontext context,
                                         unsigned int start, unsigned int flags) except -1 nogil:
    ready("cuGraphConditionalHandleCreate")
    return check(
        cydriver.cuGraphConditionalHandleCreate(handle, graph, context, start, flags),
        "cuGraphConditionalHandleCreate")


cdef int graph_add_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t n_after,
                        CUgraphNodeParams* params) except -1 nogil:
    ready("cuGraphAddNode")
    return check(cydriver.cuGraphAddNode(node, graph, after, NULL, n_after, params), "cuGraphAddNode")


cdef int graph_destroy_node(CUgraphNode node) except -1 nogil:
    ready("cuGraphDestroyNode")
    return check(cydriver.cuGraphDestroyNode(node), "cuGraphDestroyNode")


cdef int graph_kernel_node_get_params(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* params) except -1 nogil:
    ready("cuGraphKernelNodeGetParams")
    return check(cydriver.cuGraphKernelNodeGetParams(node, params), "cuGraphKernelNodeGetParams")


# ---- executable graphs ----

# Making and changing them takes memory, which breaks captures of other streams unless this thread is relaxed.

cdef int graph_instantiate(CUgraphExec* executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* params,
                           CUresult* code) except -1 nogil:
    ready("cuGraphInstantiateWithParams")
    cdef CUstreamCaptureMode mode = drv.relax()
    code[0] = cydriver.cuGraphInstantiateWithParams(executable, graph, params)
    drv.restore(mode)
    return 0


cdef int graph_exec_update(CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo* info,
                           CUresult* code) except -1 nogil:
    ready("cuGraphExecUpdate")
    cdef CUstreamCaptureMode mode = drv.relax()
    code[0] = cydriver.cuGraphExecUpdate(executable, graph, info)
    drv.restore(mode)
    return 0


cdef int graph_exec_kernel_node_set_params(CUgraphExec executable, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS* params) except -1 nogil:
    ready("cuGraphExecKernelNodeSetParams")
    return check(
        cydriver.cuGraphExecKernelNodeSetParams(executable, node, params), "cuGraphExecKernelNodeSetParams")


cdef int graph_upload(CUgraphExec executable, CUstream stream) except -1 nogil:
    ready("cuGraphUpload")
    return check(cydriver.cuGraphUpload(executable, stream), "cuGraphUpload")


cdef int graph_launch(CUgraphExec executable, CUstream stream) except -1 nogil:
    ready("cuGraphLaunch")
    return check(raw_graph_launch(executable, stream), "cuGraphLaunch")


# ---- for destructors ----

cdef CUresult quiet_stream_end_capture(CUcontext context, CUstream stream, CUgraph* graph) noexcept nogil:
    cdef bint pushed
    cdef CUresult code
    graph[0] = NULL
    if is_closed():
        return cydriver.CUDA_ERROR_DEINITIALIZED
    code = drv.quiet_enter(context, &pushed)
    if code == cydriver.CUDA_SUCCESS:
        code = raw_stream_end_capture(stream, graph)
        drv.quiet_leave(pushed)
    return code


cdef CUresult quiet_graph_destroy(CUgraph graph) noexcept nogil:
    return cydriver.CUDA_SUCCESS if is_closed() else raw_graph_destroy(graph)


cdef CUresult quiet_graph_exec_destroy(CUgraphExec executable) noexcept nogil:
    cdef CUstreamCaptureMode mode
    cdef CUresult code
    if is_closed():
        return cydriver.CUDA_SUCCESS
    mode = drv.relax()
    code = raw_graph_exec_destroy(executable)
    drv.restore(mode)
    return code

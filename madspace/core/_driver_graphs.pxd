# The driver calls about captures and graphs, wrapped as in _driver: checked, to be called without the GIL. A `code`
# goes back for the caller to explain.
from cuda.bindings.cydriver cimport (
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS, CUcontext, CUdeviceptr,
    CUgraph, CUgraphConditionalHandle, CUgraphExec, CUgraphExecUpdateResultInfo, CUgraphNode, CUgraphNodeParams,
    CUgraphNodeType, CUresult, CUstream, CUstreamCaptureMode,
)

cdef int prepare() except -1                        # after _driver.init(), before everything below; idempotent

cdef int stream_begin_capture(CUstream stream, CUstreamCaptureMode mode) except -1 nogil
cdef int stream_begin_capture_to_graph(CUstream stream, CUgraph graph, const CUgraphNode* after, size_t n_after,
                                       CUstreamCaptureMode mode) except -1 nogil
# The one node that what is captured next on the stream comes after; 0 where there are none or several.
cdef int stream_capture_tail(CUstream stream, CUgraphNode* node) except -1 nogil

cdef int graph_create(CUgraph* graph) except -1 nogil
cdef int graph_clone(CUgraph* clone, CUgraph graph) except -1 nogil
cdef int graph_get_nodes(CUgraph graph, CUgraphNode* nodes, size_t* n) except -1 nogil
cdef int graph_node_get_type(CUgraphNode node, CUgraphNodeType* kind) except -1 nogil
cdef int graph_debug_dot_print(CUgraph graph, const char* path, unsigned int flags) except -1 nogil
cdef int graph_add_child(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t n_after,
                         CUgraph child) except -1 nogil
cdef int graph_add_mem_alloc(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t n_after,
                             CUDA_MEM_ALLOC_NODE_PARAMS* params) except -1 nogil
cdef int graph_add_mem_free(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t n_after,
                            CUdeviceptr ptr) except -1 nogil
cdef int graph_conditional_handle_create(CUgraphConditionalHandle* handle, CUgraph graph, CUcontext context,
                                         unsigned int start, unsigned int flags) except -1 nogil
cdef int graph_add_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t n_after,
                        CUgraphNodeParams* params) except -1 nogil
cdef int graph_destroy_node(CUgraphNode node) except -1 nogil
cdef int graph_kernel_node_get_params(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* params) except -1 nogil
cdef int graph_instantiate(CUgraphExec* executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* params,
                           CUresult* code) except -1 nogil
cdef int graph_exec_update(CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo* info,
                           CUresult* code) except -1 nogil
cdef int graph_exec_kernel_node_set_params(CUgraphExec executable, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS* params) except -1 nogil
cdef int graph_upload(CUgraphExec executable, CUstream stream) except -1 nogil
cdef int graph_launch(CUgraphExec executable, CUstream stream) except -1 nogil

# For destructors and for the ends of captures, as those of _driver.
cdef CUresult quiet_stream_end_capture(CUcontext context, CUstream stream, CUgraph* graph) noexcept nogil
cdef CUresult quiet_graph_destroy(CUgraph graph) noexcept nogil
cdef CUresult quiet_graph_exec_destroy(CUgraphExec executable) noexcept nogil

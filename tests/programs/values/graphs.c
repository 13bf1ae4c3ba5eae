/* Graphs: nodes, edges, instantiation, user objects. */
#include "probe.h"

static CUgraph an_empty_graph(void) {
    CUgraph graph;
    MUST(cuGraphCreate(&graph, 0));
    return graph;
}

static CUresult gone(CUresult code, CUgraph graph) {
    MUST(cuGraphDestroy(graph));
    return code;
}

PROBE(cuGraphCreate, flags) {
    CUgraph made;
    CUresult code = cuGraphCreate(&made, (unsigned)value);
    return code ? code : gone(code, made);
}

PROBE(cuGraphInstantiateWithFlags, flags) {
    CUgraphNode node;
    CUgraphExec made;
    CUgraph graph = an_empty_graph();
    MUST(cuGraphAddEmptyNode(&node, graph, 0, 0));
    CUresult code = cuGraphInstantiateWithFlags(&made, graph, value);
    if (!code) MUST(cuGraphExecDestroy(made));
    return gone(code, graph);
}

PROBE(cuGraphInstantiateWithParams, flags) {
    CUgraphNode node;
    CUgraphExec made;
    CUgraph graph = an_empty_graph();
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = value, .hUploadStream = bench.stream};
    MUST(cuGraphAddEmptyNode(&node, graph, 0, 0));
    CUresult code = cuGraphInstantiateWithParams(&made, graph, &params);
    if (!code) MUST(cuGraphExecDestroy(made));
    return gone(code, graph);
}

PROBE(cuGraphConditionalHandleCreate, flags) {
    CUgraphConditionalHandle made;
    CUgraph graph = an_empty_graph();
    return gone(cuGraphConditionalHandleCreate(&made, graph, bench.context, 0, (unsigned)value), graph);
}

PROBE(cuGraphDebugDotPrint, flags) {
    CUgraph graph = an_empty_graph();
    return gone(cuGraphDebugDotPrint(graph, "/dev/null", (unsigned)value), graph);
}

static void CUDA_CB nothing(void *user) { (void)user; }

PROBE(cuUserObjectCreate, flags) {
    CUuserObject made;
    CUresult code = cuUserObjectCreate(&made, 0, nothing, 1, (unsigned)value);
    if (!code) MUST(cuUserObjectRelease(made, 1));
    return code;
}

PROBE(cuUserObjectCreate, initialRefcount) {
    CUuserObject made;
    CUresult code = cuUserObjectCreate(&made, 0, nothing, (unsigned)value, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
    /* No call releases more than INT_MAX. */
    for (uint64_t left = code ? 0 : value, most = 0x7fffffff; left > 0; left -= left < most ? left : most)
        MUST(cuUserObjectRelease(made, (unsigned)(left < most ? left : most)));
    return code;
}

PROBE(cuGraphRetainUserObject, flags) {
    CUuserObject object;
    CUgraph graph = an_empty_graph();
    MUST(cuUserObjectCreate(&object, 0, nothing, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    CUresult code = cuGraphRetainUserObject(graph, object, 1, (unsigned)value);
    if (code || !value) MUST(cuUserObjectRelease(object, 1));
    return gone(code, graph);
}

static CUDA_KERNEL_NODE_PARAMS a_kernel(void) {
    static void *place, *parameters[1] = {&place};
    place = (void *)(uintptr_t)bench.buffer;
    return (CUDA_KERNEL_NODE_PARAMS){.func = bench.function, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1,
                                     .blockDimY = 1, .blockDimZ = 1, .kernelParams = parameters};
}

static CUgraphNode a_kernel_node(CUgraph graph) {
    CUgraphNode node;
    CUDA_KERNEL_NODE_PARAMS it = a_kernel();
    MUST(cuGraphAddKernelNode_v2(&node, graph, 0, 0, &it));
    return node;
}

PROBE(cuGraphKernelNodeSetAttribute, attr) {
    CUgraph graph = an_empty_graph();
    CUkernelNodeAttrValue it = {0};
    if (value == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION || value == CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION)
        it.clusterDim.x = it.clusterDim.y = it.clusterDim.z = 1;
    if (value == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP) it.memSyncDomainMap.remote = 1;
    return gone(cuGraphKernelNodeSetAttribute(a_kernel_node(graph), (CUkernelNodeAttrID)value, &it), graph);
}

PROBE(cuGraphKernelNodeGetAttribute, attr) {
    CUgraph graph = an_empty_graph();
    CUkernelNodeAttrValue got;
    return gone(cuGraphKernelNodeGetAttribute(a_kernel_node(graph), (CUkernelNodeAttrID)value, &got), graph);
}

static const struct member edges[] = {MEMBER(CUgraphEdgeData, from_port), MEMBER(CUgraphEdgeData, to_port),
                                      MEMBER(CUgraphEdgeData, type), ELEMENTS(CUgraphEdgeData, reserved)};
static void fill_edge(CUgraphEdgeData *it) { (void)it; }
STRUCT(cuGraphAddDependencies_v2, edgeData, CUgraphEdgeData, edges, fill_edge) {
    CUgraph graph = an_empty_graph();
    CUgraphNode from = a_kernel_node(graph), to = a_kernel_node(graph);
    return gone(cuGraphAddDependencies_v2(graph, &from, &to, it, 1), graph);
}
/* A programmatic edge, which leaves by the programmatic port. */
static void fill_early(CUgraphEdgeData *it) {
    it->from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
    it->type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
}
STRUCT(cuGraphAddDependencies_v2, early, CUgraphEdgeData, edges, fill_early) {
    CUgraph graph = an_empty_graph();
    CUgraphNode from = a_kernel_node(graph), to = a_kernel_node(graph);
    return gone(cuGraphAddDependencies_v2(graph, &from, &to, it, 1), graph);
}
STRUCT(cuGraphRemoveDependencies_v2, edgeData, CUgraphEdgeData, edges, fill_edge) {
    CUgraph graph = an_empty_graph();
    CUgraphEdgeData plain = {0};
    CUgraphNode from = a_kernel_node(graph), to = a_kernel_node(graph);
    MUST(cuGraphAddDependencies_v2(graph, &from, &to, &plain, 1));
    return gone(cuGraphRemoveDependencies_v2(graph, &from, &to, it, 1), graph);
}
STRUCT(cuGraphAddNode_v2, dependencyData, CUgraphEdgeData, edges, fill_edge) {
    CUgraph graph = an_empty_graph();
    CUgraphNode from = a_kernel_node(graph), node;
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    return gone(cuGraphAddNode_v2(&node, graph, &from, it, 1, &params), graph);
}
STRUCT(cuStreamUpdateCaptureDependencies_v2, dependencyData, CUgraphEdgeData, edges, fill_edge) {
    CUgraph graph, got;
    CUstreamCaptureStatus status;
    MUST(cuStreamBeginCapture_v2(bench.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cuStreamGetCaptureInfo_v2(bench.stream, &status, 0, &got, 0, 0));
    CUgraphNode from = a_kernel_node(got);
    CUresult code = cuStreamUpdateCaptureDependencies_v2(bench.stream, &from, it, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
    (void)cuStreamEndCapture(bench.stream, &graph);
    if (graph) MUST(cuGraphDestroy(graph));
    return code;
}
STRUCT(cuStreamBeginCaptureToGraph, dependencyData, CUgraphEdgeData, edges, fill_edge) {
    CUgraph graph = an_empty_graph(), got = 0;
    CUgraphNode from = a_kernel_node(graph);
    CUresult code = cuStreamBeginCaptureToGraph(bench.stream, graph, &from, it, 1, CU_STREAM_CAPTURE_MODE_RELAXED);
    if (!code) (void)cuStreamEndCapture(bench.stream, &got);
    return gone(code, graph);
}

/* Nodes by their struct: each type, each zero, each member of a node's own struct that is no size and no place. */
static CUgraphNodeParams params_of(CUgraphNodeType type) {
    static CUgraph child;
    static CUstreamBatchMemOpParams write;
    CUgraphNodeParams it = {.type = type};
    if (!child) {
        child = an_empty_graph();
        a_kernel_node(child);
    }
    write.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    write.writeValue.address = bench.buffer;
    CUDA_KERNEL_NODE_PARAMS kernel = a_kernel();
    switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: memcpy(&it.kernel, &kernel, sizeof kernel); break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        it.memcpy.copyParams.srcMemoryType = it.memcpy.copyParams.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        it.memcpy.copyParams.srcDevice = bench.buffer;
        it.memcpy.copyParams.dstDevice = bench.buffer + 4096;
        it.memcpy.copyParams.WidthInBytes = 16;
        it.memcpy.copyParams.Height = it.memcpy.copyParams.Depth = 1;
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        it.memset.dst = bench.buffer;
        it.memset.elementSize = 1;
        it.memset.width = 16;
        it.memset.height = 1;
        break;
    case CU_GRAPH_NODE_TYPE_HOST: it.host.fn = nothing; break;
    case CU_GRAPH_NODE_TYPE_GRAPH: it.graph.graph = child; break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: it.eventWait.event = bench.event; break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: it.eventRecord.event = bench.event; break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        it.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        it.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        it.alloc.bytesize = 4096;
        break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        it.memOp.ctx = bench.context;
        it.memOp.count = 1;
        it.memOp.paramArray = &write;
        break;
    default: break;
    }
    return it;
}

/* A node that frees needs one that allocates before it. */
static CUresult with_node(CUgraphNodeParams it) {
    CUgraph graph = an_empty_graph();
    CUgraphNode before[1], node;
    size_t count = 0;
    if (it.type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
        CUgraphNodeParams made = params_of(CU_GRAPH_NODE_TYPE_MEM_ALLOC);
        MUST(cuGraphAddNode_v2(&before[count++], graph, 0, 0, 0, &made));
        it.free.dptr = made.alloc.dptr;
    }
    if (it.type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
        MUST(cuGraphConditionalHandleCreate(&it.conditional.handle, graph, bench.context, 0, 0));
        it.conditional.ctx = bench.context;
    }
    return gone(cuGraphAddNode_v2(&node, graph, before, 0, count, &it), graph);
}

PROBE(cuGraphAddNode, type) {
    CUgraph graph = an_empty_graph();
    CUgraphNode node;
    CUgraphNodeParams it = params_of((CUgraphNodeType)value);
    if (it.type == CU_GRAPH_NODE_TYPE_MEM_FREE || it.type == CU_GRAPH_NODE_TYPE_CONDITIONAL) it.type = CU_GRAPH_NODE_TYPE_EMPTY;
    return gone(cuGraphAddNode(&node, graph, 0, 0, &it), graph);
}

PROBE(cuGraphAddNode_v2, type) {
    CUgraphNodeParams it = params_of((CUgraphNodeType)value);
    it.conditional.size = it.type == CU_GRAPH_NODE_TYPE_CONDITIONAL ? 1 : it.conditional.size;
    return with_node(it);
}

static const struct member zeros[] = {ELEMENTS(CUgraphNodeParams, reserved0), MEMBER(CUgraphNodeParams, reserved2)};
static void fill_empty(CUgraphNodeParams *it) { it->type = CU_GRAPH_NODE_TYPE_EMPTY; }
STRUCT(cuGraphAddNode, nodeParams, CUgraphNodeParams, zeros, fill_empty) {
    CUgraph graph = an_empty_graph();
    CUgraphNode node;
    return gone(cuGraphAddNode(&node, graph, 0, 0, it), graph);
}
STRUCT(cuGraphExecNodeSetParams, nodeParams, CUgraphNodeParams, zeros, fill_empty) {
    CUgraph graph = an_empty_graph();
    CUgraphNode node = a_kernel_node(graph);
    CUgraphExec exec;
    CUgraphNodeParams kernel = params_of(CU_GRAPH_NODE_TYPE_KERNEL);
    memcpy(kernel.reserved0, it->reserved0, sizeof it->reserved0);
    kernel.reserved2 = it->reserved2;
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CUresult code = cuGraphExecNodeSetParams(exec, node, &kernel);
    MUST(cuGraphExecDestroy(exec));
    return gone(code, graph);
}
STRUCT(cuGraphAddNode_v2, nodeParams, CUgraphNodeParams, zeros, fill_empty) { return with_node(*it); }
STRUCT(cuGraphNodeSetParams, nodeParams, CUgraphNodeParams, zeros, fill_empty) {
    CUgraph graph = an_empty_graph();
    CUgraphNodeParams kernel = params_of(CU_GRAPH_NODE_TYPE_KERNEL);
    memcpy(kernel.reserved0, it->reserved0, sizeof it->reserved0);
    kernel.reserved2 = it->reserved2;
    return gone(cuGraphNodeSetParams(a_kernel_node(graph), &kernel), graph);
}

#define NODE(name, type_, member)                              \
    PROBE(cuGraphAddNode_v2, name) {                           \
        CUgraphNodeParams it = params_of(type_);               \
        memcpy(&it.member, &value, sizeof it.member);          \
        return with_node(it);                                  \
    }
NODE(memcpy_flags, CU_GRAPH_NODE_TYPE_MEMCPY, memcpy.flags)
NODE(memcpy_reserved, CU_GRAPH_NODE_TYPE_MEMCPY, memcpy.reserved)
NODE(memset_elementSize, CU_GRAPH_NODE_TYPE_MEMSET, memset.elementSize)
NODE(graph_ownership, CU_GRAPH_NODE_TYPE_GRAPH, graph.ownership)
NODE(memOp_flags, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, memOp.flags)
NODE(memOp_count, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, memOp.count)
NODE(alloc_usage, CU_GRAPH_NODE_TYPE_MEM_ALLOC, alloc.poolProps.usage)

PROBE(cuGraphAddNode_v2, alloc_accessDescs_flags) {
    CUmemAccessDesc access = {.location.type = CU_MEM_LOCATION_TYPE_DEVICE, .flags = (CUmemAccess_flags)value};
    CUgraphNodeParams it = params_of(CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    it.alloc.accessDescs = &access;
    it.alloc.accessDescCount = 1;
    return with_node(it);
}

PROBE(cuGraphAddNode_v2, alloc_accessDescs_location_type) {
    CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    access.location.type = (CUmemLocationType)value;
    CUgraphNodeParams it = params_of(CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    it.alloc.accessDescs = &access;
    it.alloc.accessDescCount = 1;
    return with_node(it);
}

PROBE(cuGraphAddNode_v2, conditional_type) {
    CUgraphNodeParams it = params_of(CU_GRAPH_NODE_TYPE_CONDITIONAL);
    it.conditional.type = (CUgraphConditionalNodeType)value;
    it.conditional.size = 1;
    return with_node(it);
}

PROBE(cuGraphAddNode_v2, conditional_size) {
    CUgraphNodeParams it = params_of(CU_GRAPH_NODE_TYPE_CONDITIONAL);
    it.conditional.size = (unsigned)value;
    return with_node(it);
}

PROBE(cuGraphAddBatchMemOpNode, nodeParams_flags) {
    CUgraphNode node;
    CUgraph graph = an_empty_graph();
    CUstreamBatchMemOpParams write = {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = bench.buffer}};
    CUDA_BATCH_MEM_OP_NODE_PARAMS it = {.ctx = bench.context, .count = 1, .paramArray = &write, .flags = (unsigned)value};
    return gone(cuGraphAddBatchMemOpNode(&node, graph, 0, 0, &it), graph);
}

/* Nodes of memory operations are changed by a struct like that they were made of. */
static CUgraphNode a_batch(CUgraph graph, CUDA_BATCH_MEM_OP_NODE_PARAMS *it) {
    static CUstreamBatchMemOpParams write;
    CUgraphNode node;
    write.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    write.writeValue.address = bench.buffer;
    *it = (CUDA_BATCH_MEM_OP_NODE_PARAMS){.ctx = bench.context, .count = 1, .paramArray = &write};
    MUST(cuGraphAddBatchMemOpNode(&node, graph, 0, 0, it));
    return node;
}

PROBE(cuGraphBatchMemOpNodeSetParams, nodeParams_flags) {
    CUgraph graph = an_empty_graph();
    CUDA_BATCH_MEM_OP_NODE_PARAMS it;
    CUgraphNode node = a_batch(graph, &it);
    it.flags = (unsigned)value;
    return gone(cuGraphBatchMemOpNodeSetParams(node, &it), graph);
}

PROBE(cuGraphExecBatchMemOpNodeSetParams, nodeParams_flags) {
    CUgraph graph = an_empty_graph();
    CUgraphExec exec;
    CUDA_BATCH_MEM_OP_NODE_PARAMS it;
    CUgraphNode node = a_batch(graph, &it);
    it.flags = (unsigned)value;
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CUresult code = cuGraphExecBatchMemOpNodeSetParams(exec, node, &it);
    MUST(cuGraphExecDestroy(exec));
    return gone(code, graph);
}

/* Counts of references: those of the program are as many as an unsigned int holds, less one. */
static CUuserObject an_object(void) {
    CUuserObject object;
    MUST(cuUserObjectCreate(&object, 0, nothing, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    return object;
}

PROBE(cuUserObjectRetain, count) {
    CUuserObject object = an_object();
    CUresult code = cuUserObjectRetain(object, (unsigned)value);
    if (!code) MUST(cuUserObjectRelease(object, (unsigned)value));
    MUST(cuUserObjectRelease(object, 1));
    return code;
}

PROBE(cuUserObjectRelease, count) {
    CUuserObject object = an_object();
    MUST(cuUserObjectRetain(object, 0x7fffffff));
    MUST(cuUserObjectRetain(object, 0x7fffffff));
    MUST(cuUserObjectRetain(object, 0x7fffffff));
    return cuUserObjectRelease(object, (unsigned)value);
}

PROBE(cuGraphRetainUserObject, count) {
    CUgraph graph = an_empty_graph();
    CUuserObject object = an_object();
    CUresult code = cuGraphRetainUserObject(graph, object, (unsigned)value, 0);
    MUST(cuUserObjectRelease(object, 1));
    return gone(code, graph);
}

PROBE(cuGraphReleaseUserObject, count) {
    CUgraph graph = an_empty_graph();
    CUuserObject object = an_object();
    MUST(cuGraphRetainUserObject(graph, object, 0x7fffffff, 0));
    MUST(cuUserObjectRelease(object, 1));
    return gone(cuGraphReleaseUserObject(graph, object, (unsigned)value), graph);
}

PROBE(cuGraphAddMemsetNode, memsetParams_elementSize) {
    CUgraphNode node;
    CUgraph graph = an_empty_graph();
    CUDA_MEMSET_NODE_PARAMS it = {.dst = bench.buffer, .elementSize = (unsigned)value, .width = 16, .height = 1};
    return gone(cuGraphAddMemsetNode(&node, graph, 0, 0, &it, bench.context), graph);
}

static const struct member allocations[] = {
    MEMBER(CUDA_MEM_ALLOC_NODE_PARAMS, poolProps.allocType),     MEMBER(CUDA_MEM_ALLOC_NODE_PARAMS, poolProps.handleTypes),
    MEMBER(CUDA_MEM_ALLOC_NODE_PARAMS, poolProps.location.type), MEMBER(CUDA_MEM_ALLOC_NODE_PARAMS, poolProps.location.id),
    MEMBER(CUDA_MEM_ALLOC_NODE_PARAMS, poolProps.win32SecurityAttributes),
    MEMBER(CUDA_MEM_ALLOC_NODE_PARAMS, poolProps.maxSize),       MEMBER(CUDA_MEM_ALLOC_NODE_PARAMS, poolProps.usage),
    ELEMENTS(CUDA_MEM_ALLOC_NODE_PARAMS, poolProps.reserved),
};
static void fill_allocation(CUDA_MEM_ALLOC_NODE_PARAMS *it) {
    it->poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    it->poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    it->bytesize = 4096;
}
STRUCT(cuGraphAddMemAllocNode, nodeParams, CUDA_MEM_ALLOC_NODE_PARAMS, allocations, fill_allocation) {
    CUgraphNode node;
    CUgraph graph = an_empty_graph();
    return gone(cuGraphAddMemAllocNode(&node, graph, 0, 0, it), graph);
}

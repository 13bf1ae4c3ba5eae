/* Copies: two and three dimensions, between contexts, batches; arrays. */
#include "probe.h"

#define ENDS(type)                                                                                      \
    MEMBER(type, srcMemoryType), MEMBER(type, dstMemoryType), MEMBER(type, srcXInBytes), MEMBER(type, srcY), \
        MEMBER(type, srcPitch), MEMBER(type, dstXInBytes), MEMBER(type, dstY), MEMBER(type, dstPitch),  \
        MEMBER(type, WidthInBytes), MEMBER(type, Height)
#define BOX_ENDS(type)                                                                                 \
    ENDS(type), MEMBER(type, srcZ), MEMBER(type, srcLOD), MEMBER(type, srcHeight), MEMBER(type, dstZ), \
        MEMBER(type, dstLOD), MEMBER(type, dstHeight), MEMBER(type, Depth)

/* Host memory as one end of each kind, so that a kind that is named by its number alone has an address. */
#define FILL_ENDS(it)                               \
    do {                                            \
        (it)->srcMemoryType = CU_MEMORYTYPE_DEVICE; \
        (it)->dstMemoryType = CU_MEMORYTYPE_DEVICE; \
        (it)->srcDevice = bench.buffer;             \
        (it)->dstDevice = bench.buffer + (1 << 19); \
        (it)->srcHost = bench.host;                 \
        (it)->dstHost = bench.host + 2048;          \
        (it)->srcPitch = (it)->dstPitch = 64;       \
        (it)->WidthInBytes = 16;                    \
        (it)->Height = 2;                           \
    } while (0)

static CUarray an_array(void) {
    static CUarray made;
    if (!made) {
        CUDA_ARRAY3D_DESCRIPTOR it = {.Width = 64, .Height = 8, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
        MUST(cuArray3DCreate_v2(&made, &it));
    }
    return made;
}

static const struct member rectangles[] = {ENDS(CUDA_MEMCPY2D)};
static void fill_rectangle(CUDA_MEMCPY2D *it) {
    FILL_ENDS(it);
    it->srcArray = it->dstArray = an_array();
}
STRUCT(cuMemcpy2D_v2, pCopy, CUDA_MEMCPY2D, rectangles, fill_rectangle) { return cuMemcpy2D_v2(it); }
STRUCT(cuMemcpy2DUnaligned_v2, pCopy, CUDA_MEMCPY2D, rectangles, fill_rectangle) { return cuMemcpy2DUnaligned_v2(it); }
STRUCT(cuMemcpy2DAsync_v2, pCopy, CUDA_MEMCPY2D, rectangles, fill_rectangle) {
    return cuMemcpy2DAsync_v2(it, bench.stream);
}

static const struct member boxes[] = {BOX_ENDS(CUDA_MEMCPY3D), MEMBER(CUDA_MEMCPY3D, reserved0),
                                      MEMBER(CUDA_MEMCPY3D, reserved1)};
static void fill_box(CUDA_MEMCPY3D *it) {
    FILL_ENDS(it);
    it->Depth = 1;
    it->srcHeight = it->dstHeight = 2;
    it->srcArray = it->dstArray = an_array();
}
STRUCT(cuMemcpy3D_v2, pCopy, CUDA_MEMCPY3D, boxes, fill_box) { return cuMemcpy3D_v2(it); }
STRUCT(cuMemcpy3DAsync_v2, pCopy, CUDA_MEMCPY3D, boxes, fill_box) { return cuMemcpy3DAsync_v2(it, bench.stream); }
STRUCT(cuGraphAddMemcpyNode, copyParams, CUDA_MEMCPY3D, boxes, fill_box) {
    CUgraph graph;
    CUgraphNode node;
    MUST(cuGraphCreate(&graph, 0));
    CUresult code = cuGraphAddMemcpyNode(&node, graph, 0, 0, it, bench.context);
    MUST(cuGraphDestroy(graph));
    return code;
}
STRUCT(cuGraphMemcpyNodeSetParams, copyParams, CUDA_MEMCPY3D, boxes, fill_box) {
    CUgraph graph;
    CUgraphNode node;
    CUDA_MEMCPY3D plain = {0};
    fill_box(&plain);
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphAddMemcpyNode(&node, graph, 0, 0, &plain, bench.context));
    CUresult code = cuGraphMemcpyNodeSetParams(node, it);
    MUST(cuGraphDestroy(graph));
    return code;
}
STRUCT(cuGraphExecMemcpyNodeSetParams, copyParams, CUDA_MEMCPY3D, boxes, fill_box) {
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUDA_MEMCPY3D plain = {0};
    fill_box(&plain);
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphAddMemcpyNode(&node, graph, 0, 0, &plain, bench.context));
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CUresult code = cuGraphExecMemcpyNodeSetParams(exec, node, it, bench.context);
    MUST(cuGraphExecDestroy(exec));
    MUST(cuGraphDestroy(graph));
    return code;
}

static const struct member peer_boxes[] = {BOX_ENDS(CUDA_MEMCPY3D_PEER)};
static void fill_peer_box(CUDA_MEMCPY3D_PEER *it) {
    FILL_ENDS(it);
    it->Depth = 1;
    it->srcHeight = it->dstHeight = 2;
    it->srcContext = it->dstContext = bench.context;
    it->srcArray = it->dstArray = an_array();
}
STRUCT(cuMemcpy3DPeer, pCopy, CUDA_MEMCPY3D_PEER, peer_boxes, fill_peer_box) { return cuMemcpy3DPeer(it); }
STRUCT(cuMemcpy3DPeerAsync, pCopy, CUDA_MEMCPY3D_PEER, peer_boxes, fill_peer_box) {
    return cuMemcpy3DPeerAsync(it, bench.stream);
}

static const struct member batch_attributes[] = {
    MEMBER(CUmemcpyAttributes, srcAccessOrder),  MEMBER(CUmemcpyAttributes, srcLocHint.type),
    MEMBER(CUmemcpyAttributes, srcLocHint.id),   MEMBER(CUmemcpyAttributes, dstLocHint.type),
    MEMBER(CUmemcpyAttributes, dstLocHint.id),   MEMBER(CUmemcpyAttributes, flags),
};
static void fill_attributes(CUmemcpyAttributes *it) { it->srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM; }
STRUCT(cuMemcpyBatchAsync, attrs, CUmemcpyAttributes, batch_attributes, fill_attributes) {
    CUdeviceptr source = bench.buffer, destination = bench.buffer + 4096;
    size_t bytes = 64, first = 0, failed;
    return cuMemcpyBatchAsync(&destination, &source, &bytes, 1, it, &first, 1, &failed, bench.stream);
}
STRUCT(cuMemcpyBatchAsync_v2, attrs, CUmemcpyAttributes, batch_attributes, fill_attributes) {
    CUdeviceptr source = bench.buffer, destination = bench.buffer + 4096;
    size_t bytes = 64, first = 0;
    return cuMemcpyBatchAsync_v2(&destination, &source, &bytes, 1, it, &first, 1, bench.stream);
}

static const struct member operations[] = {
    MEMBER(CUDA_MEMCPY3D_BATCH_OP, src.type),
    MEMBER(CUDA_MEMCPY3D_BATCH_OP, src.op.ptr.rowLength),
    MEMBER(CUDA_MEMCPY3D_BATCH_OP, src.op.ptr.layerHeight),
    MEMBER(CUDA_MEMCPY3D_BATCH_OP, src.op.ptr.locHint.type),
    MEMBER(CUDA_MEMCPY3D_BATCH_OP, src.op.ptr.locHint.id),
    MEMBER(CUDA_MEMCPY3D_BATCH_OP, dst.type),
    MEMBER(CUDA_MEMCPY3D_BATCH_OP, dst.op.ptr.locHint.type),
    MEMBER(CUDA_MEMCPY3D_BATCH_OP, dst.op.ptr.locHint.id),
    MEMBER(CUDA_MEMCPY3D_BATCH_OP, srcAccessOrder),
    MEMBER(CUDA_MEMCPY3D_BATCH_OP, flags),
};
static void fill_operation(CUDA_MEMCPY3D_BATCH_OP *it) {
    it->src.type = it->dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    it->src.op.ptr.ptr = bench.buffer;
    it->dst.op.ptr.ptr = bench.buffer + 4096;
    it->extent.width = it->extent.height = it->extent.depth = 1;
    it->srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
}
STRUCT(cuMemcpy3DBatchAsync, opList, CUDA_MEMCPY3D_BATCH_OP, operations, fill_operation) {
    size_t failed;
    return cuMemcpy3DBatchAsync(1, it, &failed, 0, bench.stream);
}
STRUCT(cuMemcpy3DBatchAsync_v2, opList, CUDA_MEMCPY3D_BATCH_OP, operations, fill_operation) {
    return cuMemcpy3DBatchAsync_v2(1, it, 0, bench.stream);
}
PROBE(cuMemcpy3DBatchAsync, flags) {
    size_t failed;
    CUDA_MEMCPY3D_BATCH_OP it = {0};
    fill_operation(&it);
    return cuMemcpy3DBatchAsync(1, &it, &failed, value, bench.stream);
}
PROBE(cuMemcpy3DBatchAsync_v2, flags) {
    CUDA_MEMCPY3D_BATCH_OP it = {0};
    fill_operation(&it);
    return cuMemcpy3DBatchAsync_v2(1, &it, value, bench.stream);
}

static const struct member shapes[] = {MEMBER(CUDA_ARRAY3D_DESCRIPTOR, Format), MEMBER(CUDA_ARRAY3D_DESCRIPTOR, NumChannels),
                                       MEMBER(CUDA_ARRAY3D_DESCRIPTOR, Flags)};
static void fill_shape(CUDA_ARRAY3D_DESCRIPTOR *it) {
    it->Width = it->Height = 16;
    it->Format = CU_AD_FORMAT_FLOAT;
    it->NumChannels = 1;
    /* A cubemap has square faces, six of them; layers are a depth, too. */
}
static void depth_for(CUDA_ARRAY3D_DESCRIPTOR *it) {
    it->Depth = it->Flags == CUDA_ARRAY3D_CUBEMAP ? 6 : it->Flags == CUDA_ARRAY3D_LAYERED ? 2 : 0;
}
/* The one format that only video has one channel count for. */
STRUCT(cuArray3DCreate_v2, pAllocateArray, CUDA_ARRAY3D_DESCRIPTOR, shapes, fill_shape) {
    CUarray made;
    depth_for(it);
    CUresult code = cuArray3DCreate_v2(&made, it);
    if (!code) MUST(cuArrayDestroy(made));
    return code;
}
STRUCT(cuMipmappedArrayCreate, pMipmappedArrayDesc, CUDA_ARRAY3D_DESCRIPTOR, shapes, fill_shape) {
    CUmipmappedArray made;
    depth_for(it);
    CUresult code = cuMipmappedArrayCreate(&made, it, 2);
    if (!code) MUST(cuMipmappedArrayDestroy(made));
    return code;
}

static const struct member flat_shapes[] = {MEMBER(CUDA_ARRAY_DESCRIPTOR, Format), MEMBER(CUDA_ARRAY_DESCRIPTOR, NumChannels)};
static void fill_flat(CUDA_ARRAY_DESCRIPTOR *it) {
    it->Width = it->Height = 16;
    it->Format = CU_AD_FORMAT_FLOAT;
    it->NumChannels = 1;
}
STRUCT(cuArrayCreate_v2, pAllocateArray, CUDA_ARRAY_DESCRIPTOR, flat_shapes, fill_flat) {
    CUarray made;
    CUresult code = cuArrayCreate_v2(&made, it);
    if (!code) MUST(cuArrayDestroy(made));
    return code;
}
STRUCT(cuTexRefSetAddress2D_v3, desc, CUDA_ARRAY_DESCRIPTOR, flat_shapes, fill_flat) {
    return cuTexRefSetAddress2D_v3(bench.reference, it, bench.buffer, 1024);
}

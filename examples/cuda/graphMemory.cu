// Memory that graphs allocate and free: captured cudaMallocAsync and cudaFreeAsync, nodes made by hand, an address used
// again within a graph. Some allocations outlive a launch and are freed outside, by another graph or by the next
// launch. Also updates by a graph with other memory, refusals, and the device's figures about this memory.
// No argument. Checks every element, every refusal and every number.
#include "check.h"

#include <cuda.h>

constexpr int count = 30000;
constexpr unsigned block = 256;
constexpr size_t bytes = count * sizeof(int);

__global__ void fill(int *data, int value) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) data[i] = value + i;
}

__global__ void add(int *out, const int *in) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) out[i] += in[i];
}

static uint64_t attribute(cudaGraphMemAttributeType which) {
    uint64_t value = ~0ull;
    CHECK(cudaDeviceGetGraphMemAttribute(0, which, &value));
    return value;
}

static void expect_refusal(Verdict &verdict, const char *what, cudaError_t got, cudaError_t want) {
    if (!verdict.expect(got == want, what)) std::printf("  it gave %s\n", cudaGetErrorName(got));
    cudaGetLastError();
}

static cudaGraphExec_t instantiate(cudaGraph_t graph, unsigned long long flags = 0) {
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiateWithFlags(&exec, graph, flags));
    return exec;
}

static bool holds(const int *data, int factor, int value) {
    const std::vector<int> got = host_copy(data, count);
    for (int i = 0; i < count; ++i) {
        if (got[i] != factor * (value + i)) return false;
    }
    return true;
}

// A node that allocates, made by hand.
static cudaGraphNode_t alloc_node(cudaGraph_t graph, const std::vector<cudaGraphNode_t> &after, int **data) {
    cudaMemAllocNodeParams params = {};
    params.poolProps.allocType = cudaMemAllocationTypePinned;
    params.poolProps.location.type = cudaMemLocationTypeDevice;
    params.poolProps.location.id = 0;
    params.bytesize = bytes;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddMemAllocNode(&node, graph, after.data(), after.size(), &params));
    *data = static_cast<int *>(params.dptr);
    return node;
}

static cudaGraphNode_t fill_node(cudaGraph_t graph, cudaGraphNode_t after, int *data, int value) {
    void *arguments[] = {&data, &value};
    cudaKernelNodeParams params = {};
    params.func = reinterpret_cast<void *>(fill);
    params.gridDim = dim3(blocks_for(count, block));
    params.blockDim = dim3(block);
    params.kernelParams = arguments;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddKernelNode(&node, graph, &after, 1, &params));
    return node;
}

static void captured(Verdict &verdict, cudaStream_t stream) {
    int *out = device_alloc<int>(count);
    int *first, *second;
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemsetAsync(out, 0, bytes, stream));
    CHECK(cudaMallocAsync(&first, bytes, stream));
    fill<<<blocks_for(count, block), block, 0, stream>>>(first, 5);
    add<<<blocks_for(count, block), block, 0, stream>>>(out, first);
    CHECK(cudaFreeAsync(first, stream));
    expect_refusal(verdict, "a second free in a capture", cudaFreeAsync(first, stream), cudaErrorInvalidValue);
    expect_refusal(verdict, "a captured free of memory that is no graph's", cudaFreeAsync(out, stream),
                   cudaErrorInvalidValue);
    CHECK(cudaMallocAsync(&second, bytes, stream));
    fill<<<blocks_for(count, block), block, 0, stream>>>(second, 5);
    add<<<blocks_for(count, block), block, 0, stream>>>(out, second);
    CHECK(cudaFreeAsync(second, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    verdict.expect(first == second, "an address is used again behind its free");

    size_t nodes = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    verdict.expect(nodes == 9, "a capture with two allocations has nine nodes");
    const cudaGraphExec_t exec = instantiate(graph);
    for (int i = 0; i < 4; ++i) CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    verdict.expect(holds(out, 2, 5), "captured allocations work at every launch");
    expect_refusal(verdict, "a free outside of what the graph frees", cudaFreeAsync(first, stream),
                   cudaErrorInvalidValue);
    verdict.expect(attribute(cudaGraphMemAttrUsedMemCurrent) >= bytes, "the device counts a graph's memory");
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaFree(out));
}

// A device gives graphs memory in pieces of 32 MiB, so it takes more than that to see that memory is used twice.
static void counted_once(Verdict &verdict, cudaStream_t stream) {
    constexpr size_t large = 40 << 20;
    CHECK(cudaDeviceGraphMemTrim(0));
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < 2; ++i) {
        void *data;
        CHECK(cudaMallocAsync(&data, large, stream));
        CHECK(cudaMemsetAsync(data, i, 4096, stream));
        CHECK(cudaFreeAsync(data, stream));
    }
    CHECK(cudaStreamEndCapture(stream, &graph));
    const cudaGraphExec_t exec = instantiate(graph);
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    const uint64_t used = attribute(cudaGraphMemAttrUsedMemCurrent);
    verdict.expect(used >= large && used < 2 * large, "memory used twice in a graph is counted once");
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

static void left_alive(Verdict &verdict, cudaStream_t stream) {
    int *data;
    cudaGraph_t graph, frees, clone, parent;
    CHECK(cudaGraphCreate(&graph, 0));
    const cudaGraphNode_t allocated = alloc_node(graph, {}, &data);
    const cudaGraphNode_t filled = fill_node(graph, allocated, data, 7);
    cudaMemAllocNodeParams params;
    CHECK(cudaGraphMemAllocNodeGetParams(allocated, &params));
    verdict.expect(params.dptr == data && params.bytesize == bytes, "a node tells what it allocates");
    cudaGraphNodeType kind;
    CHECK(cudaGraphNodeGetType(allocated, &kind));
    verdict.expect(kind == cudaGraphNodeTypeMemAlloc, "an allocation is a kind of node");

    cudaGraphNode_t node;
    void *freed = nullptr;
    CHECK(cudaGraphCreate(&frees, 0));
    CHECK(cudaGraphAddMemFreeNode(&node, frees, nullptr, 0, data));
    CHECK(cudaGraphMemFreeNodeGetParams(node, &freed));
    verdict.expect(freed == data, "a node tells what it frees");
    expect_refusal(verdict, "two free nodes in one graph", cudaGraphAddMemFreeNode(&node, frees, nullptr, 0, data),
                   cudaErrorInvalidValue);
    expect_refusal(verdict, "a free in the own graph beside one elsewhere",
                   cudaGraphAddMemFreeNode(&node, graph, &filled, 1, data), cudaErrorInvalidValue);
    expect_refusal(verdict, "a copy of a graph with memory", cudaGraphClone(&clone, graph), cudaErrorNotSupported);
    expect_refusal(verdict, "the end of a node beside memory", cudaGraphDestroyNode(filled), cudaErrorNotSupported);
    CHECK(cudaGraphCreate(&parent, 0));
    expect_refusal(verdict, "a copy of a graph with memory as a node",
                   cudaGraphAddChildGraphNode(&node, parent, nullptr, 0, graph), cudaErrorNotSupported);
    CHECK(cudaGraphDestroy(parent));

    const cudaGraphExec_t exec = instantiate(graph), free_exec = instantiate(frees);
    cudaGraphExec_t twin;
    expect_refusal(verdict, "a second instantiation", cudaGraphInstantiateWithFlags(&twin, graph, 0),
                   cudaErrorNotSupported);
    expect_refusal(verdict, "a free of what no launch has allocated", cudaFree(data), cudaErrorInvalidValue);
    expect_refusal(verdict, "a launch that frees what no launch has allocated", cudaGraphLaunch(free_exec, stream),
                   cudaErrorInvalidValue);
    CHECK(cudaGraphLaunch(exec, stream));
    expect_refusal(verdict, "a launch over a living allocation", cudaGraphLaunch(exec, stream), cudaErrorInvalidValue);
    CHECK(cudaStreamSynchronize(stream));
    verdict.expect(holds(data, 1, 7), "an allocation outlives its launch");
    CHECK(cudaFreeAsync(data, stream));
    expect_refusal(verdict, "a second free", cudaFreeAsync(data, stream), cudaErrorInvalidValue);

    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaGraphLaunch(free_exec, stream));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    verdict.expect(holds(data, 1, 7), "another graph freed it meanwhile");

    // The allocation outlives even its graph.
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphExecDestroy(free_exec));
    CHECK(cudaGraphDestroy(frees));
    CHECK(cudaGraphDestroy(graph));
    verdict.expect(holds(data, 1, 7), "an allocation outlives its graph");
    verdict.expect(attribute(cudaGraphMemAttrUsedMemCurrent) >= bytes, "and is counted");
    CHECK(cudaFree(data));
    expect_refusal(verdict, "a free after the last", cudaFree(data), cudaErrorInvalidValue);
}

// One graph for all kinds of nodes, launched again and again over what it leaves.
static void freed_on_launch(Verdict &verdict, cudaStream_t stream) {
    CUgraph graph;
    CUgraphNode allocated, filled, refused;
    cudaGraphCreate(&graph, 0);
    CUgraphNodeParams params = {};
    params.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    params.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.alloc.bytesize = bytes;
    verdict.expect(cuGraphAddNode(&allocated, graph, nullptr, nullptr, 0, &params) == CUDA_SUCCESS,
                   "an allocation as a node of any kind");
    int *data = reinterpret_cast<int *>(params.alloc.dptr);
    verdict.expect(cuGraphNodeSetParams(allocated, &params) == CUDA_ERROR_NOT_SUPPORTED,
                   "an allocation node stays as it is");
    filled = fill_node(graph, allocated, data, 11);
    CUgraphNodeParams freed = {};
    freed.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
    freed.free.dptr = reinterpret_cast<CUdeviceptr>(data) + 4;
    verdict.expect(cuGraphAddNode(&refused, graph, &filled, nullptr, 1, &freed) == CUDA_ERROR_INVALID_VALUE,
                   "a free of the middle of an allocation");
    const cudaGraphExec_t exec = instantiate(graph, cudaGraphInstantiateFlagAutoFreeOnLaunch);
    for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(exec, stream));
    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaGraphExecUpdate(exec, graph, &info));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    verdict.expect(holds(data, 1, 11), "every launch frees what the one before has left");

    cudaGraph_t recorded = nullptr;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    expect_refusal(verdict, "a captured launch of a graph with memory", cudaGraphLaunch(exec, stream),
                   cudaErrorStreamCaptureUnsupported);
    expect_refusal(verdict, "the capture after it", cudaStreamEndCapture(stream, &recorded),
                   cudaErrorStreamCaptureInvalidated);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaFreeAsync(data, stream));
    CHECK(cudaStreamSynchronize(stream));
}

// An instantiated graph that is updated by a graph with memory has that graph's allocations, and its own no more.
static void updated(Verdict &verdict, cudaStream_t stream) {
    int *own, *other;
    cudaGraph_t graph, twin;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphCreate(&twin, 0));
    const cudaGraphNode_t allocated = alloc_node(graph, {}, &own), elsewhere = alloc_node(twin, {}, &other);
    fill_node(graph, allocated, own, 3);
    fill_node(twin, elsewhere, other, 8);
    cudaGraphExec_t exec = instantiate(graph), second;
    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaGraphExecUpdate(exec, twin, &info));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    verdict.expect(holds(own, 1, 3), "what was allocated before an update still lives");
    verdict.expect(holds(other, 1, 8), "an updated graph allocates as the other one");
    expect_refusal(verdict, "an instantiation of the other graph", cudaGraphInstantiateWithFlags(&second, twin, 0),
                   cudaErrorNotSupported);
    second = instantiate(graph);
    expect_refusal(verdict, "an update by a graph that is instantiated", cudaGraphExecUpdate(exec, graph, &info),
                   cudaErrorNotSupported);
    CHECK(cudaFreeAsync(own, stream));
    expect_refusal(verdict, "a launch while the other's allocation lives", cudaGraphLaunch(exec, stream),
                   cudaErrorInvalidValue);
    CHECK(cudaFreeAsync(other, stream));
    CHECK(cudaGraphExecDestroy(second));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(twin));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamSynchronize(stream));
}

int main() {
    Verdict verdict;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    verdict.expect(attribute(cudaGraphMemAttrReservedMemHigh) == 0, "no graph has had memory yet");
    captured(verdict, stream);
    counted_once(verdict, stream);
    left_alive(verdict, stream);
    freed_on_launch(verdict, stream);
    updated(verdict, stream);

    CHECK(cudaDeviceSynchronize());
    CHECK(cudaDeviceGraphMemTrim(0));
    verdict.expect(attribute(cudaGraphMemAttrUsedMemCurrent) == 0, "no graph uses memory any more");
    verdict.expect(attribute(cudaGraphMemAttrReservedMemCurrent) == 0, "a trim leaves nothing reserved");
    verdict.expect(attribute(cudaGraphMemAttrUsedMemHigh) >= bytes, "the highest use is remembered");
    uint64_t value = 0;
    CHECK(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &value));
    verdict.expect(attribute(cudaGraphMemAttrUsedMemHigh) == 0, "and counted anew");
    expect_refusal(verdict, "a current number is not set",
                   cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &value), cudaErrorInvalidValue);
    CHECK(cudaStreamDestroy(stream));
    return verdict.finish();
}

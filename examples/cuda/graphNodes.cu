// Graphs by the driver API, as XLA makes them: nodes of every kind from one struct, attributes of kernels, edges with
// data. Parameters, kinds and flags of an instantiated graph change. Events leave a capture, and its dependencies are
// changed by hand. Objects of the program live as long as a graph, and a graph is drawn.
// No argument. Checks every element and every answer.
#include "check_driver.h"

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <unistd.h>

constexpr int count = 2000;

__global__ void scale(int *data, int factor, int elements) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < elements) data[i] *= factor;
}

__global__ void add(int *data, int amount, int elements) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < elements) data[i] += amount;
}

static CUfunction function_of(const void *kernel) {
    cudaFunction_t function;
    CHECK(cudaGetFuncBySymbol(&function, kernel));
    return reinterpret_cast<CUfunction>(function);
}

// A kernel's parameters, at an address that stays while the node is made.
struct Arguments {
    int *data;
    int number, elements;
    void *pointers[3];

    Arguments(int *data, int number) : data(data), number(number), elements(count) {
        pointers[0] = &this->data;
        pointers[1] = &this->number;
        pointers[2] = &elements;
    }
    Arguments(const Arguments &) = delete;

    CUgraphNodeParams node(const void *kernel) {
        CUgraphNodeParams parameters = {};
        parameters.type = CU_GRAPH_NODE_TYPE_KERNEL;
        parameters.kernel.func = function_of(kernel);
        parameters.kernel.gridDimX = blocks_for(count, 256);
        parameters.kernel.gridDimY = parameters.kernel.gridDimZ = 1;
        parameters.kernel.blockDimX = 256;
        parameters.kernel.blockDimY = parameters.kernel.blockDimZ = 1;
        parameters.kernel.kernelParams = pointers;
        return parameters;
    }
};

static CUgraphNodeParams fill_node(int *data, unsigned value, CUcontext context) {
    CUgraphNodeParams parameters = {};
    parameters.type = CU_GRAPH_NODE_TYPE_MEMSET;
    parameters.memset.dst = reinterpret_cast<CUdeviceptr>(data);
    parameters.memset.value = value;
    parameters.memset.elementSize = 4;
    parameters.memset.width = count;
    parameters.memset.height = 1;
    parameters.memset.ctx = context;
    return parameters;
}

static CUgraphNode any_node(CUgraph graph, const std::vector<CUgraphNode> &after, CUgraphNodeParams parameters) {
    CUgraphNode node;
    CHECK_DRIVER(cuGraphAddNode(&node, graph, after.data(), nullptr, after.size(), &parameters));
    return node;
}

static void expect_all(Verdict &verdict, const char *what, const int *device, int want) {
    const std::vector<int> all(count, want);
    verdict.equal(what, host_copy(device, count).data(), all.data(), count);
}

// A copy of a graph has bytes, rows and slices, as one that is captured need not.
static void refuses_copies_of_nothing(Verdict &verdict, CUgraph graph, CUgraphNode copied, CUgraphNodeParams whole,
                                      CUcontext context) {
    size_t CUDA_MEMCPY3D::*const extents[] = {&CUDA_MEMCPY3D::WidthInBytes, &CUDA_MEMCPY3D::Height,
                                              &CUDA_MEMCPY3D::Depth};
    for (const auto extent : extents) {
        // Three slices: only a copy of several says how its slices are made of rows.
        CUDA_MEMCPY3D none = whole.memcpy.copyParams;
        none.Height = none.Depth = 3;
        none.WidthInBytes = 4;
        none.*extent = 0;
        CUgraphNode node;
        verdict.expect(cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &none, context) == CUDA_ERROR_INVALID_VALUE &&
                           cuGraphMemcpyNodeSetParams(copied, &none) == CUDA_ERROR_INVALID_VALUE,
                       "a copy of nothing is no node");
    }
}

// fill → scale → copy → add, all from the one struct; then each is changed in the instantiated graph.
static void one_struct(Verdict &verdict, CUcontext context) {
    int *a = device_alloc<int>(count), *b = device_alloc<int>(count);
    CUgraph graph;
    CHECK_DRIVER(cuGraphCreate(&graph, 0));
    const CUgraphNode filled = any_node(graph, {}, fill_node(a, 2, context));
    Arguments by_five(a, 5), plus_one(b, 1);
    const CUgraphNode scaled = any_node(graph, {filled}, by_five.node(reinterpret_cast<const void *>(scale)));
    CUgraphNodeParams copy = {};
    copy.type = CU_GRAPH_NODE_TYPE_MEMCPY;
    copy.memcpy.copyCtx = context;
    copy.memcpy.copyParams.srcMemoryType = copy.memcpy.copyParams.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.memcpy.copyParams.srcDevice = reinterpret_cast<CUdeviceptr>(a);
    copy.memcpy.copyParams.dstDevice = reinterpret_cast<CUdeviceptr>(b);
    copy.memcpy.copyParams.WidthInBytes = count * sizeof(int);
    copy.memcpy.copyParams.Height = copy.memcpy.copyParams.Depth = 1;
    const CUgraphNode copied = any_node(graph, {scaled}, copy);
    const CUgraphNode added = any_node(graph, {copied}, plus_one.node(reinterpret_cast<const void *>(add)));
    CUgraphNodeParams empty = {};
    empty.type = CU_GRAPH_NODE_TYPE_EMPTY;
    any_node(graph, {added, copied}, empty);

    CUgraphNodeType type;
    CHECK_DRIVER(cuGraphNodeGetType(copied, &type));
    verdict.expect(type == CU_GRAPH_NODE_TYPE_MEMCPY, "a node knows its type");
    CUDA_MEMCPY3D asked = {};
    CHECK_DRIVER(cuGraphMemcpyNodeGetParams(copied, &asked));
    verdict.expect(asked.dstDevice == reinterpret_cast<CUdeviceptr>(b) && asked.WidthInBytes == count * sizeof(int),
                   "a copy gives its parameters back");
    refuses_copies_of_nothing(verdict, graph, copied, copy, context);
    CUlaunchAttributeValue value = {};
    value.cooperative = 1;
    CHECK_DRIVER(cuGraphKernelNodeSetAttribute(scaled, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
    value = {};
    CHECK_DRIVER(cuGraphKernelNodeGetAttribute(scaled, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
    verdict.expect(value.cooperative == 1, "a kernel node keeps its attributes");
    value.cooperative = 0;
    CHECK_DRIVER(cuGraphKernelNodeSetAttribute(scaled, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));

    CUDA_GRAPH_INSTANTIATE_PARAMS wish = {};
    CUgraphExec exec;
    CHECK_DRIVER(cuGraphInstantiateWithParams(&exec, graph, &wish));
    verdict.expect(wish.result_out == CUDA_GRAPH_INSTANTIATE_SUCCESS, "an instantiation says how it went");
    cuuint64_t flags = 99;
    CHECK_DRIVER(cuGraphExecGetFlags(exec, &flags));
    verdict.expect(flags == 0, "an instantiated graph knows its flags");
    CHECK_DRIVER(cuGraphLaunch(exec, CU_STREAM_LEGACY));
    expect_all(verdict, "nodes from one struct", b, 11);

    CUgraphNodeParams three = fill_node(a, 3, context);
    CHECK_DRIVER(cuGraphExecNodeSetParams(exec, filled, &three));
    Arguments minus_four(b, -4);
    CUgraphNodeParams changed = minus_four.node(reinterpret_cast<const void *>(add));
    CHECK_DRIVER(cuGraphExecNodeSetParams(exec, added, &changed));
    CHECK_DRIVER(cuGraphLaunch(exec, CU_STREAM_LEGACY));
    expect_all(verdict, "nodes changed by one struct", b, 11);
    CUgraphNodeParams other_kind = fill_node(a, 3, context);
    verdict.expect(cuGraphExecNodeSetParams(exec, added, &other_kind) == CUDA_ERROR_INVALID_VALUE,
                   "a node keeps its type");
    CUgraphExecUpdateResultInfo result = {};
    CUgraph clone;
    CHECK_DRIVER(cuGraphClone(&clone, graph));
    CHECK_DRIVER(cuGraphExecUpdate(exec, clone, &result));
    verdict.expect(result.result == CU_GRAPH_EXEC_UPDATE_SUCCESS, "a clone is as good as its original");
    CHECK_DRIVER(cuGraphLaunch(exec, CU_STREAM_LEGACY));
    expect_all(verdict, "updated from a clone", b, 11);
    CHECK_DRIVER(cuGraphExecDestroy(exec));
    CHECK_DRIVER(cuGraphDestroy(clone));
    CHECK_DRIVER(cuGraphDestroy(graph));
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
}

// An event recorded with the external flag inside a capture happens at every launch, and work outside waits for it.
static void external_events(Verdict &verdict) {
    cudaStream_t stream, other;
    cudaEvent_t inside, outside;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&inside, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&outside, cudaEventDisableTiming));
    int *data = device_alloc<int>(count);
    const unsigned blocks = blocks_for(count, 256);
    verdict.expect(cudaEventRecordWithFlags(inside, stream, cudaEventRecordExternal) != cudaSuccess,
                   "external records are for captures");
    (void)cudaGetLastError();
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaStreamWaitEvent(stream, outside, cudaEventWaitExternal));
    add<<<blocks, 256, 0, stream>>>(data, 1, count);
    CHECK(cudaEventRecordWithFlags(inside, stream, cudaEventRecordExternal));
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(stream, &graph));
    size_t nodes = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    verdict.expect(nodes == 3, "external events are nodes");
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaMemset(data, 0, count * sizeof(int)));
    CHECK(cudaDeviceSynchronize());
    for (int round = 0; round < 5; ++round) {
        CHECK(cudaEventRecord(outside, other));
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamWaitEvent(other, inside, 0));
        scale<<<blocks, 256, 0, other>>>(data, 2, count);
    }
    CHECK(cudaStreamSynchronize(other));
    CHECK(cudaEventSynchronize(inside));
    expect_all(verdict, "events that leave a graph", data, 62);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    for (const cudaEvent_t event : {inside, outside}) CHECK(cudaEventDestroy(event));
    for (const cudaStream_t one : {stream, other}) CHECK(cudaStreamDestroy(one));
    CHECK(cudaFree(data));
}

// A node added by hand in the middle of a capture, which continues behind it, as libraries do it.
static void changed_dependencies(Verdict &verdict) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    int *data = device_alloc<int>(count);
    CHECK(cudaMemset(data, 0, count * sizeof(int)));
    CHECK(cudaDeviceSynchronize());
    const unsigned blocks = blocks_for(count, 256);
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    add<<<blocks, 256, 0, stream>>>(data, 1, count);
    cudaStreamCaptureStatus status;
    cudaGraph_t graph;
    const cudaGraphNode_t *dependencies;
    size_t dependency_count = 0;
    CHECK(cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, &dependencies, nullptr, &dependency_count));
    int *target = data, factor = 10, elements = count;
    void *pointers[] = {&target, &factor, &elements};
    cudaKernelNodeParams parameters = {};
    parameters.func = reinterpret_cast<void *>(scale);
    parameters.gridDim = dim3(blocks);
    parameters.blockDim = dim3(256);
    parameters.kernelParams = pointers;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddKernelNode(&node, graph, dependencies, dependency_count, &parameters));
    CHECK(cudaStreamUpdateCaptureDependencies(stream, &node, nullptr, 1, cudaStreamSetCaptureDependencies));
    add<<<blocks, 256, 0, stream>>>(data, 3, count);
    CHECK(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int replay = 0; replay < 2; ++replay) CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    expect_all(verdict, "a node put into a capture", data, 143);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(data));
}

static std::atomic<int> destroyed{0};
static void CUDART_CB count_destroyed(void *) { ++destroyed; }

// Its destructor may run a little later, on a thread of CUDA.
static bool becomes(int want) {
    for (int patience = 0; patience < 2000 && destroyed != want; ++patience) usleep(1000);
    return destroyed == want;
}

static void objects(Verdict &verdict) {
    cudaUserObject_t object;
    cudaGraph_t graph;
    CHECK(cudaUserObjectCreate(&object, nullptr, count_destroyed, 1, cudaUserObjectNoDestructorSync));
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t node;
    CHECK(cudaGraphAddEmptyNode(&node, graph, nullptr, 0));
    CHECK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphLaunch(exec, nullptr));
    CHECK(cudaDeviceSynchronize());
    verdict.expect(destroyed == 0, "an object lives as long as an instantiated graph");
    CHECK(cudaGraphExecDestroy(exec));
    verdict.expect(becomes(1), "and is destroyed with it");
}

static void picture(Verdict &verdict) {
    cudaGraph_t graph;
    cudaGraphNode_t first, second;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddEmptyNode(&first, graph, nullptr, 0));
    CHECK(cudaGraphAddEmptyNode(&second, graph, &first, 1));
    int *data = nullptr, factor = 2, elements = 0;
    void *pointers[] = {&data, &factor, &elements};
    cudaKernelNodeParams kernel = {};
    kernel.func = reinterpret_cast<void *>(scale);
    kernel.gridDim = kernel.blockDim = dim3(1);
    kernel.kernelParams = pointers;
    CHECK(cudaGraphAddKernelNode(&first, graph, &second, 1, &kernel));
    char path[] = "/tmp/graphNodes.XXXXXX";
    const int file = mkstemp(path);
    if (file < 0) std::exit(1);
    CHECK(cudaGraphDebugDotPrint(graph, path, 0));
    char text[8192] = "";
    const ssize_t length = pread(file, text, sizeof(text) - 1, 0);
    // The file may be a new one under the same name.
    if (length <= 0) {
        FILE *again = std::fopen(path, "r");
        if (again == nullptr || std::fread(text, 1, sizeof(text) - 1, again) == 0) std::exit(1);
        std::fclose(again);
    }
    close(file);
    unlink(path);
    verdict.expect(std::strstr(text, "digraph") != nullptr && std::strstr(text, "->") != nullptr,
                   "a graph can be looked at");
    verdict.expect(std::strstr(text, "scale") != nullptr, "with the names of its kernels");
    CHECK(cudaGraphDestroy(graph));
}

int main() {
    Verdict verdict;
    CHECK(cudaFree(nullptr));
    CUcontext context;
    CHECK_DRIVER(cuCtxGetCurrent(&context));
    one_struct(verdict, context);
    external_events(verdict);
    changed_dependencies(verdict);
    objects(verdict);
    picture(verdict);
    return verdict.finish();
}

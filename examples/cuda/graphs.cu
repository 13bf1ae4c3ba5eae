// Graphs made by hand: kernels, copies of every direction, memsets, host functions, empty nodes, events, a graph within
// a graph. Also queries, copies of graphs, and refusals. Nodes of an instantiated graph get other parameters, are
// disabled, or are exchanged by an update.
// No argument. Checks every element after every launch.
#include "check.h"

#include <algorithm>
#include <cstring>

constexpr int count = 3000;
constexpr unsigned block = 256;

__global__ void scale(int *data, int factor, int elements) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < elements) data[i] *= factor;
}

__global__ void sum(int *out, const int *left, const int *right, int elements) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < elements) out[i] = left[i] + right[i];
}

__global__ void count_up(int *data) { *data += 1; }

template <typename... Arguments>
static cudaGraphNode_t kernel_node(cudaGraph_t graph, const std::vector<cudaGraphNode_t> &after, void *kernel,
                                   unsigned blocks, unsigned threads, Arguments... arguments) {
    void *pointers[] = {&arguments...};
    cudaKernelNodeParams parameters = {};
    parameters.func = kernel;
    parameters.gridDim = dim3(blocks);
    parameters.blockDim = dim3(threads);
    parameters.kernelParams = pointers;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddKernelNode(&node, graph, after.data(), after.size(), &parameters));
    return node;
}

static cudaGraphNode_t copy_node(cudaGraph_t graph, const std::vector<cudaGraphNode_t> &after, void *target,
                                 const void *source, size_t bytes, cudaMemcpyKind kind) {
    cudaGraphNode_t node;
    CHECK(cudaGraphAddMemcpyNode1D(&node, graph, after.data(), after.size(), target, source, bytes, kind));
    return node;
}

static cudaMemsetParams words_of(int *target, unsigned value, size_t width) {
    cudaMemsetParams parameters = {};
    parameters.dst = target;
    parameters.elementSize = 4;
    parameters.value = value;
    parameters.width = width;
    parameters.height = 1;
    return parameters;
}

struct Seen {
    const int *value;
    std::vector<int> values;
};

static void CUDART_CB note(void *data) {
    Seen *seen = static_cast<Seen *>(data);
    seen->values.push_back(*seen->value);
}

// in → a; b filled with 7 → scaled by 3; out = a + b; host function sees the first element. Two branches meet.
static void diamond(Verdict &verdict) {
    int *in, *out;
    CHECK(cudaMallocHost(&in, count * sizeof(int)));
    CHECK(cudaMallocHost(&out, count * sizeof(int)));
    int *a = device_alloc<int>(count), *b = device_alloc<int>(count), *c = device_alloc<int>(count);
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    Seen seen = {out, {}};
    const cudaGraphNode_t to_device = copy_node(graph, {}, a, in, count * sizeof(int), cudaMemcpyHostToDevice);
    cudaGraphNode_t fill, meet, host;
    const cudaMemsetParams sevens = words_of(b, 7, count);
    CHECK(cudaGraphAddMemsetNode(&fill, graph, nullptr, 0, &sevens));
    const cudaGraphNode_t tripled =
        kernel_node(graph, {fill}, reinterpret_cast<void *>(scale), blocks_for(count, block), block, b, 3, count);
    const cudaGraphNode_t branches[] = {to_device, tripled};
    CHECK(cudaGraphAddEmptyNode(&meet, graph, branches, 2));
    const cudaGraphNode_t added = kernel_node(graph, {meet}, reinterpret_cast<void *>(sum), blocks_for(count, block),
                                              block, c, static_cast<const int *>(a), static_cast<const int *>(b), count);
    const cudaGraphNode_t to_host = copy_node(graph, {added}, out, c, count * sizeof(int), cudaMemcpyDeviceToHost);
    cudaHostNodeParams function = {note, &seen};
    CHECK(cudaGraphAddHostNode(&host, graph, &to_host, 1, &function));

    size_t nodes = 0, roots = 0, edges = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    CHECK(cudaGraphGetRootNodes(graph, nullptr, &roots));
    CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
    verdict.expect(nodes == 7 && roots == 2 && edges == 6, "a graph counts its nodes, roots and edges");
    std::vector<cudaGraphNode_t> all(nodes), from(edges), to(edges);
    CHECK(cudaGraphGetNodes(graph, all.data(), &nodes));
    verdict.expect(std::find(all.begin(), all.end(), meet) != all.end(), "and names them");
    CHECK(cudaGraphGetEdges(graph, from.data(), to.data(), nullptr, &edges));
    bool known = false;
    for (size_t i = 0; i < edges; ++i) known |= from[i] == to_host && to[i] == host;
    verdict.expect(known, "an edge leads from node to node");
    size_t before = 0, behind = 0;
    CHECK(cudaGraphNodeGetDependencies(meet, nullptr, nullptr, &before));
    CHECK(cudaGraphNodeGetDependentNodes(meet, nullptr, nullptr, &behind));
    verdict.expect(before == 2 && behind == 1, "a node counts what is before and behind it");
    cudaGraphNodeType type;
    const std::pair<cudaGraphNode_t, cudaGraphNodeType> types[] = {
        {to_device, cudaGraphNodeTypeMemcpy}, {fill, cudaGraphNodeTypeMemset}, {tripled, cudaGraphNodeTypeKernel},
        {meet, cudaGraphNodeTypeEmpty},       {host, cudaGraphNodeTypeHost},
    };
    for (const auto &[node, want] : types) {
        CHECK(cudaGraphNodeGetType(node, &type));
        verdict.expect(type == want, "a node knows what it does");
    }
    cudaKernelNodeParams asked = {};
    CHECK(cudaGraphKernelNodeGetParams(tripled, &asked));
    verdict.expect(asked.gridDim.x == blocks_for(count, block) && asked.blockDim.x == block &&
                       *static_cast<int *>(asked.kernelParams[1]) == 3,
                   "a kernel node gives its parameters back");

    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    std::vector<int> want(count);
    for (int launch = 0; launch < 4; ++launch) {
        // The copy reads the source at every launch.
        for (int i = 0; i < count; ++i) in[i] = i + launch * 1000;
        std::memset(out, 0, count * sizeof(int));
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < count; ++i) want[static_cast<size_t>(i)] = i + launch * 1000 + 21;
        verdict.equal("diamond", out, want.data(), count);
    }
    verdict.expect(seen.values == std::vector<int>({21, 1021, 2021, 3021}),
                   "the host function runs once per launch, behind the copy");
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaStreamDestroy(stream));
    for (int *pointer : {a, b, c}) CHECK(cudaFree(pointer));
    CHECK(cudaFreeHost(in));
    CHECK(cudaFreeHost(out));
}

// Launches of one instantiated graph follow one another, on one stream and on several.
static void launches_in_order(Verdict &verdict) {
    int *counter = device_copy(std::vector<int>(1, 0));
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    std::vector<cudaGraphNode_t> last;
    for (int i = 0; i < 5; ++i) last = {kernel_node(graph, last, reinterpret_cast<void *>(count_up), 1, 1, counter)};
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    cudaStream_t streams[3];
    for (cudaStream_t &stream : streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaGraphUpload(exec, streams[0]));
    for (int launch = 0; launch < 60; ++launch) CHECK(cudaGraphLaunch(exec, streams[launch % 3]));
    for (const cudaStream_t stream : streams) CHECK(cudaStreamSynchronize(stream));
    verdict.expect(host_copy(counter, 1)[0] == 300, "launches of one graph do not overlap");
    // The default stream and work around a launch keep their order too.
    count_up<<<1, 1>>>(counter);
    CHECK(cudaGraphLaunch(exec, nullptr));
    count_up<<<1, 1>>>(counter);
    verdict.expect(host_copy(counter, 1)[0] == 307, "a launch has its place in its stream");
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    for (const cudaStream_t stream : streams) CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(counter));
}

// A graph as a node of another, twice; a clone; events that are recorded and waited for by nodes.
static void nested(Verdict &verdict) {
    int *data = device_alloc<int>(count);
    cudaGraph_t inner, outer, clone;
    CHECK(cudaGraphCreate(&inner, 0));
    CHECK(cudaGraphCreate(&outer, 0));
    const cudaGraphNode_t doubled = kernel_node(inner, {}, reinterpret_cast<void *>(scale), blocks_for(count, block),
                                                block, data, 2, count);
    kernel_node(inner, {doubled}, reinterpret_cast<void *>(scale), blocks_for(count, block), block, data, 5, count);
    cudaGraphNode_t fill, first, second, recorded;
    const cudaMemsetParams ones = words_of(data, 1, count);
    CHECK(cudaGraphAddMemsetNode(&fill, outer, nullptr, 0, &ones));
    CHECK(cudaGraphAddChildGraphNode(&first, outer, &fill, 1, inner));
    CHECK(cudaGraphAddChildGraphNode(&second, outer, &first, 1, inner));
    cudaEvent_t event;
    CHECK(cudaEventCreate(&event));
    CHECK(cudaGraphAddEventRecordNode(&recorded, outer, &second, 1, event));
    cudaGraph_t of_node;
    size_t nodes = 0;
    CHECK(cudaGraphChildGraphNodeGetGraph(first, &of_node));
    CHECK(cudaGraphGetNodes(of_node, nullptr, &nodes));
    verdict.expect(nodes == 2 && of_node != inner, "a node has a copy of the graph it was given");
    CHECK(cudaGraphClone(&clone, outer));
    cudaGraphNode_t in_clone = nullptr;
    CHECK(cudaGraphNodeFindInClone(&in_clone, fill, clone));
    verdict.expect(in_clone != nullptr && in_clone != fill, "a clone has nodes of its own");
    const cudaMemsetParams threes = words_of(data, 3, count);
    CHECK(cudaGraphMemsetNodeSetParams(in_clone, &threes));
    for (const auto &[graph, want] : {std::make_pair(outer, 100), std::make_pair(clone, 300)}) {
        cudaGraphExec_t exec;
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        CHECK(cudaGraphLaunch(exec, nullptr));
        CHECK(cudaEventSynchronize(event));
        const std::vector<int> all(count, want);
        verdict.equal("graph within a graph", host_copy(data, count).data(), all.data(), count);
        CHECK(cudaGraphExecDestroy(exec));
    }
    for (const cudaGraph_t graph : {inner, outer, clone}) CHECK(cudaGraphDestroy(graph));
    CHECK(cudaEventDestroy(event));
    CHECK(cudaFree(data));
}

// Parameters of an instantiated graph: node by node, switched off, and all at once from another graph.
static void changes(Verdict &verdict) {
    int *data = device_alloc<int>(count), *other = device_alloc<int>(count);
    int *host;
    CHECK(cudaMallocHost(&host, count * sizeof(int)));
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t fill;
    const cudaMemsetParams twos = words_of(data, 2, count);
    CHECK(cudaGraphAddMemsetNode(&fill, graph, nullptr, 0, &twos));
    const cudaGraphNode_t scaled = kernel_node(graph, {fill}, reinterpret_cast<void *>(scale),
                                               blocks_for(count, block), block, data, 10, count);
    const cudaGraphNode_t copied = copy_node(graph, {scaled}, host, data, count * sizeof(int), cudaMemcpyDeviceToHost);
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    const auto launch = [&](const char *what, int want) {
        std::memset(host, 0xff, count * sizeof(int));
        CHECK(cudaGraphLaunch(exec, nullptr));
        CHECK(cudaStreamSynchronize(nullptr));
        const std::vector<int> all(count, want);
        verdict.equal(what, host, all.data(), count);
    };
    launch("as it was made", 20);

    const cudaMemsetParams sixes = words_of(data, 6, count);
    CHECK(cudaGraphExecMemsetNodeSetParams(exec, fill, &sixes));
    launch("another value to fill with", 60);
    int *target = data, factor = 7, elements = count;
    void *pointers[] = {&target, &factor, &elements};
    cudaKernelNodeParams parameters = {};
    parameters.func = reinterpret_cast<void *>(scale);
    parameters.gridDim = dim3(blocks_for(count, 128));
    parameters.blockDim = dim3(128);
    parameters.kernelParams = pointers;
    CHECK(cudaGraphExecKernelNodeSetParams(exec, scaled, &parameters));
    launch("another factor and shape", 42);
    CHECK(cudaGraphNodeSetEnabled(exec, scaled, 0));
    unsigned enabled = 1;
    CHECK(cudaGraphNodeGetEnabled(exec, scaled, &enabled));
    verdict.expect(enabled == 0, "a node can be switched off");
    launch("without the kernel", 6);
    CHECK(cudaGraphNodeSetEnabled(exec, scaled, 1));
    launch("with it again", 42);
    CHECK(cudaMemset(other, 0, count * sizeof(int)));
    CHECK(cudaGraphExecMemcpyNodeSetParams1D(exec, copied, host, other, count * sizeof(int), cudaMemcpyDeviceToHost));
    launch("another source", 0);

    // The graph itself was not touched: an update brings everything back, and what changed in it since.
    factor = 100;
    CHECK(cudaGraphKernelNodeSetParams(scaled, &parameters));
    cudaGraphExecUpdateResultInfo result = {};
    CHECK(cudaGraphExecUpdate(exec, graph, &result));
    verdict.expect(result.result == cudaGraphExecUpdateSuccess, "an update from the same graph goes through");
    launch("after an update", 200);
    cudaGraphNode_t more;
    CHECK(cudaGraphAddEmptyNode(&more, graph, &copied, 1));
    verdict.expect(cudaGraphExecUpdate(exec, graph, &result) == cudaErrorGraphExecUpdateFailure &&
                       result.result == cudaGraphExecUpdateErrorTopologyChanged,
                   "an update cannot add a node");
    (void)cudaGetLastError();
    launch("after a refused update", 200);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaFree(data));
    CHECK(cudaFree(other));
    CHECK(cudaFreeHost(host));
}

static void refusals(Verdict &verdict) {
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t nodes[3];
    for (cudaGraphNode_t &node : nodes) CHECK(cudaGraphAddEmptyNode(&node, graph, nullptr, 0));
    CHECK(cudaGraphAddDependencies(graph, &nodes[0], &nodes[1], nullptr, 1));
    CHECK(cudaGraphAddDependencies(graph, &nodes[1], &nodes[2], nullptr, 1));
    verdict.expect(cudaGraphAddDependencies(graph, &nodes[0], &nodes[1], nullptr, 1) == cudaErrorInvalidValue,
                   "an edge stands once");
    (void)cudaGetLastError();
    cudaGraphExec_t exec;
    // A circle is found when the edge is added or when the graph is instantiated.
    const bool refused = cudaGraphAddDependencies(graph, &nodes[2], &nodes[0], nullptr, 1) != cudaSuccess ||
                         cudaGraphInstantiate(&exec, graph, 0) != cudaSuccess;
    verdict.expect(refused, "a circle is no graph");
    (void)cudaGetLastError();
    (void)cudaGraphRemoveDependencies(graph, &nodes[2], &nodes[0], nullptr, 1);
    (void)cudaGetLastError();
    CHECK(cudaGraphRemoveDependencies(graph, &nodes[0], &nodes[1], nullptr, 1));
    CHECK(cudaGraphDestroyNode(nodes[1]));
    size_t count_of_nodes = 0, edges = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &count_of_nodes));
    CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
    verdict.expect(count_of_nodes == 2 && edges == 0, "a node goes with its edges");
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, nullptr));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaDeviceSynchronize());
}

int main() {
    Verdict verdict;
    diamond(verdict);
    launches_in_order(verdict);
    nested(verdict);
    changes(verdict);
    refusals(verdict);
    return verdict.finish();
}

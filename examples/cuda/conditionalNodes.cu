// Graphs that decide on the device: if and else, while, switch, one within another, bodies that are added and captured,
// defaults at each launch, changes of an executable graph, and what is refused. Every result is computed on the host, too.
#include "check.h"

#include <tuple>

struct Numbers {
    unsigned value, steps, ups, visits[4];
    cudaGraphConditionalHandle handle;
};

__global__ void set_odd(Numbers *n, cudaGraphConditionalHandle handle) { cudaGraphSetConditional(handle, n->value & 1); }
__global__ void set_value(Numbers *n, cudaGraphConditionalHandle handle) { cudaGraphSetConditional(handle, n->value); }
// The handle comes from memory, as a kernel may keep it.
__global__ void set_from_memory(Numbers *n) { cudaGraphSetConditional(n->handle, n->value); }
__global__ void visit(Numbers *n, int which) { n->visits[which]++; }
__global__ void count_down(Numbers *n, cudaGraphConditionalHandle handle, unsigned by) {
    n->steps++;
    n->value = n->value > by ? n->value - by : 0;
    cudaGraphSetConditional(handle, n->value);
}
__global__ void halve(Numbers *n) { n->value /= 2; }
__global__ void grow(Numbers *n) {
    n->value = 3 * n->value + 1;
    n->ups++;
}
__global__ void decide(Numbers *n, cudaGraphConditionalHandle loop, cudaGraphConditionalHandle parity) {
    cudaGraphSetConditional(loop, n->value != 1);
    cudaGraphSetConditional(parity, n->value & 1);
}
__global__ void step(Numbers *n) { n->steps++; }

struct Bench {
    Verdict &verdict;
    Numbers *device;
    cudaStream_t stream;

    void fill(const Numbers &numbers) { CHECK(cudaMemcpy(device, &numbers, sizeof numbers, cudaMemcpyHostToDevice)); }
    Numbers run(cudaGraphExec_t exec) {
        Numbers numbers;
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaMemcpy(&numbers, device, sizeof numbers, cudaMemcpyDeviceToHost));
        return numbers;
    }
    Numbers run(cudaGraphExec_t exec, const Numbers &numbers) {
        fill(numbers);
        return run(exec);
    }
};

template <typename... Parameters, typename... Values>
static cudaGraphNode_t add_kernel(cudaGraph_t graph, cudaGraphNode_t after, void (*kernel)(Parameters...), Values... values) {
    std::tuple<Parameters...> held(values...);
    void *arguments[sizeof...(Parameters)];
    int at = 0;
    std::apply([&](auto &...each) { ((arguments[at++] = &each), ...); }, held);
    cudaGraphNodeParams params{};
    params.type = cudaGraphNodeTypeKernel;
    params.kernel.func = reinterpret_cast<void *>(kernel);
    params.kernel.gridDim = params.kernel.blockDim = dim3(1);
    params.kernel.kernelParams = arguments;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddNode(&node, graph, after ? &after : nullptr, nullptr, after ? 1 : 0, &params));
    return node;
}

static cudaGraphConditionalHandle handle_of(cudaGraph_t graph, unsigned value = 0, unsigned flags = 0) {
    cudaGraphConditionalHandle handle;
    CHECK(cudaGraphConditionalHandleCreate(&handle, graph, value, flags));
    return handle;
}

static cudaGraphNodeParams conditional(cudaGraphConditionalHandle handle, cudaGraphConditionalNodeType type, unsigned size) {
    cudaGraphNodeParams params{};
    params.type = cudaGraphNodeTypeConditional;
    params.conditional.handle = handle;
    params.conditional.type = type;
    params.conditional.size = size;
    return params;
}

static cudaGraphNode_t add_conditional(cudaGraph_t graph, cudaGraphNode_t after, cudaGraphNodeParams &params) {
    cudaGraphNode_t node;
    CHECK(cudaGraphAddNode(&node, graph, after ? &after : nullptr, nullptr, after ? 1 : 0, &params));
    return node;
}

static cudaGraphExec_t instantiate(cudaGraph_t graph) {
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    return exec;
}

static cudaGraph_t make() {
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    return graph;
}

static void if_and_else(Bench &bench) {
    for (unsigned size = 1; size <= 2; ++size) {
        cudaGraph_t graph = make();
        const auto handle = handle_of(graph);
        cudaGraphNode_t first = add_kernel(graph, nullptr, set_odd, bench.device, handle);
        auto params = conditional(handle, cudaGraphCondTypeIf, size);
        cudaGraphNode_t node = add_conditional(graph, first, params);
        for (unsigned body = 0; body < size; ++body)
            add_kernel(params.conditional.phGraph_out[body], nullptr, visit, bench.device, int(body));
        add_kernel(graph, node, visit, bench.device, 3);
        cudaGraphNodeType type;
        CHECK(cudaGraphNodeGetType(node, &type));
        bench.verdict.expect(type == cudaGraphNodeTypeConditional, "a conditional node's type");
        cudaGraphExec_t exec = instantiate(graph);
        for (unsigned value = 0; value < 4; ++value) {
            const Numbers got = bench.run(exec, Numbers{value});
            const unsigned odd = value & 1;
            bench.verdict.expect(got.visits[0] == odd && got.visits[1] == (size == 2 && !odd) && got.visits[3] == 1, "if and else");
        }
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
    }
}

// The graph is gone before its launches: what was instantiated lives on.
static void captured_while(Bench &bench) {
    cudaGraph_t graph = make();
    const auto handle = handle_of(graph, 1, cudaGraphCondAssignDefault);
    auto params = conditional(handle, cudaGraphCondTypeWhile, 1);
    add_conditional(graph, nullptr, params);
    cudaGraph_t body = params.conditional.phGraph_out[0];
    CHECK(cudaStreamBeginCaptureToGraph(bench.stream, body, nullptr, nullptr, 0, cudaStreamCaptureModeGlobal));
    visit<<<1, 1, 0, bench.stream>>>(bench.device, 2);
    count_down<<<1, 1, 0, bench.stream>>>(bench.device, handle, 1);
    CHECK_LAUNCH();
    CHECK(cudaStreamEndCapture(bench.stream, nullptr));
    cudaGraphExec_t exec = instantiate(graph);
    CHECK(cudaGraphDestroy(graph));
    for (unsigned value : {0u, 1u, 7u, 100u}) {
        const Numbers got = bench.run(exec, Numbers{value});
        const unsigned rounds = value ? value : 1;
        bench.verdict.expect(got.value == 0 && got.steps == rounds && got.visits[2] == rounds, "a loop with a default");
    }
    CHECK(cudaGraphExecDestroy(exec));
}

// A conditional node is put into a capture, and decides by a handle that a kernel reads from memory.
static void into_capture(Bench &bench) {
    CHECK(cudaStreamBeginCapture(bench.stream, cudaStreamCaptureModeGlobal));
    cudaStreamCaptureStatus status;
    cudaGraph_t graph;
    const cudaGraphNode_t *after;
    size_t count;
    CHECK(cudaStreamGetCaptureInfo(bench.stream, &status, nullptr, &graph, &after, nullptr, &count));
    const auto handle = handle_of(graph);
    set_from_memory<<<1, 1, 0, bench.stream>>>(bench.device);
    CHECK_LAUNCH();
    CHECK(cudaStreamGetCaptureInfo(bench.stream, &status, nullptr, &graph, &after, nullptr, &count));
    auto params = conditional(handle, cudaGraphCondTypeSwitch, 3);
    cudaGraphNode_t node;
    CHECK(cudaGraphAddNode(&node, graph, after, nullptr, count, &params));
    CHECK(cudaStreamUpdateCaptureDependencies(bench.stream, &node, nullptr, 1, cudaStreamSetCaptureDependencies));
    visit<<<1, 1, 0, bench.stream>>>(bench.device, 3);
    CHECK_LAUNCH();
    CHECK(cudaStreamEndCapture(bench.stream, &graph));
    for (int body = 0; body < 3; ++body) add_kernel(params.conditional.phGraph_out[body], nullptr, visit, bench.device, body);
    cudaGraphExec_t exec = instantiate(graph);
    for (unsigned value : {2u, 0u, 1u, 3u, 0xffffffffu}) {
        Numbers in{value};
        in.handle = handle;
        const Numbers got = bench.run(exec, in);
        for (unsigned body = 0; body < 3; ++body) bench.verdict.expect(got.visits[body] == (value == body), "a switch");
        bench.verdict.expect(got.visits[3] == 1, "what comes behind a switch");
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

// while (n != 1) { if (n & 1) n = 3n + 1 else n /= 2 }, with a child graph, a fill and a copy in the loop's body.
static void nested(Bench &bench) {
    unsigned *words;
    CHECK(cudaMalloc(&words, 8));
    cudaGraph_t graph = make();
    const auto loop = handle_of(graph), parity = handle_of(graph);
    cudaGraphNode_t first = add_kernel(graph, nullptr, decide, bench.device, loop, parity);
    auto outer = conditional(loop, cudaGraphCondTypeWhile, 1);
    add_conditional(graph, first, outer);
    cudaGraph_t body = outer.conditional.phGraph_out[0];
    auto inner = conditional(parity, cudaGraphCondTypeIf, 2);
    cudaGraphNode_t branch = add_conditional(body, nullptr, inner);
    add_kernel(inner.conditional.phGraph_out[0], nullptr, grow, bench.device);
    add_kernel(inner.conditional.phGraph_out[1], nullptr, halve, bench.device);
    cudaGraph_t child = make();
    add_kernel(child, add_kernel(child, nullptr, step, bench.device), visit, bench.device, 1);
    cudaGraphNode_t node, fill, copy;
    CHECK(cudaGraphAddChildGraphNode(&node, body, &branch, 1, child));
    CHECK(cudaGraphDestroy(child));
    cudaMemsetParams pattern{};
    pattern.dst = words;
    pattern.value = 5;
    pattern.elementSize = 4;
    pattern.width = pattern.height = 1;
    CHECK(cudaGraphAddMemsetNode(&fill, body, &node, 1, &pattern));
    CHECK(cudaGraphAddMemcpyNode1D(&copy, body, &fill, 1, words + 1, words, 4, cudaMemcpyDeviceToDevice));
    add_kernel(body, copy, decide, bench.device, loop, parity);
    cudaGraphExec_t exec = instantiate(graph);
    for (unsigned start : {1u, 6u, 27u}) {
        unsigned steps = 0, ups = 0, copied[2] = {9, 9};
        for (unsigned n = start; n != 1; ++steps) {
            ups += n & 1;
            n = n & 1 ? 3 * n + 1 : n / 2;
        }
        CHECK(cudaMemset(words, 0, 8));
        const Numbers got = bench.run(exec, Numbers{start});
        CHECK(cudaMemcpy(copied, words, 8, cudaMemcpyDeviceToHost));
        bench.verdict.expect(got.value == 1 && got.steps == steps && got.ups == ups && got.visits[1] == steps, "a branch in a loop");
        bench.verdict.expect(copied[1] == (steps ? 5u : 0u), "a copy in a loop");
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaFree(words));
}

static void changed(Bench &bench) {
    cudaGraph_t graph = make();
    const auto handle = handle_of(graph);
    cudaGraphNode_t first = add_kernel(graph, nullptr, set_value, bench.device, handle);
    auto params = conditional(handle, cudaGraphCondTypeWhile, 1);
    add_conditional(graph, first, params);
    cudaGraphNode_t inner = add_kernel(params.conditional.phGraph_out[0], nullptr, count_down, bench.device, handle, 1u);
    cudaGraphExec_t exec = instantiate(graph);
    // Ten launches in a row: each begins when the one before is over.
    bench.fill(Numbers{60});
    for (int i = 0; i < 10; ++i) CHECK(cudaGraphLaunch(exec, bench.stream));
    bench.verdict.expect(bench.run(exec).steps == 60, "launches in a row");
    unsigned by = 5;
    auto handle_copy = handle;
    void *arguments[] = {&bench.device, const_cast<cudaGraphConditionalHandle *>(&handle_copy), &by};
    cudaKernelNodeParams kernel{};
    kernel.func = reinterpret_cast<void *>(count_down);
    kernel.gridDim = kernel.blockDim = dim3(1);
    kernel.kernelParams = arguments;
    CHECK(cudaGraphKernelNodeSetParams(inner, &kernel));
    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaGraphExecUpdate(exec, graph, &info));
    bench.verdict.expect(bench.run(exec, Numbers{60}).steps == 12, "a body after an update by its own graph");
    // Another handle of another graph is not the one that the kernels of this one know.
    cudaGraph_t other = make();
    const auto another = handle_of(other);
    first = add_kernel(other, nullptr, set_value, bench.device, another);
    params = conditional(another, cudaGraphCondTypeIf, 1);
    add_conditional(other, first, params);
    bench.verdict.expect(cudaGraphExecUpdate(exec, other, &info) != cudaSuccess, "an update by a graph of another shape");
    (void)cudaGetLastError();
    bench.verdict.expect(bench.run(exec, Numbers{60}).steps == 12, "a loop after a refused update");
    CHECK(cudaGraphDestroy(other));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

// What CUDA's documentation rules out.
static void refused(Bench &bench) {
    const auto fails = [&](cudaError_t got, const char *what) {
        bench.verdict.expect(got != cudaSuccess, what);
        (void)cudaGetLastError();
    };
    cudaGraph_t graph = make(), other = make(), made;
    cudaGraphNode_t node;
    cudaGraphExec_t exec, second;
    const auto handle = handle_of(graph);
    const auto refuse = [&](cudaGraphNodeParams params, const char *what) {
        fails(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &params), what);
    };
    cudaGraphConditionalHandle none;
    fails(cudaGraphConditionalHandleCreate(&none, graph, 0, 2), "an unknown flag of a handle");
    refuse(conditional(handle, cudaGraphCondTypeIf, 0), "an if without bodies");
    refuse(conditional(handle, cudaGraphCondTypeIf, 3), "an if with three bodies");
    refuse(conditional(handle, cudaGraphCondTypeWhile, 2), "a while with two bodies");
    refuse(conditional(handle, cudaGraphCondTypeSwitch, 0), "a switch without bodies");
    refuse(conditional(handle, cudaGraphConditionalNodeType(3), 1), "no kind of node");
    refuse(conditional(handle + 0x1000, cudaGraphCondTypeIf, 1), "a made-up handle");
    auto params = conditional(handle, cudaGraphCondTypeIf, 1);
    add_conditional(graph, nullptr, params);
    refuse(conditional(handle, cudaGraphCondTypeIf, 1), "a handle that decides already");
    fails(cudaGraphClone(&made, graph), "a copy of a graph that decides");
    fails(cudaGraphAddChildGraphNode(&node, other, nullptr, 0, graph), "a graph that decides as a child");
    fails(cudaGraphDestroy(params.conditional.phGraph_out[0]), "the end of a body alone");
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    fails(cudaGraphInstantiate(&second, graph, 0), "two instantiations at a time");
    CHECK(cudaGraphLaunch(exec, bench.stream));
    CHECK(cudaStreamSynchronize(bench.stream));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphDestroy(other));
}

int main() {
    Verdict verdict;
    Bench bench{verdict};
    CHECK(cudaMalloc(&bench.device, sizeof(Numbers)));
    CHECK(cudaStreamCreate(&bench.stream));
    if_and_else(bench);
    captured_while(bench);
    into_capture(bench);
    nested(bench);
    changed(bench);
    refused(bench);
    CHECK(cudaStreamDestroy(bench.stream));
    CHECK(cudaFree(bench.device));
    return verdict.finish();
}

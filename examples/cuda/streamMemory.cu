// Words of memory that streams write and wait for (cuStreamWriteValue, cuStreamWaitValue, cuStreamBatchMemOp), also in
// graphs. Covered are the work that a wait delays, every comparison, and errors. Releases come from another stream, a
// kernel and a copy.
// No argument. Checks that work behind a wait comes after its release, that other streams do not notice, and every value.
#include "check_driver.h"

__global__ void store(unsigned *word, unsigned value) { *word = value; }
__global__ void copy_word(unsigned *to, const unsigned *from) { *to = *from; }

struct Words {
    CUdeviceptr at;
    CUstream waiting, other;

    Words() {
        CHECK_DRIVER(cuMemAlloc(&at, 1024));
        CHECK_DRIVER(cuMemsetD8(at, 0, 1024));
        CHECK_DRIVER(cuCtxSynchronize());
        CHECK_DRIVER(cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
        CHECK_DRIVER(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    }
    ~Words() {
        CHECK_DRIVER(cuStreamDestroy(waiting));
        CHECK_DRIVER(cuStreamDestroy(other));
        CHECK_DRIVER(cuMemFree(at));
    }
    unsigned read(int index) {
        unsigned word = 0;
        CHECK_DRIVER(cuMemcpyDtoHAsync(&word, at + index * 4, 4, other));
        CHECK_DRIVER(cuStreamSynchronize(other));
        return word;
    }
    void write(int index, unsigned value) {
        CHECK_DRIVER(cuMemcpyHtoDAsync(at + index * 4, &value, 4, other));
        CHECK_DRIVER(cuStreamSynchronize(other));
    }
    bool holds() { return cuStreamQuery(waiting) == CUDA_ERROR_NOT_READY; }
};

// Work behind a wait happens after the other stream's write, and the other stream continues meanwhile.
static void a_wait_and_its_release(Verdict &verdict) {
    Words words;
    CHECK_DRIVER(cuStreamWaitValue32(words.waiting, words.at, 5, CU_STREAM_WAIT_VALUE_EQ));
    CHECK_DRIVER(cuStreamWriteValue32(words.waiting, words.at + 4, 77, CU_STREAM_WRITE_VALUE_DEFAULT));
    verdict.expect(words.holds(), "the stream waits");
    words.write(2, 123);
    verdict.expect(words.read(2) == 123, "another stream does not notice");
    verdict.expect(words.read(1) == 0, "what stands behind the wait has not happened");
    CHECK_DRIVER(cuStreamWriteValue32(words.other, words.at, 5, CU_STREAM_WRITE_VALUE_DEFAULT));
    CHECK_DRIVER(cuStreamSynchronize(words.waiting));
    verdict.expect(words.read(1) == 77, "it happens after the release");
}

// CUDA loads a kernel when it is launched first, and waits for all work then, so also for streams that wait for a word.
static void load_kernels() {
    Words words;
    auto word = [&](int index) { return reinterpret_cast<unsigned *>(words.at + index * 4); };
    store<<<1, 1>>>(word(0), 0);
    copy_word<<<1, 1>>>(word(1), word(0));
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}

static void kernels_and_copies_release(Verdict &verdict) {
    Words words;
    auto word = [&](int index) { return reinterpret_cast<unsigned *>(words.at + index * 4); };
    auto waiting = reinterpret_cast<cudaStream_t>(words.waiting), other = reinterpret_cast<cudaStream_t>(words.other);
    CHECK_DRIVER(cuStreamWaitValue32(words.waiting, words.at, 1, CU_STREAM_WAIT_VALUE_GEQ));
    copy_word<<<1, 1, 0, waiting>>>(word(9), word(8));
    CHECK(cudaGetLastError());
    store<<<1, 1, 0, other>>>(word(8), 31);
    store<<<1, 1, 0, other>>>(word(0), 2);
    CHECK(cudaGetLastError());
    CHECK_DRIVER(cuStreamSynchronize(words.waiting));
    verdict.expect(words.read(9) == 31, "a kernel's write releases a wait, after its earlier work");
    CHECK_DRIVER(cuStreamWaitValue32(words.waiting, words.at + 40, 8, CU_STREAM_WAIT_VALUE_AND));
    verdict.expect(words.holds(), "no bit in common");
    words.write(10, 12);
    CHECK_DRIVER(cuStreamSynchronize(words.waiting));
    verdict.expect(!words.holds(), "a copy's write releases a wait");
}

struct Comparison {
    unsigned flags;
    unsigned value, not_yet, enough;
};

static void every_comparison(Verdict &verdict) {
    Words words;
    const Comparison comparisons[] = {
        {CU_STREAM_WAIT_VALUE_GEQ, 10, 9, 10},          {CU_STREAM_WAIT_VALUE_GEQ, 0xfffffff0u, 0xffffff00u, 3},
        {CU_STREAM_WAIT_VALUE_EQ, 10, 11, 10},          {CU_STREAM_WAIT_VALUE_AND, 6, 9, 2},
        {CU_STREAM_WAIT_VALUE_NOR, 0xff, 0xffffff00u, 0x7fffff00u},
    };
    for (const Comparison &one : comparisons) {
        words.write(0, one.not_yet);
        CHECK_DRIVER(cuStreamWaitValue32(words.waiting, words.at, one.value, one.flags));
        verdict.expect(words.holds(), "a comparison that does not hold yet");
        words.write(0, one.enough);
        CHECK_DRIVER(cuStreamSynchronize(words.waiting));
    }
    // 64 bits: the low halves are equal in both.
    words.write(0, 5);
    CHECK_DRIVER(cuStreamWaitValue64(words.waiting, words.at, (7ull << 32) | 5, CU_STREAM_WAIT_VALUE_EQ));
    verdict.expect(words.holds(), "64 bits are compared");
    CHECK_DRIVER(cuStreamWriteValue64(words.other, words.at, (7ull << 32) | 5, CU_STREAM_WRITE_VALUE_DEFAULT));
    CHECK_DRIVER(cuStreamSynchronize(words.waiting));
    verdict.expect(words.read(0) == 5 && words.read(1) == 7, "64 bits are written");
}

// Two streams hand a turn to each other, without an event between them.
static void ping_pong(Verdict &verdict) {
    constexpr unsigned rounds = 50;
    Words words;
    auto word = [&](int index) { return reinterpret_cast<unsigned *>(words.at + index * 4); };
    for (unsigned round = 1; round <= rounds; ++round) {
        CHECK_DRIVER(cuStreamWaitValue32(words.waiting, words.at, round, CU_STREAM_WAIT_VALUE_GEQ));
        copy_word<<<1, 1, 0, reinterpret_cast<cudaStream_t>(words.waiting)>>>(word(20 + round), word(2));
        CHECK_DRIVER(cuStreamWriteValue32(words.waiting, words.at + 4, round, CU_STREAM_WRITE_VALUE_DEFAULT));
    }
    verdict.expect(words.holds(), "nobody has begun");
    for (unsigned round = 1; round <= rounds; ++round) {
        store<<<1, 1, 0, reinterpret_cast<cudaStream_t>(words.other)>>>(word(2), round * 3);
        CHECK_DRIVER(cuStreamWriteValue32(words.other, words.at, round, CU_STREAM_WRITE_VALUE_DEFAULT));
        CHECK_DRIVER(cuStreamWaitValue32(words.other, words.at + 4, round, CU_STREAM_WAIT_VALUE_GEQ));
    }
    CHECK(cudaGetLastError());
    CHECK_DRIVER(cuStreamSynchronize(words.waiting));
    bool right = true;
    for (unsigned round = 1; round <= rounds; ++round) right = right && words.read(20 + round) == round * 3;
    verdict.expect(right, "each round saw what the other stream wrote for it");
}

static void batches(Verdict &verdict) {
    Words words;
    CUstreamBatchMemOpParams batch[4] = {};
    batch[0].waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_32, words.at, {1}, CU_STREAM_WAIT_VALUE_EQ, 0};
    batch[1].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, words.at + 4, {6}, CU_STREAM_WRITE_VALUE_DEFAULT, 0};
    batch[2].memoryBarrier = {CU_STREAM_MEM_OP_BARRIER, CU_STREAM_MEMORY_BARRIER_TYPE_SYS};
    batch[3].operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    batch[3].writeValue.address = words.at + 8;
    batch[3].writeValue.value64 = 1ull << 40;
    CHECK_DRIVER(cuStreamBatchMemOp(words.waiting, 4, batch, 0));
    verdict.expect(words.holds() && words.read(1) == 0, "a batch is done in its order");
    CHECK_DRIVER(cuStreamWriteValue32(words.other, words.at, 1, 0));
    CHECK_DRIVER(cuStreamSynchronize(words.waiting));
    verdict.expect(words.read(1) == 6 && words.read(3) == 256, "and whole");
    batch[1].operation = static_cast<CUstreamBatchMemOpType>(9);
    verdict.expect(cuStreamBatchMemOp(words.waiting, 4, batch, 0) == CUDA_ERROR_INVALID_VALUE, "an unknown operation");
    verdict.expect(cuStreamQuery(words.waiting) == CUDA_SUCCESS, "nothing of a refused batch was queued");
}

static CUstreamBatchMemOpParams operation(CUstreamBatchMemOpType what, CUdeviceptr at, unsigned value, unsigned flags) {
    CUstreamBatchMemOpParams one = {};
    one.operation = what;
    one.waitValue.address = at;
    one.waitValue.value = value;
    one.waitValue.flags = flags;
    return one;
}

// Each captured batch is a node; a wait of the graph holds up the stream it is launched on.
static void captured(Verdict &verdict) {
    Words words;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode nodes[3];
    size_t count = 3;
    CHECK_DRIVER(cuStreamBeginCapture(words.waiting, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK_DRIVER(cuStreamWaitValue32(words.waiting, words.at, 4, CU_STREAM_WAIT_VALUE_EQ));
    verdict.expect(cuStreamWriteValue32(words.waiting, words.at + 2, 1, 0) == CUDA_ERROR_INVALID_VALUE,
                   "a refused operation in a capture");
    CHECK_DRIVER(cuStreamWriteValue32(words.waiting, words.at + 4, 5, CU_STREAM_WRITE_VALUE_DEFAULT));
    CUstreamBatchMemOpParams two[] = {operation(CU_STREAM_MEM_OP_WAIT_VALUE_32, words.at + 4, 5, 0),
                                      operation(CU_STREAM_MEM_OP_WRITE_VALUE_32, words.at + 8, 6, 0)};
    CHECK_DRIVER(cuStreamBatchMemOp(words.waiting, 2, two, 0));
    CHECK_DRIVER(cuStreamEndCapture(words.waiting, &graph));
    CHECK_DRIVER(cuGraphGetNodes(graph, nodes, &count));
    CUDA_BATCH_MEM_OP_NODE_PARAMS params = {};
    CHECK_DRIVER(cuGraphBatchMemOpNodeGetParams(nodes[2], &params));
    verdict.expect(count == 3 && params.count == 2 && params.paramArray[1].writeValue.value == 6,
                   "each captured batch is a node");
    CHECK_DRIVER(cuGraphInstantiate(&exec, graph, 0));
    CHECK_DRIVER(cuGraphLaunch(exec, words.waiting));
    verdict.expect(words.holds() && words.read(1) == 0, "the stream waits in the graph");
    words.write(0, 4);
    CHECK_DRIVER(cuStreamSynchronize(words.waiting));
    verdict.expect(words.read(1) == 5 && words.read(2) == 6, "and does the rest after the release");
    CHECK_DRIVER(cuGraphExecDestroy(exec));
    CHECK_DRIVER(cuGraphDestroy(graph));
}

// A node made by hand beside a kernel; other words and values take the place of its own, other operations do not.
static void nodes(Verdict &verdict) {
    Words words;
    CUcontext context;
    CUgraph graph, other;
    CUgraphExec exec;
    CUgraphNode node;
    CHECK_DRIVER(cuCtxGetCurrent(&context));
    CHECK_DRIVER(cuGraphCreate(&graph, 0));
    CUstreamBatchMemOpParams own[] = {operation(CU_STREAM_MEM_OP_WRITE_VALUE_32, words.at, 11, 0),
                                      operation(CU_STREAM_MEM_OP_WAIT_VALUE_32, words.at, 11, CU_STREAM_WAIT_VALUE_EQ)};
    CUDA_BATCH_MEM_OP_NODE_PARAMS params = {};
    params.ctx = context;
    params.count = 2;
    params.paramArray = own;
    CHECK_DRIVER(cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &params));
    CUgraphNodeType kind;
    CHECK_DRIVER(cuGraphNodeGetType(node, &kind));
    verdict.expect(kind == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, "operations on words are a kind of node");
    CHECK_DRIVER(cuGraphInstantiate(&exec, graph, 0));
    CHECK_DRIVER(cuGraphLaunch(exec, words.other));
    verdict.expect(words.read(0) == 11, "a node writes");

    own[0] = operation(CU_STREAM_MEM_OP_WRITE_VALUE_32, words.at + 4, 12, 0);
    own[1] = operation(CU_STREAM_MEM_OP_WAIT_VALUE_32, words.at + 4, 12, CU_STREAM_WAIT_VALUE_GEQ);
    CHECK_DRIVER(cuGraphExecBatchMemOpNodeSetParams(exec, node, &params));
    CHECK_DRIVER(cuGraphLaunch(exec, words.other));
    verdict.expect(words.read(1) == 12, "another word and value");
    auto refused = [&] { return cuGraphExecBatchMemOpNodeSetParams(exec, node, &params) == CUDA_ERROR_INVALID_VALUE; };
    params.count = 1;
    verdict.expect(refused(), "fewer operations");
    params.count = 2;
    own[0].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    verdict.expect(refused(), "a wait instead of a write");

    // As a whole, by a copy of the graph.
    CHECK_DRIVER(cuGraphClone(&other, graph));
    size_t one = 1;
    CHECK_DRIVER(cuGraphGetNodes(other, &node, &one));
    own[0] = operation(CU_STREAM_MEM_OP_WRITE_VALUE_32, words.at + 8, 13, 0);
    own[1] = operation(CU_STREAM_MEM_OP_WAIT_VALUE_32, words.at + 8, 13, 0);
    CHECK_DRIVER(cuGraphBatchMemOpNodeSetParams(node, &params));
    CUgraphExecUpdateResultInfo info;
    CHECK_DRIVER(cuGraphExecUpdate(exec, other, &info));
    CHECK_DRIVER(cuGraphLaunch(exec, words.other));
    verdict.expect(words.read(2) == 13, "an update by another graph");
    params.count = 1;
    CHECK_DRIVER(cuGraphBatchMemOpNodeSetParams(node, &params));
    verdict.expect(cuGraphExecUpdate(exec, other, &info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE &&
                       info.result == CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED,
                   "an update with fewer operations");
    params.ctx = nullptr;
    verdict.expect(cuGraphBatchMemOpNodeSetParams(node, &params) == CUDA_ERROR_INVALID_VALUE, "no context");
    CHECK_DRIVER(cuGraphExecDestroy(exec));
    CHECK_DRIVER(cuGraphDestroy(other));
    CHECK_DRIVER(cuGraphDestroy(graph));
}

static void errors(Verdict &verdict) {
    Words words;
    unsigned local = 0;
    auto refused = [&](CUresult result) { return result == CUDA_ERROR_INVALID_VALUE; };
    verdict.expect(refused(cuStreamWriteValue32(words.other, words.at + 2, 1, 0)), "not aligned");
    verdict.expect(refused(cuStreamWriteValue64(words.other, words.at + 4, 1, 0)), "not aligned to 8 bytes");
    verdict.expect(refused(cuStreamWaitValue32(words.other, words.at, 1, 4)), "unknown comparison");
    verdict.expect(refused(cuStreamWriteValue32(words.other, words.at, 1, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)),
                   "a flag of the first version");
    verdict.expect(refused(cuStreamWriteValue32(words.other, words.at, 1, 2)), "unknown flag");
    verdict.expect(refused(cuStreamWriteValue32(words.other, reinterpret_cast<CUdeviceptr>(&local), 1, 0)),
                   "memory of no device");
    CUstreamBatchMemOpParams one = {};
    verdict.expect(refused(cuStreamBatchMemOp(words.other, 256, &one, 0)), "too many operations");
    verdict.expect(cuStreamBatchMemOp(words.other, 0, &one, 0) == CUDA_SUCCESS, "none at all is done at once");
    int wide = 0, nor = 0;
    CHECK_DRIVER(cuDeviceGetAttribute(&wide, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 0));
    CHECK_DRIVER(cuDeviceGetAttribute(&nor, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 0));
    verdict.expect(wide == 1 && nor == 1, "the device says that it can");
}

int main() {
    CHECK(cudaFree(nullptr));
    Verdict verdict;
    load_kernels();
    a_wait_and_its_release(verdict);
    kernels_and_copies_release(verdict);
    every_comparison(verdict);
    ping_pong(verdict);
    batches(verdict);
    captured(verdict);
    nodes(verdict);
    errors(verdict);
    return verdict.finish();
}

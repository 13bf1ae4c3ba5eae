// One of several programs on a GPU: it launches kernels of a fixed amount of work until the end of stdin. A line on stdin has it
// print what it did since the line before: kernels, seconds, and what it saw of its own calls. At the end it checks its sum.
// MODE comes in: `single`, `graph` (ten kernels each) or `answer` (one kernel, then its result is read, then a pause); further
// the BLOCKS and the ITERATIONS of a kernel, the KERNELS between two synchronizations, and the microseconds of the pause.
#include <poll.h>
#include <unistd.h>

#include <thread>

#include "timing.h"

constexpr int kThreads = 256, kNodes = 10;

__global__ void work(unsigned *sums, int iterations) {
    unsigned sum = sums[threadIdx.x + blockIdx.x * blockDim.x];
    const unsigned before = sum;
    // Each step needs the one before, so that a kernel's time is its iterations. Marsaglia's xorshift never leads to 0.
    unsigned state = before * 2 + 1;
    for (int step = 0; step < iterations; ++step) {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
    }
    sums[threadIdx.x + blockIdx.x * blockDim.x] = before + (state != 0 ? 1 : 2);
}

// Has another line come? -1: no more will.
static int asked() {
    pollfd input = {0, POLLIN, 0};
    char letter = 0;
    if (poll(&input, 1, 0) != 1) return 0;
    return read(0, &letter, 1) == 1 ? letter == '\n' : -1;
}

struct Said {
    unsigned long long kernels = 0;
    Clock::time_point begin = Clock::now();
    double posting = 0;
    std::vector<double> answers;

    void print() {
        std::sort(answers.begin(), answers.end());
        const auto at = [&](double part) { return answers.empty() ? 0 : answers[size_t(part * (answers.size() - 1))]; };
        std::printf("{\"kernels\":%llu,\"seconds\":%.6f,\"posting_ns\":%.1f,\"p50_ms\":%.4f,\"p99_ms\":%.4f,\"longest_ms\":%.4f}\n",
                    kernels, seconds_since(begin), kernels == 0 ? 0 : posting * 1e9 / kernels, at(0.5) * 1e3, at(0.99) * 1e3,
                    at(1) * 1e3);
        std::fflush(stdout);
    }
};

int main(int argc, char **argv) {
    section = "tenant";
    if (argc < 6) {
        std::fprintf(stderr, "usage: %s single|graph|answer BLOCKS ITERATIONS KERNELS PAUSE_US\n", argv[0]);
        return 2;
    }
    const bool by_graph = std::strcmp(argv[1], "graph") == 0, answers = std::strcmp(argv[1], "answer") == 0;
    const int blocks = std::atoi(argv[2]), iterations = std::atoi(argv[3]), each = std::atoi(argv[4]), pause = std::atoi(argv[5]);
    cudaStream_t stream;
    cudaGraphExec_t ten = nullptr;
    unsigned *sums = nullptr, *answer = nullptr;
    const size_t count = static_cast<size_t>(blocks) * kThreads;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&sums, count * sizeof *sums));
    CHECK(cudaMemset(sums, 0, count * sizeof *sums));
    CHECK(cudaMallocHost(&answer, sizeof *answer));
    CHECK(cudaDeviceSynchronize());
    if (by_graph) {
        cudaGraph_t graph;
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        for (int node = 0; node < kNodes; ++node) work<<<blocks, kThreads, 0, stream>>>(sums, iterations);
        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphInstantiate(&ten, graph, 0));
    }
    std::printf("ready\n");
    std::fflush(stdout);
    unsigned long long all = 0;
    Said said;
    for (int word; (word = asked()) >= 0;) {
        if (word == 1) {
            said.print();
            said = Said();
        }
        const auto start = Clock::now();
        for (int kernel = 0; kernel < each; kernel += by_graph ? kNodes : 1) {
            if (by_graph) CHECK(cudaGraphLaunch(ten, stream));
            else work<<<blocks, kThreads, 0, stream>>>(sums, iterations);
        }
        said.posting += seconds_since(start);
        if (answers) CHECK(cudaMemcpyAsync(answer, sums, sizeof *answer, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        if (answers) said.answers.push_back(seconds_since(start));
        const int kernels = by_graph ? (each + kNodes - 1) / kNodes * kNodes : each;
        all += kernels;
        said.kernels += kernels;
        if (pause > 0) std::this_thread::sleep_for(std::chrono::microseconds(pause));
    }
    std::vector<unsigned> found(count);
    CHECK(cudaMemcpy(found.data(), sums, count * sizeof *sums, cudaMemcpyDeviceToHost));
    for (const unsigned sum : found) {
        if (sum != static_cast<unsigned>(all)) fail("tenant", "a sum is wrong");
    }
    std::printf("right %llu\n", all);
    return 0;
}

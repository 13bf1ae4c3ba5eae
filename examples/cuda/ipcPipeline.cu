// A pipeline of processes: each stage reads what the stage before it wrote, where that wrote it, in two slots. Events of
// cudaIpcGetEventHandle keep the order on the GPUs: no process waits on the host before the end.
// Arguments: rounds (12), values per slot (20000). Every stage checks what it has read.
#include "check.h"
#include "processes.h"

constexpr int slots = 2;
constexpr int stages = 3;

// What a stage gives its neighbours.
struct Invitation {
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t events[slots];
};

// Word for word: x becomes 3x + the stage's number. A loop makes it last, so that what comes too early shows.
__global__ void work(int *out, const int *in, size_t count, int stage, int round) {
    const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    if (i >= count) return;
    int delay = 0;
    for (int turn = 0; turn < 50; ++turn) delay += (turn ^ static_cast<int>(i)) & 1;
    const int x = in == nullptr ? static_cast<int>(i) + round : in[i];
    out[i] = 3 * x + stage + (delay > 1000 ? 1 : 0);
}

// Adds up what a slot holds, so that each round leaves something to check.
__global__ void collect(unsigned long long *sums, const int *in, size_t count, int round) {
    unsigned long long sum = 0;
    for (size_t i = 0; i < count; ++i) sum += static_cast<unsigned>(in[i]) * (i % 7 + 1);
    sums[round] = sum;
}

static unsigned long long sum_after(int stage, size_t count, int round) {
    unsigned long long sum = 0;
    for (size_t i = 0; i < count; ++i) {
        int x = static_cast<int>(i) + round;
        for (int at = 0; at <= stage; ++at) x = 3 * x + at;
        sum += static_cast<unsigned>(x) * (i % 7 + 1);
    }
    return sum;
}

struct Neighbour {
    int *memory = nullptr;
    cudaEvent_t events[slots];

    void open(const Processes &all, int rank, bool with_memory) {
        const Invitation it = all.receive<Invitation>(rank);
        void *opened = nullptr;
        if (with_memory)
            CHECK(all.of_other(rank, cudaIpcOpenMemHandle(&opened, it.memory, cudaIpcMemLazyEnablePeerAccess)));
        memory = static_cast<int *>(opened);
        for (int slot = 0; slot < slots; ++slot)
            CHECK(all.of_other(rank, cudaIpcOpenEventHandle(&events[slot], it.events[slot])));
    }

    void close() {
        for (cudaEvent_t event : events) CHECK(cudaEventDestroy(event));
        if (memory != nullptr) CHECK(cudaIpcCloseMemHandle(memory));
    }
};

static int stage(Processes &all, int rounds, size_t count) {
    const int before = all.rank - 1, after = all.rank + 1;
    const bool is_first = before < 0, is_last = after == all.count;
    int devices = 0;
    CHECK(cudaGetDeviceCount(&devices));
    CHECK(cudaSetDevice(all.rank % devices));
    int *mine = device_alloc<int>(slots * count);
    unsigned long long *sums = device_alloc<unsigned long long>(static_cast<size_t>(rounds));
    // Written: what this stage has made is there. Read: what the stage before it made may be overwritten.
    cudaEvent_t written[slots], read[slots];
    Invitation forward = {}, backward = {};
    for (int slot = 0; slot < slots; ++slot) {
        const unsigned flags = cudaEventDisableTiming | cudaEventInterprocess;
        CHECK(cudaEventCreateWithFlags(&written[slot], flags));
        CHECK(cudaEventCreateWithFlags(&read[slot], flags));
        CHECK(cudaIpcGetEventHandle(&forward.events[slot], written[slot]));
        CHECK(cudaIpcGetEventHandle(&backward.events[slot], read[slot]));
    }
    CHECK(cudaIpcGetMemHandle(&forward.memory, mine));
    all.step();

    Neighbour source, sink;
    if (!is_last) all.send(after, forward);
    if (!is_first) all.send(before, backward);
    if (!is_first) source.open(all, before, true);
    if (!is_last) sink.open(all, after, false);
    all.step();

    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int round = 0; round < rounds; ++round) {
        const int slot = round % slots;
        const size_t at = static_cast<size_t>(slot) * count;
        // The neighbour says that it has recorded; whether the GPU got there, the stream finds out.
        if (!is_first) {
            all.receive<char>(before);
            CHECK(all.of_other(before, cudaStreamWaitEvent(stream, source.events[slot], 0)));
        }
        if (!is_last && round >= slots) {
            all.receive<char>(after);
            CHECK(all.of_other(after, cudaStreamWaitEvent(stream, sink.events[slot], 0)));
        }
        const int *in = is_first ? nullptr : source.memory + at;
        work<<<blocks_for(count, 256), 256, 0, stream>>>(mine + at, in, count, all.rank, round);
        CHECK_LAUNCH();
        if (!is_first) {
            CHECK(cudaEventRecord(read[slot], stream));
            all.send(before, 'r');
        }
        if (!is_last) {
            CHECK(cudaEventRecord(written[slot], stream));
            all.send(after, 'w');
        }
        collect<<<1, 1, 0, stream>>>(sums, mine + at, count, round);
        CHECK_LAUNCH();
        all.step();
    }
    // What the neighbour says of the last slots, which nobody fills again.
    for (int round = 0; !is_last && round < slots && round < rounds; ++round) all.receive<char>(after);
    CHECK(cudaStreamSynchronize(stream));

    Verdict verdict;
    const std::vector<unsigned long long> got = host_copy(sums, static_cast<size_t>(rounds));
    std::vector<unsigned long long> want;
    for (int round = 0; round < rounds; ++round) want.push_back(sum_after(all.rank, count, round));
    verdict.equal("sums", got.data(), want.data(), want.size());
    for (int slot = 0; slot < slots && !is_last; ++slot) {
        CHECK(all.of_other(after, cudaEventSynchronize(sink.events[slot])));
        verdict.expect(all.of_other(after, cudaEventQuery(sink.events[slot])) == cudaSuccess, "a neighbour's event is complete");
    }
    all.meet();
    if (!is_first) source.close();
    if (!is_last) sink.close();
    all.step();
    all.meet();
    for (int slot = 0; slot < slots; ++slot) {
        CHECK(cudaEventDestroy(written[slot]));
        CHECK(cudaEventDestroy(read[slot]));
    }
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(mine));
    CHECK(cudaFree(sums));
    all.step();
    return verdict.failures == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    const int rounds = static_cast<int>(size_argument(argc, argv, 1, 12));
    const size_t count = size_argument(argc, argv, 2, 20000);
    return run_processes(stages, [&](Processes &all) { return stage(all, rounds, count); });
}

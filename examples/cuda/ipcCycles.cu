// Memory and events handed from process to process, over and over: what one cycle makes, the cycle ends, so that a program may
// have more of them in its life than at once. Every cycle is new memory, a new handle and a new event.
// Argument: cycles (40). Both processes check every cycle.
#include "check.h"
#include "processes.h"

constexpr size_t count = 300;

struct Passed {
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t event;
};

static void begin(int rank) {
    int devices = 0;
    CHECK(cudaGetDeviceCount(&devices));
    CHECK(cudaSetDevice(rank % devices));
}

static int owner(Processes &all, int cycles) {
    Verdict verdict;
    begin(0);
    int wrong = 0;
    for (int cycle = 0; cycle < cycles; ++cycle) {
        // Some have a block of their own, some share one.
        const size_t values = cycle % 16 == 0 ? (5 << 20) / sizeof(int) : count;
        int *memory = device_alloc<int>(values);
        CHECK(cudaMemset(memory, cycle & 0x3f, count * sizeof(int)));
        CHECK(cudaDeviceSynchronize());
        cudaEvent_t event;
        CHECK(cudaEventCreateWithFlags(
            &event, cudaEventDisableTiming | cudaEventInterprocess | cudaEventBlockingSync));
        Passed passed;
        CHECK(cudaIpcGetMemHandle(&passed.memory, memory));
        CHECK(cudaIpcGetEventHandle(&passed.event, event));
        all.send(1, passed);
        all.receive<char>(1);
        // The other has recorded the event behind its writes, and has closed both.
        CHECK(cudaEventSynchronize(event));
        const std::vector<int> got = host_copy(memory, count);
        for (int value : got) wrong += value != cycle + 1;
        CHECK(cudaEventDestroy(event));
        CHECK(cudaFree(memory));
    }
    verdict.expect(wrong == 0, "every cycle's writes are there");
    return verdict.failures == 0 ? 0 : 1;
}

__global__ void fill(int *out, int value, int expected, int *wrong) {
    const size_t i = threadIdx.x;
    if (out[i] != expected * 0x01010101) atomicAdd(wrong, 1);
    out[i] = value;
}

static int opener(Processes &all, int cycles) {
    Verdict verdict;
    begin(1);
    int *wrong = device_alloc<int>(1);
    CHECK(cudaMemset(wrong, 0, sizeof(int)));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    for (int cycle = 0; cycle < cycles; ++cycle) {
        const Passed passed = all.receive<Passed>(0);
        void *memory = nullptr;
        cudaEvent_t event;
        CHECK(cudaIpcOpenMemHandle(&memory, passed.memory, cudaIpcMemLazyEnablePeerAccess));
        CHECK(cudaIpcOpenEventHandle(&event, passed.event));
        fill<<<1, count, 0, stream>>>(static_cast<int *>(memory), cycle + 1, cycle & 0x3f, wrong);
        CHECK_LAUNCH();
        CHECK(cudaEventRecord(event, stream));
        CHECK(cudaEventDestroy(event));
        CHECK(cudaIpcCloseMemHandle(memory));
        all.send(0, 'd');
    }
    verdict.expect(host_copy(wrong, 1)[0] == 0, "every cycle's memory was what the owner wrote");
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(wrong));
    return verdict.failures == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    const int cycles = static_cast<int>(size_argument(argc, argv, 1, 40));
    return run_processes(2, [&](Processes &all) { return all.rank == 0 ? owner(all, cycles) : opener(all, cycles); });
}

// Memory that the program registers: files in memory that two processes map, heap, and the stack. Asynchronous copies go
// from and to it; kernels use it in place where the device can.
// `files`, `private`, `pages`, or no argument for all. `shrinks FILE`: registers that file, waits until it is gone, and copies from
// the pages that it had. Checks every byte.
#include "check.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

constexpr size_t words = size_t{1} << 20, bytes = words * sizeof(uint32_t);

__global__ void add_one(uint32_t *to, const uint32_t *from, size_t count) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) {
        to[i] = from[i] + 1;
    }
}

static uint32_t pattern(size_t index) { return static_cast<uint32_t>(index * 2654435761u >> 7); }

static bool maps() {
    int maps = 0;
    CHECK(cudaDeviceGetAttribute(&maps, cudaDevAttrCanMapHostMemory, 0));
    return maps != 0;
}

static uint32_t *map_file(int file) {
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<uint32_t *>(memory);
}

// The device reads and writes `memory`, whose words are their patterns; they are one more afterwards.
static bool add_one_by_device(uint32_t *memory, size_t count) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    uint32_t *device = nullptr;
    CHECK(cudaMalloc(&device, count * sizeof(uint32_t)));
    CHECK(cudaMemcpyAsync(device, memory, count * sizeof(uint32_t), cudaMemcpyHostToDevice, stream));
    add_one<<<64, 256, 0, stream>>>(device, device, count);
    CHECK_LAUNCH();
    CHECK(cudaMemcpyAsync(memory, device, count * sizeof(uint32_t), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    bool right = true;
    for (size_t i = 0; i < count; ++i) right = right && memory[i] == pattern(i) + 1;
    if (maps()) {
        void *in_place = nullptr;
        CHECK(cudaHostGetDevicePointer(&in_place, memory, 0));
        auto *words_in_place = static_cast<uint32_t *>(in_place);
        add_one<<<64, 256, 0, stream>>>(words_in_place, words_in_place, count);
        CHECK_LAUNCH();
        CHECK(cudaStreamSynchronize(stream));
        for (size_t i = 0; i < count; ++i) right = right && memory[i] == pattern(i) + 2;
    }
    for (size_t i = 0; i < count; ++i) memory[i] = pattern(i) + 1;
    CHECK(cudaFree(device));
    CHECK(cudaStreamDestroy(stream));
    return right;
}

// Two processes map one file; each has the device add one to it in its turn.
static int second_process(int file) {
    uint32_t *memory = map_file(file);
    if (memory == nullptr) return 2;
    CHECK(cudaHostRegister(memory, bytes, cudaHostRegisterPortable | (maps() ? cudaHostRegisterMapped : 0)));
    for (size_t i = 0; i < words; ++i) {
        if (memory[i] != pattern(i) + 1) return 3;
        memory[i] = pattern(i);
    }
    const bool right = add_one_by_device(memory, words);
    CHECK(cudaHostUnregister(memory));
    memory[0] = 4242;
    return right ? 0 : 4;
}

static void files(Verdict &verdict, const char *self, bool named) {
    char name[] = "/dev/shm/floe-registered-XXXXXX";
    const int file = named ? mkstemp(name) : memfd_create("registered", 0);
    CHECK(cudaFree(nullptr));
    if (file < 0 || ftruncate(file, bytes) != 0) {
        verdict.expect(false, "a file in memory");
        return;
    }
    uint32_t *memory = map_file(file);
    for (size_t i = 0; i < words; ++i) memory[i] = pattern(i);
    CHECK(cudaHostRegister(memory, bytes, cudaHostRegisterPortable | (maps() ? cudaHostRegisterMapped : 0)));
    verdict.expect(add_one_by_device(memory, words), named ? "a file of /dev/shm" : "a file without a name");
    const std::string number = std::to_string(file);
    const pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", self, "second", number.c_str(), nullptr);
        _exit(99);
    }
    int status = 0;
    const bool ended = waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    verdict.expect(ended && memory[0] == 4242, "another process registers and changes the same pages");
    bool right = true;
    for (size_t i = 1; i < words; ++i) right = right && memory[i] == pattern(i) + 1;
    verdict.expect(right, "what another process's device has written is here");
    // The name, and then the descriptor, are gone: the memory stays registered.
    if (named) unlink(name);
    close(file);
    for (size_t i = 0; i < words; ++i) memory[i] = pattern(i);
    verdict.expect(add_one_by_device(memory, words), "a file that nobody can open any more");
    CHECK(cudaHostUnregister(memory));
    verdict.expect(cudaHostUnregister(memory) == cudaErrorHostMemoryNotRegistered, "registered no more");
    (void)cudaGetLastError();
    munmap(memory, bytes);
}

// Few bytes amid others, wherever they lie.
static bool some_words(uint32_t *memory, size_t count) {
    for (size_t i = 0; i < count; ++i) memory[i] = pattern(i);
    CHECK(cudaHostRegister(memory, count * sizeof(uint32_t), maps() ? cudaHostRegisterMapped : cudaHostRegisterDefault));
    const bool right = add_one_by_device(memory, count);
    CHECK(cudaHostUnregister(memory));
    bool still = true;
    for (size_t i = 0; i < count; ++i) still = still && memory[i] == pattern(i) + 1;
    return right && still;
}

static void private_memory(Verdict &verdict) {
    std::vector<uint32_t> heap(100000, 7);
    verdict.expect(some_words(heap.data() + 3, heap.size() - 6), "heap");
    verdict.expect(heap[2] == 7 && heap[heap.size() - 3] == 7, "neighbours on the heap");
    volatile uint32_t before = 5;
    uint32_t variable[3] = {0, 0, 0};
    volatile uint32_t after = 6;
    verdict.expect(some_words(variable, 3), "the stack");
    verdict.expect(before == 5 && after == 6, "neighbours on the stack");
    static uint32_t global[5000];
    verdict.expect(some_words(global, 5000), "a variable of the program");
    // A child has memory of its own, whatever is registered.
    CHECK(cudaHostRegister(variable, sizeof(variable), cudaHostRegisterDefault));
    variable[1] = 1;
    const pid_t child = fork();
    if (child == 0) {
        variable[1] += 10;
        _exit(static_cast<int>(variable[1]));
    }
    int status = 0;
    waitpid(child, &status, 0);
    verdict.expect(WIFEXITED(status) && WEXITSTATUS(status) == 11 && variable[1] == 1, "a child's copy is its own");
    CHECK(cudaHostUnregister(variable));
}

// Whole pages of the process's own. Once kernels use them in place, so do copies where program and device share a machine.
static void whole_pages(Verdict &verdict) {
    auto *memory = static_cast<uint32_t *>(std::aligned_alloc(4096, bytes));
    CHECK(cudaFree(nullptr));
    for (int turn = 0; turn < 2; ++turn) {
        for (size_t i = 0; i < words; ++i) memory[i] = pattern(i);
        CHECK(cudaHostRegister(memory, bytes, maps() ? cudaHostRegisterMapped : cudaHostRegisterDefault));
        verdict.expect(add_one_by_device(memory, words), "whole pages");
        for (size_t i = 0; i < words; ++i) memory[i] = pattern(i);
        verdict.expect(add_one_by_device(memory, words), "whole pages that kernels have used");
        const pid_t child = fork();
        if (child == 0) {
            bool right = true;
            for (size_t i = 0; i < words; ++i) right = right && memory[i] == pattern(i) + 1;
            std::memset(memory, 0, bytes);
            _exit(right ? 11 : 12);
        }
        int status = 0;
        waitpid(child, &status, 0);
        verdict.expect(WIFEXITED(status) && WEXITSTATUS(status) == 11, "a child has the pages as they were");
        CHECK(cudaHostUnregister(memory));
        bool right = true;
        for (size_t i = 0; i < words; ++i) right = right && memory[i] == pattern(i) + 1;
        verdict.expect(right, "whole pages that are registered no more");
    }
    std::free(memory);
}

// Another process cuts the file while it is registered. A GPU keeps the pages; floe's CPU device loses its session, whose
// calls then fail. Only the order is checked: this process goes on.
static int shrinks(const char *name) {
    const int file = open(name, O_RDWR);
    uint32_t *memory = file < 0 ? nullptr : map_file(file);
    if (memory == nullptr) return 2;
    CHECK(cudaHostRegister(memory, bytes, cudaHostRegisterDefault));
    uint32_t *device = nullptr;
    CHECK(cudaMalloc(&device, bytes));
    if (ftruncate(file, 0) != 0) return 3;
    const cudaError_t copied = cudaMemcpy(device, memory, bytes, cudaMemcpyHostToDevice);
    std::printf("copied: %s\n", cudaGetErrorName(copied));
    std::printf("the program goes on\n");
    std::fflush(stdout);
    _exit(0);
}

int main(int argc, char **argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    if (what == "second" && argc > 2) return second_process(std::atoi(argv[2]));
    if (what == "shrinks" && argc > 2) return shrinks(argv[2]);
    Verdict verdict;
    const bool all = what.empty();
    if (all || what == "files") {
        files(verdict, argv[0], true);
        files(verdict, argv[0], false);
    }
    if (all || what == "private") private_memory(verdict);
    if (all || what == "pages") whole_pages(verdict);
    return verdict.finish();
}

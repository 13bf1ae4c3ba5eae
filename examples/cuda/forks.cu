// CUDA in a process that was forked from one that uses it. Every call in the child fails with CUDA's error for that,
// and the child ends in order. The parent continues undisturbed. A child forked off before CUDA is used has it for
// itself.
// No argument. Checks both processes.
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

__global__ void square(int *data, int count) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) data[i] *= data[i];
}

constexpr int count = 1000;

static bool squares_are_right() {
    std::vector<int> values(count), want(count);
    for (int i = 0; i < count; ++i) {
        values[static_cast<size_t>(i)] = i;
        want[static_cast<size_t>(i)] = i * i;
    }
    int *device = device_copy(values);
    square<<<blocks_for(count, 256), 256>>>(device, count);
    CHECK_LAUNCH();
    const bool right = host_copy(device, count) == want;
    CHECK(cudaFree(device));
    return right;
}

// Runs `body` in a forked child and gives its exit code, or -1 when a signal ended it.
template <typename Body>
static int in_child(const Body &body) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        const int code = body();
        std::fflush(stdout);
        _exit(code);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main() {
    Verdict verdict;
    verdict.expect(in_child([] { return squares_are_right() ? 17 : 1; }) == 17,
                   "a child forked off before CUDA is used has it for itself");

    int *device = device_copy(std::vector<int>(count, 3));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    square<<<blocks_for(count, 256), 256, 0, stream>>>(device, count);
    const int code = in_child([&] {
        int failures = 0;
        void *pointer = nullptr;
        int word = 0;
        failures += cudaMalloc(&pointer, 16) != cudaErrorInitializationError;
        failures += cudaMemcpy(&word, device, sizeof(word), cudaMemcpyDeviceToHost) != cudaErrorInitializationError;
        failures += cudaStreamSynchronize(stream) != cudaErrorInitializationError;
        failures += cudaDeviceSynchronize() != cudaErrorInitializationError;
        square<<<1, 1>>>(device, 1);
        failures += cudaGetLastError() == cudaSuccess;
        return 20 + failures;
    });
    verdict.expect(code == 20, "calls in a child of a process that uses CUDA say that CUDA is not initialised");
    if (code != 20) std::printf("the child's exit code: %d\n", code);
    CHECK(cudaStreamSynchronize(stream));
    const std::vector<int> want(count, 9);
    verdict.equal("the parent's work", host_copy(device, count).data(), want.data(), count);
    verdict.expect(squares_are_right(), "the parent goes on");
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(device));
    return verdict.finish();
}

// Prints from the device: every conversion, flag and size of CUDA's printf, and strings from literals and from memory.
// Also long argument lists, and several lines from each of many threads.
// No argument. The program checks the results of printf, and that the lines of one thread come in order (those of
// different threads may come in any). The test checks the text of the formats.
#include "check.h"

#include <unistd.h>

__device__ char stored_text[] = "text in device memory";

__global__ void formats(int *returned) {
    int n = 0;
    returned[n++] = printf("no arguments\n");
    returned[n++] = printf("integers: %d %i %u %x %X %o\n", -42, 7, 42u, 255u, 255u, 8u);
    returned[n++] = printf("wide: %ld %lld %lu %llu %llx\n", -1234567890123L, -9223372036854775807LL,
                           18446744073709551615UL, 1ULL << 63, 0xfeedfacecafebeefULL);
    returned[n++] = printf("narrow: %hd %hu %c%c\n", static_cast<short>(-3), static_cast<unsigned short>(65535),
                           'o', 'k');
    returned[n++] = printf("floats: %f %.3f %e %.2E %g %G\n", 1.5f, 3.14159, 12345.678, 0.00012, 1e-10, 1e20);
    returned[n++] = printf("special: %f %f %f %f\n", __int_as_float(0x7f800000), __int_as_float(0xff800000),
                           __int_as_float(0x7fffffff), -0.0);
    returned[n++] = printf("width: [%8d] [%-8d] [%08d] [%+d] [% d] [%#x]\n", 42, 42, 42, 42, 42, 42);
    returned[n++] = printf("precision: [%8.3f] [%-10.1f] [%.0f] [%.5d] [%*d]\n", 2.71828, 2.71828, 2.71828, 42, 6, 42);
    returned[n++] = printf("strings: %s [%10s] [%-10s] [%.4s] %%\n", "plain", "right", "left", "truncated");
    returned[n++] = printf("memory: %s\n", stored_text);
    returned[n++] = printf("pointer: %p\n", reinterpret_cast<void *>(0x1234abcdull));
    returned[n++] = printf("many: %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %g\n", 1, 2, 3, 4, 5, 6, 7, 8, 9,
                           10, 11, 12, 13, 14, 15, 16, 17.5);
    returned[n++] = printf("first half, ");
    returned[n++] = printf("second half\n");
}

constexpr unsigned blocks = 2, threads = 40, lines = 3;

__global__ void every_thread() {
    for (unsigned line = 0; line < lines; ++line)
        printf("block %u thread %u line %u\n", blockIdx.x, threadIdx.x, line);
    if (threadIdx.x % 16 == 3) printf("block %u thread %u alone\n", blockIdx.x, threadIdx.x);
}

// Sends what is printed until `restore` to a file instead.
struct Capture {
    FILE *file = std::tmpfile();
    int kept = dup(STDOUT_FILENO);

    Capture() {
        std::fflush(stdout);
        if (file == nullptr || kept < 0 || dup2(fileno(file), STDOUT_FILENO) < 0) {
            std::perror("cannot capture stdout");
            std::exit(2);
        }
    }

    void restore() {
        std::fflush(stdout);
        dup2(kept, STDOUT_FILENO);
        close(kept);
        std::rewind(file);
    }
};

// Every thread's lines must be there, in its order, and nothing else.
static void check_every_thread(Verdict &verdict) {
    Capture capture;
    every_thread<<<blocks, threads>>>();
    const cudaError_t launched = cudaGetLastError();
    const cudaError_t ran = cudaDeviceSynchronize();
    capture.restore();
    CHECK(launched);
    CHECK(ran);
    unsigned next[blocks][threads] = {}, strange = 0, alone = 0, total = 0;
    char text[128];
    while (std::fgets(text, sizeof(text), capture.file) != nullptr) {
        unsigned block = 0, thread = 0, line = 0;
        char end = 0;
        ++total;
        if (std::sscanf(text, "block %u thread %u line %u%c", &block, &thread, &line, &end) == 4 && end == '\n' &&
            block < blocks && thread < threads && line == next[block][thread]) {
            ++next[block][thread];
        } else if (std::sscanf(text, "block %u thread %u alon%c", &block, &thread, &end) == 3 && end == 'e' &&
                   block < blocks && thread < threads && thread % 16 == 3 && next[block][thread] == lines) {
            ++alone;
        } else {
            ++strange;
        }
    }
    std::fclose(capture.file);
    bool complete = true;
    for (const auto &block : next)
        for (const unsigned count : block) complete &= count == lines;
    std::printf("lines of %u threads: %u\n", blocks * threads, total);
    verdict.expect(complete, "every line of every thread, in order");
    verdict.expect(alone == blocks * 3, "the lines of single threads");
    verdict.expect(strange == 0, "no line but those");
}

int main() {
    constexpr int calls = 14;
    const int want[calls] = {0, 6, 5, 4, 6, 4, 6, 6, 4, 1, 1, 17, 0, 0};
    CHECK(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 2 << 20));
    size_t buffer = 0;
    CHECK(cudaDeviceGetLimit(&buffer, cudaLimitPrintfFifoSize));
    Verdict verdict;
    verdict.expect(buffer >= 2 << 20, "the limit of the print buffer is what was set");

    int *returned = device_alloc<int>(calls);
    formats<<<1, 1>>>(returned);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    verdict.equal("returned counts", host_copy(returned, calls).data(), want, calls);
    CHECK(cudaFree(returned));
    check_every_thread(verdict);
    return verdict.finish();
}

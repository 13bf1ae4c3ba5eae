/* A program that keeps its GPU busy until its standard input ends: launches of one kernel, by themselves or in a graph, whose
 * results it checks. It prints how many kernels ran. It needs no CUDA header.
 *   busy ITERATIONS [single|graph|paused|deep]
 * deep: graphs, of which the next are submitted before the last ones are waited for, so that it never runs out of work. */
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"

enum { THREADS = 64, NODES = 10, AHEAD = 16 };

static const char TEXT[] =
    ".version 7.0\n.target sm_52\n.address_size 64\n"
    ".visible .entry count(.param .u64 at, .param .u32 times)\n{\n"
    ".reg .u64 %rd<4>; .reg .u32 %r<6>; .reg .pred %p;\n"
    "ld.param.u64 %rd1, [at]; ld.param.u32 %r1, [times]; mov.u32 %r2, %tid.x;\n"
    "mul.wide.u32 %rd2, %r2, 4; add.u64 %rd3, %rd1, %rd2; ld.global.u32 %r3, [%rd3];\n"
    "again: add.u32 %r3, %r3, 1; sub.u32 %r1, %r1, 1; setp.ne.u32 %p, %r1, 0; @%p bra again;\n"
    "st.global.u32 [%rd3], %r3; ret;\n}\n";


static int is_over(void) {
    struct pollfd input = { .fd = 0, .events = POLLIN };
    char byte;
    return poll(&input, 1, 0) == 1 && read(0, &byte, 1) <= 0;
}

int main(int count, char **arguments) {
    uint32_t times = count > 1 ? (uint32_t)atoi(arguments[1]) : 1000;
    const char *mode = count > 2 ? arguments[2] : "single";
    int paused = !strcmp(mode, "paused"), deep = !strcmp(mode, "deep"), by_graph = deep || !strcmp(mode, "graph");
    void *context, *module, *function, *stream, *graph, *exec = NULL, *done[2];
    uint64_t at;
    use_first_device(&context);
    DO(CUDA("cuModuleLoadData", &module, TEXT));
    DO(CUDA("cuModuleGetFunction", &function, module, "count"));
    DO(CUDA("cuStreamCreate", &stream, 1));
    DO(CUDA("cuMemAlloc_v2", &at, (size_t)THREADS * 4));
    DO(CUDA("cuMemsetD32_v2", at, 0, (size_t)THREADS));
    DO(CUDA("cuCtxSynchronize"));
    void *parameters[] = { &at, &times };
    if (by_graph) {
        DO(CUDA("cuStreamBeginCapture_v2", stream, 0));
        for (int i = 0; i < NODES; i++) DO(CUDA("cuLaunchKernel", function, 1, 1, 1, THREADS, 1, 1, 0, stream, parameters, NULL));
        DO(CUDA("cuStreamEndCapture", stream, &graph));
        DO(CUDA("cuGraphInstantiateWithFlags", &exec, graph, 0ull));
    }
    for (int i = 0; i < 2; i++) DO(CUDA("cuEventCreate", &done[i], 0));
    puts("ready");
    fflush(stdout);
    uint32_t kernels = 0;
    for (int batch = 0; !is_over(); batch++) {
        for (int i = 0; i < AHEAD; i++) {
            if (by_graph) { DO(CUDA("cuGraphLaunch", exec, stream)); kernels += NODES; }
            else { DO(CUDA("cuLaunchKernel", function, 1, 1, 1, THREADS, 1, 1, 0, stream, parameters, NULL)); kernels++; }
        }
        DO(CUDA("cuEventRecord", done[batch % 2], stream));
        if (deep) DO(CUDA("cuEventSynchronize", done[(batch + 1) % 2]));
        else DO(CUDA("cuStreamSynchronize", stream));
        if (paused) usleep(20000);
    }
    DO(CUDA("cuStreamSynchronize", stream));
    uint32_t sums[THREADS];
    DO(CUDA("cuMemcpyDtoH_v2", sums, at, sizeof sums));
    for (int i = 0; i < THREADS; i++)
        if (sums[i] != kernels * times) { printf("thread %d counted %u, and not %u\n", i, sums[i], kernels * times); return 1; }
    printf("%u kernels\n", kernels);
    return 0;
}

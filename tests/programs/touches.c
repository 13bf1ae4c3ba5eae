/* Threads of a program that touch managed memory of their own while others launch kernels for theirs. It checks every number. It
 * needs no CUDA header.
 *   touches ROUNDS */
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "driver.h"

enum { THREADS = 4, COUNT = 300 };

static const char TEXT[] =
    ".version 7.0\n.target sm_52\n.address_size 64\n"
    /* Counts for a while, then each thread sets its number. */
    ".visible .entry set(.param .u64 at, .param .u32 number)\n{\n"
    ".reg .u64 %rd<4>; .reg .u32 %r<6>; .reg .pred %p;\n"
    "ld.param.u64 %rd1, [at]; ld.param.u32 %r1, [number]; mov.u32 %r2, %tid.x;\n"
    "mul.wide.u32 %rd2, %r2, 4; add.u64 %rd3, %rd1, %rd2; mov.u32 %r3, 3000;\n"
    "again: sub.u32 %r3, %r3, 1; setp.ne.u32 %p, %r3, 0; @%p bra again;\n"
    "st.global.u32 [%rd3], %r1; ret;\n}\n";

static void *context, *function;
static int rounds, wrong;
/* Small and one behind the other, so that floe fetches several together. */
static uint32_t *memory[2 * THREADS];

/* In a round the GPU writes one block and the thread the other; then the thread compares both. */
static void *thread(void *argument) {
    long own = (long)argument;
    uint32_t *of_gpu = memory[2 * own], *of_host = memory[2 * own + 1];
    void *stream;
    DO(CUDA("cuCtxSetCurrent", context));
    DO(CUDA("cuStreamCreate", &stream, 1));
    for (uint32_t round = 1; round <= (uint32_t)rounds; round++) {
        void *parameters[] = { &of_gpu, &round };
        DO(CUDA("cuLaunchKernel", function, 1, 1, 1, COUNT, 1, 1, 0, stream, parameters, NULL));
        for (int i = 0; i < COUNT; i++) of_host[i] += 1;
        DO(CUDA("cuStreamSynchronize", stream));
        for (int i = 0; i < COUNT; i++)
            if (of_gpu[i] != round || of_host[i] != round) {
                if (!wrong++) printf("thread %ld, round %u: %u %u\n", own, round, of_gpu[i], of_host[i]);
                break;
            }
    }
    return NULL;
}

int main(int count, char **arguments) {
    if (count < 2) { fprintf(stderr, "touches ROUNDS\n"); return 2; }
    rounds = atoi(arguments[1]);
    void *module;
    use_first_device(&context);
    DO(CUDA("cuModuleLoadData", &module, TEXT));
    DO(CUDA("cuModuleGetFunction", &function, module, "set"));
    for (int i = 0; i < 2 * THREADS; i++) {
        DO(CUDA("cuMemAllocManaged", &memory[i], (size_t)(COUNT * 4), 1u));
        memset(memory[i], 0, COUNT * 4);
    }
    pthread_t threads[THREADS];
    for (long own = 0; own < THREADS; own++)
        if (pthread_create(&threads[own], NULL, thread, (void *)own)) exit(1);
    for (int own = 0; own < THREADS; own++) pthread_join(threads[own], NULL);
    printf(wrong ? "wrong: %d\n" : "right\n", wrong);
    return wrong != 0;
}

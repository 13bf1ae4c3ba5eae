/* Pinned memory that kernels reach where its order is easily lost. It needs no CUDA header.
 *   mirrored_edges late|elapsed|polled|first|pages|again|held
 * late: kernels, fills and copies behind a copy into the memory, which kernels reach only from then on. elapsed: the time between two
 * events says that they are complete. polled: the program looks at a word that a stream writes behind a kernel, and behind a copy.
 * first: threads launch kernels that are given the same memory first. pages: registered memory of which two ranges share a page, by
 * all of its addresses. again: a graph's kernel reads memory that is registered again between two launches.
 * held: a copy behind a kernel and a function of the program's, which waits for the thread that asks for the copy. */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "driver.h"

enum { WORDS = 64 << 10, BYTES = WORDS * 4, SLOW = 3000000 };

static const char TEXT[] =
    ".version 7.0\n.target sm_52\n.address_size 64\n"
    ".visible .entry set(.param .u64 at, .param .u32 count, .param .u32 value)\n{\n"
    ".reg .u64 %rd<4>; .reg .u32 %r<4>; .reg .pred %p;\n"
    "ld.param.u64 %rd1, [at]; ld.param.u32 %r1, [count]; ld.param.u32 %r2, [value]; mov.u32 %r3, 0;\n"
    "L: setp.ge.u32 %p, %r3, %r1; @%p bra E;\n"
    "cvt.u64.u32 %rd2, %r3; add.u64 %rd3, %rd1, %rd2; st.global.u8 [%rd3], %r2; add.u32 %r3, %r3, 1; bra L;\nE: ret;\n}\n"
    ".visible .entry copy(.param .u64 to, .param .u64 from)\n{\n.reg .u64 %rd<3>; .reg .u32 %r<2>;\n"
    "ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [from]; ld.global.u32 %r1, [%rd2]; st.global.u32 [%rd1], %r1; ret;\n}\n"
    ".visible .entry slow(.param .u32 count)\n{\n.reg .u32 %r<4>; .reg .pred %p;\n"
    "ld.param.u32 %r1, [count]; mov.u32 %r3, 0;\n"
    "L: setp.ge.u32 %p, %r3, %r1; @%p bra E; add.u32 %r3, %r3, 1; bra L;\nE: ret;\n}\n";

static void *context, *set_bytes, *copy_word, *slow_down;

#define LAUNCH(function, stream, ...) \
    DO(CUDA("cuLaunchKernel", function, 1u, 1u, 1u, 1u, 1u, 1u, 0u, stream, (void *[]){ __VA_ARGS__ }, (void *)0))

static void set(void *stream, uint64_t at, uint32_t bytes, uint32_t value) { LAUNCH(set_bytes, stream, &at, &bytes, &value); }

static void copy(void *stream, uint64_t to, uint64_t from) { LAUNCH(copy_word, stream, &to, &from); }

static void slow(void *stream, uint32_t steps) { LAUNCH(slow_down, stream, &steps); }

static void *new_stream(void) {
    void *stream;
    DO(CUDA("cuStreamCreate", &stream, 1u));
    return stream;
}

static void finish(void *stream) { DO(CUDA("cuStreamSynchronize", stream)); }

static uint64_t memory(size_t bytes) {
    uint64_t at;
    DO(CUDA("cuMemAlloc_v2", &at, bytes));
    return at;
}

static void is(const char *what, uint32_t round, uint32_t value, uint32_t wanted) {
    if (value == wanted) return;
    printf("%s, round %u: %u, and not %u\n", what, round, value, wanted);
    exit(1);
}

static void late(void) {
    void *stream = new_stream();
    uint64_t from = memory(BYTES), to = memory(BYTES);
    uint32_t got;
    for (uint32_t round = 0; round < 8; round++) {
        uint8_t *host = new_pinned(BYTES);
        set(stream, from, BYTES, 7);
        slow(stream, SLOW);
        DO(CUDA("cuMemcpyDtoHAsync_v2", host, from, (size_t)BYTES, stream));
        switch (round % 4) {
        case 0: copy(stream, to, (uint64_t)host + BYTES - 4); break;
        case 1: copy(stream, to, place_of(host) + BYTES - 4); break;
        case 2:
            place_of(host);
            DO(CUDA("cuMemcpyHtoDAsync_v2", to, host + BYTES - 4, (size_t)4, stream));
            break;
        case 3: DO(CUDA("cuMemsetD8Async", (uint64_t)host, 0u, (size_t)BYTES, stream)); break;
        }
        finish(stream);
        DO(CUDA("cuMemcpyDtoH_v2", &got, to, (size_t)4));
        is("late", round, got, 0x07070707);
        is("late, at home", round, host[BYTES - 1], round % 4 == 3 ? 0 : 7);
    }
}

static void elapsed(void) {
    void *stream = new_stream(), *begin, *end;
    uint8_t *mapped = new_pinned(BYTES), *plain = new_pinned(BYTES);
    uint64_t device = place_of(mapped), from = memory(BYTES);
    DO(CUDA("cuEventCreate", &begin, 0u));
    DO(CUDA("cuEventCreate", &end, 0u));
    for (uint32_t round = 1; round < 20; round++) {
        float time;
        int code;
        set(stream, from, BYTES, round);
        DO(CUDA("cuEventRecord", begin, stream));
        slow(stream, SLOW);
        set(stream, device, BYTES, round);
        DO(CUDA("cuMemcpyDtoHAsync_v2", plain, from, (size_t)BYTES, stream));
        DO(CUDA("cuEventRecord", end, stream));
        while ((code = CUDA("cuEventElapsedTime", &time, begin, end)) == 600) ;
        is("elapsed, code", round, code, 0);
        is("elapsed, a kernel's", round, mapped[BYTES - 1], round);
        is("elapsed, a copy's", round, plain[BYTES - 1], round);
    }
}

static volatile int over;

/* Work that has the server look at all memory all the time. */
static void *others(void *unused) {
    DO(CUDA("cuCtxSetCurrent", context));
    void *stream = new_stream();
    while (!over) {
        slow(stream, 10);
        finish(stream);
    }
    return unused;
}

static void polled(void) {
    enum { THREADS = 2 };
    pthread_t threads[THREADS];
    void *stream = new_stream();
    /* The word lies ahead of what the kernel writes, or behind it. */
    volatile uint8_t *mapped = new_pinned(BYTES + 8);
    uint8_t *plain = new_pinned(BYTES), *own = malloc(BYTES);
    uint64_t device = place_of((void *)mapped), from = memory(BYTES);
    DO(CUDA("cuMemHostRegister_v2", own, (size_t)BYTES, 0u));
    for (int each = 0; each < THREADS; each++) pthread_create(&threads[each], 0, others, 0);
    for (uint32_t round = 1; round < 250; round++) {
        size_t word = round % 2 ? 0 : BYTES + 4;
        uint8_t *target = round % 4 < 2 ? plain : own;
        DO(CUDA("cuMemsetD8Async", from, round, (size_t)BYTES, stream));
        if (round % 8 < 4) set(stream, device + 4, BYTES, round);
        DO(CUDA("cuMemcpyDtoHAsync_v2", target, from, (size_t)BYTES, stream));
        if (round % 8 >= 4) set(stream, device + 4, BYTES, round);
        DO(CUDA("cuStreamWriteValue32_v2", stream, device + word, round, 0u));
        while (*(volatile uint32_t *)(mapped + word) != round) ;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        for (size_t each = 0; each < BYTES; each++) is("polled, a kernel's", round, mapped[4 + each], round);
        for (size_t each = 0; each < BYTES; each++) is("polled, a copy's", round, target[each], round);
    }
    over = 1;
    for (int each = 0; each < THREADS; each++) pthread_join(threads[each], 0);
}

struct launch { void *stream; uint64_t to, from; pthread_barrier_t *all; };

static void *launches(void *of) {
    struct launch *own = of;
    DO(CUDA("cuCtxSetCurrent", context));
    pthread_barrier_wait(own->all);
    copy(own->stream, own->to, own->from);
    finish(own->stream);
    return 0;
}

static void first(void) {
    enum { THREADS = 4, LARGE = 1 << 20 };
    struct launch all[THREADS];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, 0, THREADS);
    for (int each = 0; each < THREADS; each++) all[each] = (struct launch){ new_stream(), memory(4), 0, &barrier };
    for (uint32_t round = 0; round < 30; round++) {
        pthread_t threads[THREADS];
        uint8_t *host = new_pinned(LARGE);
        memset(host, 9, LARGE);
        for (int each = 0; each < THREADS; each++) {
            all[each].from = (uint64_t)host + LARGE - 4;
            pthread_create(&threads[each], 0, launches, &all[each]);
        }
        for (int each = 0; each < THREADS; each++) {
            uint32_t got;
            pthread_join(threads[each], 0);
            DO(CUDA("cuMemcpyDtoH_v2", &got, all[each].to, (size_t)4));
            is("first", round, got, 0x09090909);
        }
        DO(CUDA("cuMemFreeHost", host));
    }
}

static void same(const char *what, uint32_t round, const uint8_t *has, const uint8_t *wanted, size_t bytes) {
    for (size_t at = 0; at < bytes; at++)
        if (has[at] != wanted[at]) {
            printf("%s, round %u: byte %zu is %u, and not %u\n", what, round, at, has[at], wanted[at]);
            exit(1);
        }
}

static void pages(void) {
    enum { ALL = 16 << 10, A = 4099, OF_A = 1001, B = 5100, OF_B = 3333, SOME = 64 };
    static uint8_t home[ALL], wanted[ALL];
    uint8_t *host = mmap(0, ALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *stream = new_stream();
    uint64_t to = memory(ALL), from = memory(SOME);
    DO(CUDA("cuMemHostRegister_v2", host + A, (size_t)OF_A, 2u));
    DO(CUDA("cuMemHostRegister_v2", host + B, (size_t)OF_B, 2u));
    uint64_t a = place_of(host + A), b = place_of(host + B);
    for (uint32_t round = 0; round < 30; round++) {
        for (size_t at = 0; at < ALL; at++) wanted[at] = host[at] = (uint8_t)(at * 7 + round);
        set(stream, a + 17, 13, round);
        memset(wanted + A + 17, (int)round, 13);
        set(stream, b + OF_B - 3, 3, round + 1);
        memset(wanted + B + OF_B - 3, (int)round + 1, 3);
        /* Of one range, of the other, of neither: such a copy may read at the call. */
        finish(stream);
        DO(CUDA("cuMemcpyHtoDAsync_v2", to, host, (size_t)ALL, stream));
        DO(CUDA("cuMemcpyDtoHAsync_v2", home, to, (size_t)ALL, stream));
        finish(stream);
        same("all", round, home, wanted, ALL);
        same("all, at home", round, host, wanted, ALL);
        set(stream, a + 100, 1, round + 3);
        wanted[A + 100] = (uint8_t)(round + 3);
        set(stream, from, SOME, round + 2);
        DO(CUDA("cuMemcpyDtoHAsync_v2", host + B - SOME / 2, from, (size_t)SOME, stream));
        memset(wanted + B - SOME / 2, (int)round + 2, SOME);
        copy(stream, to, b);
        DO(CUDA("cuMemcpyDtoHAsync_v2", home, to, (size_t)4, stream));
        finish(stream);
        same("a kernel behind a copy", round, home, wanted + B, 4);
        /* By the device's pointers, whatever they are called. */
        DO(CUDA("cuMemcpyAsync", to, b, (size_t)OF_B, stream));
        DO(CUDA("cuMemcpyHtoDAsync_v2", to + OF_B, (void *)a, (size_t)OF_A, stream));
        DO(CUDA("cuMemcpyDtoHAsync_v2", home, to, (size_t)OF_A + OF_B, stream));
        finish(stream);
        same("unified", round, home, wanted + B, OF_B);
        same("named as the host's", round, home + OF_B, wanted + A, OF_A);
        DO(CUDA("cuMemcpy", b + 1, from, (size_t)SOME));
        DO(CUDA("cuMemcpyDtoHAsync_v2", (void *)(a + 1), from, (size_t)SOME, stream));
        finish(stream);
        memset(wanted + B + 1, (int)round + 2, SOME);
        memset(wanted + A + 1, (int)round + 2, SOME);
        same("into them", round, host, wanted, ALL);
    }
}

static void again(void) {
    void *stream = new_stream(), *graph, *exec;
    uint8_t *host = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t to = memory(4);
    uint32_t got;
    DO(CUDA("cuMemHostRegister_v2", host, (size_t)BYTES, 2u));
    is("again, the program's own address", 0, place_of(host) == (uint64_t)host, 1);
    DO(CUDA("cuStreamBeginCapture_v2", stream, 0));
    copy(stream, to, (uint64_t)host + BYTES - 4);
    DO(CUDA("cuStreamEndCapture", stream, &graph));
    DO(CUDA("cuGraphInstantiateWithFlags", &exec, graph, 0ull));
    for (uint32_t round = 1; round < 5; round++) {
        memset(host, (int)round, BYTES);
        DO(CUDA("cuGraphLaunch", exec, stream));
        finish(stream);
        DO(CUDA("cuMemcpyDtoH_v2", &got, to, (size_t)4));
        is("again", round, got, round * 0x01010101);
        DO(CUDA("cuMemHostUnregister", host));
        DO(CUDA("cuMemHostRegister_v2", host, (size_t)BYTES, 2u));
    }
}

static volatile int may_go;
static uint8_t *written;

static void waits_and_writes(void *unused) {
    (void)unused;
    while (!may_go) sched_yield();
    memset(written, 9, 100);
}

static void held(void) {
    void *stream = new_stream();
    uint8_t home[300];
    uint64_t to = memory(300), device;
    written = new_pinned(300);
    device = place_of(written);
    for (uint32_t round = 1; round < 20; round++) {
        may_go = 0;
        memset(written, (int)round, 300);
        slow(stream, SLOW / 10);
        set(stream, device + 50, 150, round + 100);
        DO(CUDA("cuLaunchHostFunc", stream, waits_and_writes, (void *)0));
        DO(CUDA("cuMemcpyHtoDAsync_v2", to, written, (size_t)300, stream));
        may_go = 1;
        finish(stream);
        DO(CUDA("cuMemcpyDtoH_v2", home, to, (size_t)300));
        is("held, the function's", round, home[99], 9);
        is("held, the kernel's", round, home[199], round + 100);
        is("held, the program's", round, home[200], round);
    }
}

int main(int count, char **arguments) {
    const struct { const char *name; void (*run)(void); } all[] = {
        { "late", late }, { "elapsed", elapsed }, { "polled", polled }, { "first", first }, { "pages", pages },
        { "again", again }, { "held", held },
    };
    void *module;
    use_first_device(&context);
    DO(CUDA("cuModuleLoadData", &module, TEXT));
    DO(CUDA("cuModuleGetFunction", &set_bytes, module, "set"));
    DO(CUDA("cuModuleGetFunction", &copy_word, module, "copy"));
    DO(CUDA("cuModuleGetFunction", &slow_down, module, "slow"));
    for (size_t each = 0; each < sizeof all / sizeof *all; each++)
        if (count > 1 && !strcmp(arguments[1], all[each].name)) all[each].run();
    puts("right");
    return 0;
}

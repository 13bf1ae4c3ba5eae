/* Pinned memory that kernels and the program write by turns, checked byte by byte. It needs no CUDA header.
 *   mirrored_steady SEED ROUNDS [stands]
 * In each round the program writes, kernels write from one memory to another, and the program looks: behind a wait for the stream, or
 * when it sees a word that the stream writes. With `stands` the stream stands first in every second round, until the program has
 * written more and then a word. Some of the memory is registered again at other places, or allocated anew, all the time. Another thread
 * works with memory of its own meanwhile, and has the client look at all memory at any time. */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "driver.h"

enum { MEMORIES = 4, REGION = 96 << 10, LARGEST = 160 << 10, WORDS = 16, KERNELS = 3 };

static const char TEXT[] =
    ".version 7.0\n.target sm_52\n.address_size 64\n"
    ".visible .entry mix(.param .u64 to, .param .u64 from, .param .u32 count, .param .u32 value)\n{\n"
    ".reg .u64 %rd<5>; .reg .u32 %r<7>; .reg .pred %p;\n"
    "ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [from]; ld.param.u32 %r1, [count]; ld.param.u32 %r2, [value];\n"
    "mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x; mad.lo.u32 %r3, %r3, %r4, %r5;\n"
    "setp.ge.u32 %p, %r3, %r1; @%p bra E;\n"
    "cvt.u64.u32 %rd3, %r3; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;\n"
    "ld.global.u8 %r6, [%rd2]; add.u32 %r6, %r6, %r2; st.global.u8 [%rd1], %r6;\nE: ret;\n}\n";

struct memory { uint8_t *host; size_t bytes; uint64_t device; uint8_t wanted[LARGEST]; };
struct mix { struct memory *to, *from; size_t to_at, from_at, count; uint32_t value; };

static struct memory all[MEMORIES];
static volatile uint32_t *words;
static uint8_t *region;
static void *context, *mixing, *stream;
static volatile int is_over;
static uint64_t state, words_at;

static uint32_t below(uint64_t limit) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % limit);
}

static void allocate(struct memory *memory, size_t bytes) {
    memory->host = new_pinned(bytes);
    memory->bytes = bytes;
    memory->device = place_of(memory->host);
    memset(memory->wanted, 0, bytes);
}

/* A part of the region that begins at one of two places. */
static void enroll(struct memory *memory) {
    memory->host = region + 4096 * below(2) + 123;
    memory->bytes = 70000 + below(2) * 7001;
    DO(CUDA("cuMemHostRegister_v2", memory->host, memory->bytes, 2u));
    memory->device = place_of(memory->host);
    memcpy(memory->wanted, memory->host, memory->bytes);
}

static void write_some(struct memory *memory) {
    for (uint32_t runs = below(6); runs > 0; runs--) {
        size_t at = below(memory->bytes), most = memory->bytes - at;
        size_t bytes = 1 + below(below(8) ? (most < 40 ? most : 40) : most);
        for (size_t each = at; each < at + bytes; each++) memory->host[each] = memory->wanted[each] = (uint8_t)below(256);
    }
}

static struct mix choose(void) {
    size_t to = below(MEMORIES), from = (to + 1 + below(MEMORIES - 1)) % MEMORIES;
    struct mix mix = { &all[to], &all[from], below(all[to].bytes), below(all[from].bytes), 0, below(256) };
    size_t left = mix.to->bytes - mix.to_at, there = mix.from->bytes - mix.from_at;
    if (there < left) left = there;
    mix.count = 1 + below(left < 3000 ? left : 3000);
    return mix;
}

static void launch(struct mix *mix) {
    uint64_t to = mix->to->device + mix->to_at, from = mix->from->device + mix->from_at;
    uint32_t count = (uint32_t)mix->count;
    void *parameters[] = { &to, &from, &count, &mix->value };
    DO(CUDA("cuLaunchKernel", mixing, (count + 255) / 256, 1u, 1u, 256u, 1u, 1u, 0u, stream, parameters, (void *)0));
}

static void *others(void *unused) {
    void *own;
    DO(CUDA("cuCtxSetCurrent", context));
    DO(CUDA("cuStreamCreate", &own, 1u));
    uint8_t *host = new_pinned(2);
    uint64_t to = place_of(host), from = to + 1;
    uint32_t count = 1, value = 7;
    void *parameters[] = { &to, &from, &count, &value };
    for (uint32_t round = 0; !is_over; round++) {
        host[1] = (uint8_t)round;
        DO(CUDA("cuLaunchKernel", mixing, 1u, 1u, 1u, 32u, 1u, 1u, 0u, own, parameters, (void *)0));
        DO(CUDA("cuStreamSynchronize", own));
        if (host[0] != (uint8_t)(round + 7)) {
            printf("beside, round %u: %u\n", round, host[0]);
            exit(1);
        }
    }
    return unused;
}

static void expect(const struct mix *mix) {
    for (size_t each = 0; each < mix->count; each++)
        mix->to->wanted[mix->to_at + each] = (uint8_t)(mix->from->wanted[mix->from_at + each] + mix->value);
}

static void look(uint32_t round) {
    for (size_t memory = 0; memory < MEMORIES; memory++)
        for (size_t at = 0; at < all[memory].bytes; at++)
            if (all[memory].host[at] != all[memory].wanted[at]) {
                printf("round %u: byte %zu of memory %zu is %u, and not %u\n", round, at, memory, all[memory].host[at],
                       all[memory].wanted[at]);
                exit(1);
            }
}

static void work(uint32_t round, uint32_t stands) {
    struct mix mixes[KERNELS];
    int is_written[MEMORIES] = { 0 };
    uint32_t count = 1 + below(KERNELS), word = 1 + below(WORDS - 1);
    for (size_t each = 0; each < MEMORIES; each++) write_some(&all[each]);
    if (stands) DO(CUDA("cuStreamWaitValue32_v2", stream, words_at, round, 1u));
    for (uint32_t each = 0; each < count; each++) {
        mixes[each] = choose();
        is_written[mixes[each].to - all] = 1;
        launch(&mixes[each]);
    }
    uint32_t by_word = below(2);
    if (by_word) DO(CUDA("cuStreamWriteValue32_v2", stream, words_at + 4 * word, round, 0u));
    if (stands) {
        for (size_t each = 0; each < MEMORIES; each++)
            if (!is_written[each]) write_some(&all[each]);
        __atomic_thread_fence(__ATOMIC_RELEASE);
        words[0] = round;
    }
    for (uint32_t each = 0; each < count; each++) expect(&mixes[each]);
    if (by_word) {
        while (words[word] != round) sched_yield();
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    } else {
        DO(CUDA("cuStreamSynchronize", stream));
    }
    look(round);
}

int main(int count, char **arguments) {
    void *module;
    pthread_t beside;
    if (count < 3) return 2;
    state = strtoull(arguments[1], 0, 10) + 1;
    uint32_t rounds = (uint32_t)strtoul(arguments[2], 0, 10);
    use_first_device(&context);
    DO(CUDA("cuModuleLoadData", &module, TEXT));
    DO(CUDA("cuModuleGetFunction", &mixing, module, "mix"));
    DO(CUDA("cuStreamCreate", &stream, 1u));
    region = mmap(0, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    words = new_pinned(WORDS * sizeof *words);
    words_at = place_of((void *)words);
    allocate(&all[0], 8);
    allocate(&all[1], 5000);
    allocate(&all[2], LARGEST);
    enroll(&all[3]);
    pthread_create(&beside, 0, others, 0);
    for (uint32_t round = 1; round <= rounds; round++) {
        work(round, count > 3 && round % 2);
        if (round % 7 == 0) {
            DO(CUDA("cuMemHostUnregister", all[3].host));
            enroll(&all[3]);
        }
        if (round % 11 == 0) {
            DO(CUDA("cuMemFreeHost", all[1].host));
            allocate(&all[1], 1 + below(9000));
        }
    }
    is_over = 1;
    pthread_join(beside, 0);
    puts("right");
    return 0;
}

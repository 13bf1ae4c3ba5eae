/* A profiler as PyTorch's is one, over work whose activities are known: kernels, copies, fills, a graph.
 * It takes CUPTI by name, checks every record against what it did, and prints `right`. It needs no CUDA header. */
#include <stdint.h>
#include <string.h>

#include "driver.h"

enum { MEMCPY = 1, MEMSET = 2, DRIVER = 4, RUNTIME = 5, KERNEL = 10, SYNCHRONIZATION = 38, EXTERNAL = 39 };
enum { CUSTOM0 = 3, FORCED = 1, NOT_SUPPORTED = 27, LAUNCH = 307, GRAPH_LAUNCH = 514 };
enum { ROUNDS = 5, LAUNCHES = 3, BYTES = 1 << 20, LARGE = 24 << 20, GRAPHS = 2, NODES = 2, MOST = 4096 };
/* Far more than clocks of one machine can be apart after they were compared. */
static const uint64_t APART = 50000000;

struct kernel {
    uint32_t kind, config; uint32_t partitioned[2];
    uint64_t start, end, completed;
    uint32_t device, context, stream;
    int32_t grid[3], block[3], static_shared, dynamic_shared;
    uint32_t local, local_total, correlation;
    int64_t grid_id; const char *name;
};
struct copy {
    uint32_t kind; uint8_t copy_kind, source, target, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation;
};
struct fill {
    uint32_t kind, value; uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation;
};
struct call { uint32_t kind, function; uint64_t start, end; uint32_t process, thread, correlation, answer; };
struct external { uint32_t kind, external_kind; uint64_t id; uint32_t correlation, reserved; };

static const char TEXT[] =
    ".version 7.0\n.target sm_52\n.address_size 64\n"
    ".visible .entry add_one(.param .u64 at)\n{\n"
    ".reg .u64 %rd<5>; .reg .u32 %r<6>;\n"
    "ld.param.u64 %rd1, [at]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
    "mad.lo.u32 %r4, %r1, %r2, %r3; mul.wide.u32 %rd2, %r4, 4; add.u64 %rd3, %rd1, %rd2;\n"
    "ld.global.u32 %r5, [%rd3]; add.u32 %r5, %r5, 1; st.global.u32 [%rd3], %r5; ret;\n}\n";

static void *cupti;
static unsigned errors;

static void wrong(const char *what, long long is, long long should) {
    printf("%s: %lld, and not %lld\n", what, is, should);
    errors++;
}
static void equal(const char *what, long long is, long long should) { if (is != should) wrong(what, is, should); }
#define CUPTI(name, ...) ((int (*)())in(cupti, name))(__VA_ARGS__)

static struct { uint8_t *at; size_t filled; } done[MOST];
static unsigned buffers, given;
static void request(uint8_t **at, size_t *bytes, size_t *most) {
    given++;
    *bytes = 64 << 10; *most = 0; *at = aligned_alloc(8, *bytes);
}
static void complete(void *context, uint32_t stream, uint8_t *at, size_t bytes, size_t filled) {
    (void)context; (void)stream; (void)bytes;
    done[buffers].at = at; done[buffers++].filled = filled;
}

static struct call calls[MOST]; static unsigned call_count;
static struct external ids[MOST]; static unsigned id_count;
static struct kernel kernels[MOST]; static unsigned kernel_count;
static struct copy copies[MOST]; static unsigned copy_count;
static struct fill fills[MOST]; static unsigned fill_count;

static void read_records(void) {
    for (unsigned i = 0; i < buffers; i++) {
        void *record = NULL;
        while (CUPTI("cuptiActivityGetNextRecord", done[i].at, done[i].filled, &record) == 0) {
            switch (*(uint32_t *)record) {
            case DRIVER: case RUNTIME: calls[call_count++] = *(struct call *)record; break;
            case EXTERNAL: ids[id_count++] = *(struct external *)record; break;
            case KERNEL: kernels[kernel_count++] = *(struct kernel *)record; break;
            case MEMCPY: copies[copy_count++] = *(struct copy *)record; break;
            case MEMSET: fills[fill_count++] = *(struct fill *)record; break;
            default: wrong("a record of kind", *(uint32_t *)record, 0);
            }
        }
        free(done[i].at);
    }
    buffers = 0;
}

static const struct call *call_of(uint32_t correlation) {
    for (unsigned i = 0; i < call_count; i++)
        if (calls[i].correlation == correlation) return &calls[i];
    return NULL;
}
static uint64_t id_of(uint32_t correlation) {
    for (unsigned i = 0; i < id_count; i++)
        if (ids[i].correlation == correlation && ids[i].external_kind == CUSTOM0) return ids[i].id;
    return 0;
}
/* What holds for all work: it has a call, which began before it, and a time. */
static const struct call *judge(const char *what, uint32_t correlation, uint64_t start, uint64_t end, uint32_t device) {
    const struct call *call = call_of(correlation);
    if (!call) { wrong(what, correlation, -1); return NULL; }
    if (start == 0 || end < start) wrong("a beginning behind its end", (long long)start, (long long)end);
    if (start + APART < call->start) wrong("work before its call, by ns", (long long)(call->start - start), 0);
    equal("a device", device, 0);
    return call;
}

static void *stream, *function, *graph_exec;
static uint64_t memory[2], large;
static uint32_t *host;

static void launch(uint64_t at) {
    void *parameters[] = { &at };
    DO(CUDA("cuLaunchKernel", function, 4, 1, 1, 64, 1, 1, 0, stream, parameters, NULL));
}
static void begin(void) {
    int (*init)(unsigned) = in(cuda, "cuInit");
    DO(init(0));
    void *context, *module, *graph;
    DO(CUDA("cuDevicePrimaryCtxRetain", &context, 0));
    DO(CUDA("cuCtxSetCurrent", context));
    DO(CUDA("cuModuleLoadData", &module, TEXT));
    DO(CUDA("cuModuleGetFunction", &function, module, "add_one"));
    DO(CUDA("cuStreamCreate", &stream, 1));
    DO(CUDA("cuMemAlloc_v2", &memory[0], (size_t)BYTES));
    DO(CUDA("cuMemAlloc_v2", &memory[1], (size_t)BYTES));
    DO(CUDA("cuMemAlloc_v2", &large, (size_t)LARGE));
    host = calloc(1, LARGE);
    DO(CUDA("cuStreamBeginCapture_v2", stream, 0));
    for (int i = 0; i < NODES; i++) launch(memory[0]);
    DO(CUDA("cuStreamEndCapture", stream, &graph));
    DO(CUDA("cuGraphInstantiateWithFlags", &graph_exec, graph, 0ull));
}
static void work(void) {
    for (uint64_t round = 0; round < ROUNDS; round++) {
        if (cupti) DO(CUPTI("cuptiActivityPushExternalCorrelationId", CUSTOM0, 1000 + round));
        DO(CUDA("cuMemcpyHtoD_v2", memory[0], host, (size_t)BYTES));
        /* A copy from pageable memory returns when its bytes have left, and the stream waits for no other one. */
        DO(CUDA("cuCtxSynchronize"));
        DO(CUDA("cuMemsetD32Async", memory[1], 41, (size_t)BYTES / 4, stream));
        for (int i = 0; i < LAUNCHES; i++) launch(memory[1]);
        DO(CUDA("cuMemcpyDtoDAsync_v2", memory[0], memory[1], (size_t)BYTES, stream));
        DO(CUDA("cuStreamSynchronize", stream));
        DO(CUDA("cuMemcpyDtoH_v2", host, memory[0], (size_t)BYTES));
        equal("a result", host[0], 41 + LAUNCHES);
        uint64_t id = 0;
        if (cupti) DO(CUPTI("cuptiActivityPopExternalCorrelationId", CUSTOM0, &id));
        if (cupti) equal("an id", (long long)id, (long long)(1000 + round));
    }
    for (int i = 0; i < GRAPHS; i++) DO(CUDA("cuGraphLaunch", graph_exec, stream));
    DO(CUDA("cuStreamSynchronize", stream));
    DO(CUDA("cuMemcpyHtoD_v2", large, host, (size_t)LARGE));
    DO(CUDA("cuCtxSynchronize"));
}
static void enable(void) {
    DO(CUPTI("cuptiActivityRegisterCallbacks", request, complete));
    static const int kinds[] = { MEMCPY, MEMSET, KERNEL, EXTERNAL, DRIVER, RUNTIME };
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) DO(CUPTI("cuptiActivityEnable", kinds[i]));
    if (given != 1) wrong("buffers that are held while something is recorded", given, 1);
}
static void disable(void) {
    static const int kinds[] = { MEMCPY, MEMSET, KERNEL, EXTERNAL, DRIVER, RUNTIME };
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) DO(CUPTI("cuptiActivityDisable", kinds[i]));
}

static void check_kernels(void) {
    unsigned of_graphs = 0, by_round[ROUNDS] = { 0 };
    equal("kernels", kernel_count, ROUNDS * LAUNCHES + GRAPHS * NODES);
    for (unsigned i = 0; i < kernel_count; i++) {
        const struct kernel *it = &kernels[i];
        if (i && it->start < kernels[i - 1].start) wrong("kernels of a stream are out of order", i, 0);
        if (strcmp(it->name, "add_one")) wrong(it->name, 0, 0);
        equal("blocks", it->grid[0], 4);
        equal("threads", it->block[0], 64);
        const struct call *call = judge("a kernel without a call", it->correlation, it->start, it->end, it->device);
        if (!call) continue;
        uint64_t id = id_of(it->correlation);
        if (call->function == GRAPH_LAUNCH) { of_graphs++; equal("an id of a graph", (long long)id, 0); continue; }
        equal("a launch", call->function, LAUNCH);
        if (id < 1000 || id >= 1000 + ROUNDS) wrong("a kernel's id", (long long)id, 1000);
        else by_round[id - 1000]++;
    }
    equal("kernels of graphs", of_graphs, GRAPHS * NODES);
    for (int i = 0; i < ROUNDS; i++) equal("kernels of a round", by_round[i], LAUNCHES);
}
static void check_copies(void) {
    unsigned by_kind[16] = { 0 }, larges = 0;
    equal("copies", copy_count, 3 * ROUNDS + 1);
    for (unsigned i = 0; i < copy_count; i++) {
        const struct copy *it = &copies[i];
        judge("a copy without a call", it->correlation, it->start, it->end, it->device);
        if (it->bytes == LARGE) larges++; else equal("bytes of a copy", (long long)it->bytes, BYTES);
        by_kind[it->copy_kind & 15]++;
    }
    equal("copies to the device", by_kind[1], ROUNDS + 1);
    equal("copies to the host", by_kind[2], ROUNDS);
    equal("copies within the device", by_kind[8], ROUNDS);
    equal("large copies", larges, 1);
    equal("fills", fill_count, ROUNDS);
    for (unsigned i = 0; i < fill_count; i++) {
        judge("a fill without a call", fills[i].correlation, fills[i].start, fills[i].end, fills[i].device);
        equal("bytes of a fill", (long long)fills[i].bytes, BYTES);
        equal("value of a fill", fills[i].value, 41);
    }
}
static void check_calls(void) {
    unsigned launches = 0, waits = 0;
    for (unsigned i = 0; i < call_count; i++) {
        if (calls[i].end < calls[i].start) wrong("a call that ends before it begins", i, 0);
        equal("a call's answer", calls[i].answer, 0);
        launches += calls[i].function == LAUNCH && calls[i].kind == DRIVER;
        waits += calls[i].function == 126;
    }
    equal("launches", launches, ROUNDS * LAUNCHES);
    equal("waits for the stream", waits, ROUNDS + 1);
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "";
    open_driver();
    void *library = dlopen("libcupti.so.13", RTLD_NOW);
    if (!strcmp(mode, "unprofiled")) {
        begin();
        work();
    } else if (!library) {
        fprintf(stderr, "activities: %s\n", dlerror());
        return 1;
    } else if (!strcmp(mode, "refused")) {
        begin();
        cupti = library;
        DO(CUPTI("cuptiActivityRegisterCallbacks", request, complete));
        equal("kernels where nothing records them", CUPTI("cuptiActivityEnable", KERNEL), NOT_SUPPORTED);
        equal("a buffer for nothing", given, 0);
    } else if (!strcmp(mode, "absent")) {
        cupti = library;
        equal("a kind that is not there", CUPTI("cuptiActivityEnable", SYNCHRONIZATION), NOT_SUPPORTED);
        equal("a function that is not there", CUPTI("cuptiProfilerInitialize", NULL), NOT_SUPPORTED);
        const char *text = NULL;
        DO(CUPTI("cuptiGetResultString", NOT_SUPPORTED, &text));
        if (strcmp(text, "CUPTI_ERROR_NOT_SUPPORTED")) wrong(text, 0, 0);
    } else if (!strcmp(mode, "held")) {
        cupti = library;
        begin();
        enable();
        puts("recording");
        fflush(stdout);
        getchar();
    } else {
        int early = !strcmp(mode, "early");
        cupti = library;
        if (early) { enable(); begin(); work(); } else { begin(); enable(); work(); }
        disable();
        DO(CUPTI("cuptiActivityFlushAll", FORCED));
        read_records();
        check_kernels();
        check_copies();
        if (!early) check_calls();
        size_t lost = 1;
        DO(CUPTI("cuptiActivityGetNumDroppedRecords", NULL, 0, &lost));
        equal("lost records", (long long)lost, 0);
        /* Nothing is recorded from here on, and a flush gives nothing. */
        launch(memory[0]);
        DO(CUDA("cuCtxSynchronize"));
        unsigned before = kernel_count;
        DO(CUPTI("cuptiActivityFlushAll", FORCED));
        read_records();
        equal("kernels behind the end", kernel_count, before);
    }
    if (errors) return 1;
    puts("right");
    return 0;
}

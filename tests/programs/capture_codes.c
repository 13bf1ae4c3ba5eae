/* The code of each failure of a capture, one line each: what was done, and the codes of its calls in their order; `s` before a number
 * is the state of the capture then (0 none, 1 active, 2 invalidated). It judges nothing and runs on any driver, so that two can be
 * compared line by line. It needs no CUDA header. */
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "driver.h"

enum { GLOBAL, THREAD_LOCAL, RELAXED };

static void *stream, *other, *blocking, *event, *outside, *function, *graph;
static uint64_t memory;
static const char TEXT[] =
    ".version 7.0\n.target sm_52\n.address_size 64\n"
    ".visible .entry one(.param .u64 at)\n{\n.reg .u64 %rd<2>; .reg .u32 %r<2>;\n"
    "ld.param.u64 %rd1, [at]; mov.u32 %r1, 1; st.global.u32 [%rd1], %r1; ret;\n}\n";

static int launch_of(void *on, unsigned threads, unsigned shared) {
    void *parameters[] = { &memory };
    return CUDA("cuLaunchKernel", function, 1u, 1u, 1u, threads, 1u, 1u, shared, on, parameters, (void *)0);
}
static int launch(void *on) { return launch_of(on, 1, 0); }
static void begin_as(void *on, int mode) { DO(CUDA("cuStreamBeginCapture_v2", on, mode)); DO(launch(on)); }
static void begin(void) { begin_as(stream, GLOBAL); }
static void fork_to(void *to) {
    DO(CUDA("cuEventRecord", event, stream));
    DO(CUDA("cuStreamWaitEvent", to, event, 0u));
}

static void say(const char *what) { printf("\n%-52s", what); }
static int code(int it) { printf(" %4d", it); return it; }
static void state(void) {
    int now = -1;
    int it = CUDA("cuStreamIsCapturing", stream, &now);
    if (it) printf(" s(%d)", it); else printf(" s%d", now);
}
static void end_on(void *on) {
    graph = 0;
    code(CUDA("cuStreamEndCapture", on, &graph));
    if (graph) CUDA("cuGraphDestroy", graph);
}
/* What is left of a case ends, so that the next begins anew. */
static void finish(void) {
    void *streams[] = { stream, other, blocking };
    for (int i = 0; i < 3; i++) { graph = 0; CUDA("cuStreamEndCapture", streams[i], &graph); if (graph) CUDA("cuGraphDestroy", graph); }
    for (int i = 0; i < 3; i++) DO(CUDA("cuStreamSynchronize", streams[i]));
    DO(CUDA("cuEventRecord", outside, other));
    DO(CUDA("cuStreamSynchronize", other));
}

static void *ends(void *on) { end_on(on); return 0; }
static void *launches(void *on) { code(launch(on)); return 0; }
static void on_a_thread(void *(*act)(void *), void *on) {
    pthread_t thread;
    if (pthread_create(&thread, 0, act, on)) exit(1);
    pthread_join(thread, 0);
}

/* A call on a capture of `stream`, the state after it, another launch, and the end. */
#define CASE(what, act) do { begin(); say(what); act; state(); code(launch(stream)); end_on(stream); state(); finish(); } while (0)

static void forks(void) {
    CASE("fork with work, not joined", fork_to(other); DO(launch(other)));
    CASE("fork without work, not joined", fork_to(other));
    CASE("fork ended by itself", fork_to(other); DO(launch(other)); end_on(other));
    CASE("fork without work ended by itself", fork_to(other); end_on(other));
    CASE("fork ended by itself, then joined", fork_to(other); DO(launch(other)); end_on(other);
         code(CUDA("cuEventRecord", event, other)); code(CUDA("cuStreamWaitEvent", stream, event, 0u)));
    CASE("fork begun again", fork_to(other); code(CUDA("cuStreamBeginCapture_v2", other, GLOBAL)));
    CASE("fork destroyed with work, not joined", void *gone; DO(CUDA("cuStreamCreate", &gone, 1u)); fork_to(gone); DO(launch(gone));
         code(CUDA("cuStreamDestroy_v2", gone)));
    CASE("fork joined by an event recorded before its work", fork_to(other); DO(CUDA("cuEventRecord", event, other)); DO(launch(other));
         code(CUDA("cuStreamWaitEvent", stream, event, 0u)));
    CASE("a launch that fails on a fork, then joined", fork_to(other); code(launch_of(other, 4096, 0));
         code(CUDA("cuEventRecord", event, other)); code(CUDA("cuStreamWaitEvent", stream, event, 0u)));
    CASE("fork to the legacy stream", DO(CUDA("cuEventRecord", event, stream));
         code(CUDA("cuStreamWaitEvent", (void *)1, event, 0u)));
}

static void calls_that_fail(void) {
    CASE("launch of too many threads", code(launch_of(stream, 4096, 0)));
    CASE("launch of too much shared memory", code(launch_of(stream, 1, 1u << 30)));
    CASE("launch of no function", code(CUDA("cuLaunchKernel", (void *)0, 1u, 1u, 1u, 1u, 1u, 1u, 0u, stream, (void *)0, (void *)0)));
    CASE("fill of memory that is nobody's", code(CUDA("cuMemsetD8Async", (uint64_t)64, 1, (size_t)64, stream)));
    CASE("copy of memory that is nobody's", code(CUDA("cuMemcpyDtoDAsync_v2", memory, (uint64_t)64, (size_t)64, stream)));
    CASE("synchronize", code(CUDA("cuStreamSynchronize", stream)));
    CASE("query", code(CUDA("cuStreamQuery", stream)));
    CASE("synchronize of the context", code(CUDA("cuCtxSynchronize")));
    CASE("allocation", uint64_t made = 0; code(CUDA("cuMemAlloc_v2", &made, (size_t)64)));
    CASE("callback", code(CUDA("cuStreamAddCallback", stream, (void *)launches, (void *)0, 0u)));
    CASE("query of an event from outside", code(CUDA("cuEventQuery", outside)));
    CASE("query of a captured event", DO(CUDA("cuEventRecord", event, stream)); code(CUDA("cuEventQuery", event)));
    CASE("synchronize of a captured event", DO(CUDA("cuEventRecord", event, stream)); code(CUDA("cuEventSynchronize", event)));
    CASE("time between captured events", float time; DO(CUDA("cuEventRecord", event, stream));
         code(CUDA("cuEventElapsedTime", &time, event, event)));
    CASE("wait for an event from outside", code(CUDA("cuStreamWaitEvent", stream, outside, 0u)));
    CASE("beginning twice", code(CUDA("cuStreamBeginCapture_v2", stream, GLOBAL)));
    CASE("attach of managed memory", code(CUDA("cuStreamAttachMemAsync", stream, memory, (size_t)0, 1u)));
}

static void two_captures(void) {
    CASE("two captures meet", begin_as(other, GLOBAL); DO(CUDA("cuEventRecord", event, other));
         code(CUDA("cuStreamWaitEvent", stream, event, 0u)); end_on(other));
    CASE("a stream of a capture waits for one that is over", begin_as(other, GLOBAL); DO(CUDA("cuEventRecord", event, other)); end_on(other);
         code(CUDA("cuStreamWaitEvent", stream, event, 0u)));
    say("a stream waits for an event of a capture that is over");
    begin(); DO(CUDA("cuEventRecord", event, stream)); end_on(stream);
    code(CUDA("cuStreamWaitEvent", other, event, 0u)); code(CUDA("cuEventQuery", event)); code(CUDA("cuEventSynchronize", event));
    finish();
    CASE("join of an invalidated capture", fork_to(other); CUDA("cuStreamQuery", stream); code(launch(other));
         code(CUDA("cuStreamWaitEvent", blocking, event, 0u)));
}

static void threads(void) {
    begin_as(stream, THREAD_LOCAL);
    say("end on another thread"); on_a_thread(ends, stream); state(); end_on(stream); finish();
    begin_as(stream, RELAXED);
    say("end of a relaxed one on another thread"); on_a_thread(ends, stream); state(); end_on(stream); finish();
    begin_as(stream, THREAD_LOCAL);
    say("launch on another thread"); on_a_thread(launches, stream); state(); end_on(stream); finish();
    begin_as(stream, THREAD_LOCAL);
    say("end on another thread of an invalid one"); CUDA("cuStreamQuery", stream); on_a_thread(ends, stream); state(); end_on(stream);
    finish();
}

static void legacy(void) {
    begin_as(blocking, RELAXED);
    say("launch on the legacy stream beside"); code(launch(0)); end_on(blocking); finish();
    begin_as(blocking, RELAXED);
    say("question about the legacy stream beside");
    int now = -1;
    code(CUDA("cuStreamIsCapturing", (void *)1, &now)); end_on(blocking); finish();
    say("capture of the legacy stream"); code(CUDA("cuStreamBeginCapture_v2", (void *)1, RELAXED)); finish();
    say("end without a beginning"); end_on(stream); finish();
}

/* The graph that is being made, in the program's hands. */
static void graph_in_hand(void) {
    void *made, *node = 0, *next = 0;
    uint64_t id;
    int now;
    size_t count;
    void **nodes;
#define ASK() DO(CUDA("cuStreamGetCaptureInfo_v2", stream, &now, &id, &made, &nodes, &count)); node = nodes[0]
    CASE("node destroyed meanwhile", ASK(); code(CUDA("cuGraphDestroyNode", node)));
    CASE("graph destroyed meanwhile", ASK(); code(CUDA("cuGraphDestroy", made)));
    CASE("graph instantiated meanwhile", void *exec = 0; ASK(); code(CUDA("cuGraphInstantiateWithFlags", &exec, made, 0ull)));
    CASE("dependencies set to none", ASK(); code(CUDA("cuStreamUpdateCaptureDependencies", stream, (void *)0, (size_t)0, 1u)));
    CASE("node added and not waited for", ASK(); code(CUDA("cuGraphAddEmptyNode", &next, made, (void *)0, (size_t)0)));
}

int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    void *context, *module;
    use_first_device(&context);
    DO(CUDA("cuStreamCreate", &stream, 1u));
    DO(CUDA("cuStreamCreate", &other, 1u));
    DO(CUDA("cuStreamCreate", &blocking, 0u));
    DO(CUDA("cuEventCreate", &event, 2u));
    DO(CUDA("cuEventCreate", &outside, 2u));
    DO(CUDA("cuModuleLoadData", &module, TEXT));
    DO(CUDA("cuModuleGetFunction", &function, module, "one"));
    DO(CUDA("cuMemAlloc_v2", &memory, (size_t)4096));
    finish();
    forks();
    calls_that_fail();
    two_captures();
    threads();
    legacy();
    graph_in_hand();
    printf("\n");
    return 0;
}

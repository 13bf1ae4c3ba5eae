/* Which copies and fills of an instantiated graph can be changed, and which bounds a copy has, one line each: what was done, and the
 * codes. A change is tried twice: by cuGraphExec…NodeSetParams, and by cuGraphExecUpdate with another graph, whose result is the last
 * number. It judges nothing and runs on any driver, so that two can be compared line by line. It needs no CUDA header. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

enum { HOST = 1, DEVICE = 2, ARRAY = 3, UNIFIED = 4 };

/* CUDA_MEMCPY3D. */
struct end { size_t x, y, z, level; unsigned kind; const void *host; uint64_t device; void *array, *reserved; size_t pitch, rows; };
struct copy { struct end from, to; size_t width, height, depth; };
/* CUDA_MEMCPY2D. */
struct flat_end { size_t x, y; unsigned kind; const void *host; uint64_t device; void *array; size_t pitch; };
struct rectangle { struct flat_end from, to; size_t width, height; };
/* CUDA_MEMSET_NODE_PARAMS. */
struct fill { uint64_t at; size_t pitch; unsigned value, element; size_t width, height; };

static void *context, *stream, *array;
static uint64_t from, to;
static char *pinned, *pageable;

static void say(const char *what) { printf("\n%-28s", what); }
static int code(int it) { printf(" %4d", it); return it; }

static struct copy a_copy(size_t height, size_t depth) {
    struct copy it = {
        .from = { .kind = DEVICE, .device = from, .host = pinned, .pitch = 64, .rows = height > 1 ? 4 : 1 },
        .to = { .kind = DEVICE, .device = to, .host = pinned, .pitch = 64, .rows = height > 1 ? 4 : 1 },
        .width = 16, .height = height, .depth = depth,
    };
    return it;
}
static void into_the_array(struct copy *it) { it->to.kind = ARRAY; it->to.array = array; }

/* A graph with one copy, and what an instantiated one says to another. */
static void change(const char *what, struct copy old, struct copy new) {
    void *graph, *node, *exec, *other, *its_node;
    struct { int result; void *nodes[2]; } update = { 0 };
    DO(CUDA("cuGraphCreate", &graph, 0u));
    DO(CUDA("cuGraphAddMemcpyNode", &node, graph, (void *)0, (size_t)0, &old, context));
    DO(CUDA("cuGraphInstantiateWithFlags", &exec, graph, 0ull));
    DO(CUDA("cuGraphCreate", &other, 0u));
    say(what);
    code(CUDA("cuGraphExecMemcpyNodeSetParams", exec, node, &new, context));
    if (!code(CUDA("cuGraphAddMemcpyNode", &its_node, other, (void *)0, (size_t)0, &new, context))) {
        code(CUDA("cuGraphExecUpdate_v2", exec, other, &update));
        code(update.result);
    }
    DO(CUDA("cuGraphExecDestroy", exec));
    DO(CUDA("cuGraphDestroy", graph));
    DO(CUDA("cuGraphDestroy", other));
}
#define CHANGE(what, height, depth, ...) \
    do { struct copy it = a_copy(height, depth), old = it; __VA_ARGS__; change(what, old, it); } while (0)

static void copies_change(void) {
    CHANGE("row: same", 1, 1, (void)it);
    CHANGE("row: shorter", 1, 1, it.width = 8);
    CHANGE("row: longer than its pitch", 1, 1, it.width = 1000);
    CHANGE("row: long, without a pitch", 1, 1, it.width = 1000; it.from.pitch = it.to.pitch = 0);
    CHANGE("row: of nothing", 1, 1, it.width = 0);
    CHANGE("row: from elsewhere", 1, 1, it.from.device += 4096);
    CHANGE("row: from the host", 1, 1, it.from.kind = HOST);
    CHANGE("row: of a unified address", 1, 1, it.from.kind = UNIFIED);
    CHANGE("row: x", 1, 1, it.from.x = 4);
    CHANGE("row: y", 1, 1, it.from.y = 1; it.from.rows = 4);
    CHANGE("row: z", 1, 1, it.from.z = 1);
    CHANGE("row: another pitch", 1, 1, it.from.pitch = 128);
    CHANGE("row: two", 1, 1, it.height = it.from.rows = it.to.rows = 2);
    CHANGE("row: two slices", 1, 1, it.depth = 2);
    CHANGE("rows: same", 2, 1, (void)it);
    CHANGE("rows: from elsewhere", 2, 1, it.from.device += 4096);
    CHANGE("rows: swapped", 2, 1, it.from.device = to; it.to.device = from);
    CHANGE("rows: shorter", 2, 1, it.width = 8);
    CHANGE("rows: one", 2, 1, it.height = 1);
    CHANGE("rows: another pitch", 2, 1, it.from.pitch = 128);
    CHANGE("rows: more of a slice", 2, 1, it.from.rows = 8);
    CHANGE("rows: x", 2, 1, it.from.x = 4);
    CHANGE("rows: y", 2, 1, it.from.y = 1);
    CHANGE("rows: of unified addresses", 2, 1, it.from.kind = UNIFIED);
    CHANGE("rows: from the host", 2, 1, it.from.kind = HOST);
    CHANGE("slices: same", 2, 2, (void)it);
    CHANGE("slices: from elsewhere", 2, 2, it.from.device += 4096);
    CHANGE("slices: one", 2, 2, it.depth = 1);
    CHANGE("slices: z", 2, 2, it.from.z = 1);
    CHANGE("slices: shorter", 2, 2, it.width = 8);
    CHANGE("array: same", 2, 1, into_the_array(&it); old = it);
    CHANGE("array: from elsewhere", 2, 1, into_the_array(&it); old = it; it.from.device += 4096);
    CHANGE("array: x", 2, 1, into_the_array(&it); old = it; it.to.x = 4);
    CHANGE("array: one row", 2, 1, into_the_array(&it); old = it; it.height = 1);
}

static void bounds(const char *what, struct copy it) { say(what); code(CUDA("cuMemcpy3D_v2", &it)); }
#define BOUNDS(what, height, depth, ...) \
    do { struct copy it = a_copy(height, depth); __VA_ARGS__; bounds("copy: " what, it); } while (0)

static void copies_have_bounds(void) {
    BOUNDS("same", 2, 1, (void)it);
    BOUNDS("5 rows of 4", 2, 1, it.height = 5);
    BOUNDS("y 3", 2, 1, it.from.y = 3);
    BOUNDS("no rows said", 2, 1, it.from.rows = it.to.rows = 0);
    BOUNDS("1 row said", 2, 1, it.from.rows = 1);
    BOUNDS("z 1", 2, 1, it.from.z = 1);
    BOUNDS("slices of 1 row", 2, 2, it.from.rows = 1);
    BOUNDS("slices, y 3", 2, 2, it.from.y = 3);
    BOUNDS("slices, no rows said", 2, 2, it.from.rows = it.to.rows = 0);
    BOUNDS("slices, y 1, no rows said", 2, 2, it.from.rows = it.to.rows = 0; it.from.y = 1);
    BOUNDS("a row, no rows said", 1, 1, it.from.rows = it.to.rows = 0);
    BOUNDS("a row, y 1", 1, 1, it.from.y = 1);
    BOUNDS("a row, y 3", 1, 1, it.from.y = 3);
    BOUNDS("a row, y 3, none said", 1, 1, it.from.rows = it.to.rows = 0; it.from.y = 3);
    BOUNDS("a pitch of 8", 2, 1, it.from.pitch = 8);
    BOUNDS("a row, a pitch of 8", 1, 1, it.from.pitch = 8);
    BOUNDS("x 60", 2, 1, it.from.x = 60);
    BOUNDS("from the host, y 3", 2, 1, it.from.kind = HOST; it.from.y = 3);
    BOUNDS("to the host, y 3", 2, 1, it.to.kind = HOST; it.to.y = 3);
    BOUNDS("a level", 2, 1, it.from.level = 3);
    BOUNDS("a level of an array", 2, 1, into_the_array(&it); it.to.level = 1);
    BOUNDS("an array, 1 row said", 2, 1, into_the_array(&it); it.to.rows = 1);
    BOUNDS("an array, y 3", 2, 1, into_the_array(&it); it.from.y = 3);
    BOUNDS("an array, its y 7", 2, 1, into_the_array(&it); it.to.y = 7);
    BOUNDS("reserved", 2, 1, it.from.reserved = &it);
    BOUNDS("no width, 1 row said", 2, 1, it.width = 0; it.from.rows = 1);
    BOUNDS("no height, y 9", 2, 1, it.height = 0; it.from.y = 9);
    BOUNDS("no depth, y 9", 2, 1, it.depth = 0; it.from.y = 9);
}

/* What a stream was asked for: as ever, elsewhere, shorter, and another fourth way. */
typedef void work(int way);
static size_t length(int way) { return way == 2 ? 8 : 16; }
static size_t place(int way) { return way == 1 ? 4096 : 0; }
static void within(int way) { DO(CUDA("cuMemcpyDtoDAsync_v2", to, from + place(way), length(way), stream)); }
static void by_address(int way) { DO(CUDA("cuMemcpyAsync", to, from + place(way), length(way), stream)); }
static void to_device(int way) {
    DO(CUDA("cuMemcpyHtoDAsync_v2", to + (way == 3 ? 512 : 0), pinned + place(way), length(way), stream));
}
static void to_host(int way) {
    DO(CUDA("cuMemcpyDtoHAsync_v2", pinned + place(way), from + (way == 3 ? 512 : 0), length(way), stream));
}
static void from_pageable(int way) { DO(CUDA("cuMemcpyHtoDAsync_v2", to, pageable + place(way), length(way), stream)); }
static void rectangle_of(int way, size_t pitch, size_t height) {
    struct rectangle it = { .from = { .kind = DEVICE, .device = from + place(way), .pitch = pitch },
                            .to = { .kind = DEVICE, .device = to, .pitch = pitch }, .width = length(way), .height = height };
    DO(CUDA("cuMemcpy2DAsync_v2", &it, stream));
}
static void two_rows(int way) { rectangle_of(way, 64, 2); }
static void one_row(int way) { rectangle_of(way, 64, 1); }
static void rows_without_a_gap(int way) { rectangle_of(way, 16, 2); }
static void filled(int way) { DO(CUDA("cuMemsetD8Async", to + place(way), 1u, length(way), stream)); }
static void filled_rows(int way) {
    DO(CUDA("cuMemsetD2D8Async", to + place(way), (size_t)64, (unsigned)(way == 3), length(way), (size_t)4, stream));
}

static void *captured(work *of, int way) {
    void *graph = 0;
    DO(CUDA("cuStreamBeginCapture_v2", stream, 2));
    of(way);
    DO(CUDA("cuStreamEndCapture", stream, &graph));
    return graph;
}
static void change_captured(const char *what, work *of, int ways, int is_copy) {
    const char *names[] = { "same", "elsewhere", "shorter", "another" };
    for (int way = 0; way < ways; way++) {
        void *graph = captured(of, 0), *other = captured(of, way), *exec, *node, *its_node;
        struct { int result; void *nodes[2]; } update = { 0 };
        size_t one = 1;
        char line[64];
        DO(CUDA("cuGraphInstantiateWithFlags", &exec, graph, 0ull));
        DO(CUDA("cuGraphGetNodes", graph, &node, &one));
        DO(CUDA("cuGraphGetNodes", other, &its_node, &one));
        snprintf(line, sizeof line, "%s: %s", what, names[way]);
        say(line);
        if (is_copy) {
            struct copy params;
            DO(CUDA("cuGraphMemcpyNodeGetParams", its_node, &params));
            code(CUDA("cuGraphExecMemcpyNodeSetParams", exec, node, &params, context));
        } else {
            struct fill params;
            DO(CUDA("cuGraphMemsetNodeGetParams", its_node, &params));
            code(CUDA("cuGraphExecMemsetNodeSetParams", exec, node, &params, context));
        }
        code(CUDA("cuGraphExecUpdate_v2", exec, other, &update));
        code(update.result);
        DO(CUDA("cuGraphLaunch", exec, stream));
        DO(CUDA("cuStreamSynchronize", stream));
        DO(CUDA("cuGraphExecDestroy", exec));
        DO(CUDA("cuGraphDestroy", graph));
        DO(CUDA("cuGraphDestroy", other));
    }
}

int main(void) {
    struct { size_t width, height, depth; int format; unsigned channels, flags; } shape = { 64, 8, 0, 1, 1, 0 };
    setvbuf(stdout, 0, _IONBF, 0);
    use_first_device(&context);
    DO(CUDA("cuStreamCreate", &stream, 1u));
    DO(CUDA("cuMemAlloc_v2", &from, (size_t)1 << 20));
    DO(CUDA("cuMemAlloc_v2", &to, (size_t)1 << 20));
    DO(CUDA("cuMemHostAlloc", &pinned, (size_t)1 << 20, 0u));
    DO(CUDA("cuArray3DCreate_v2", &array, &shape));
    pageable = calloc(1, 1 << 20);
    copies_change();
    copies_have_bounds();
    change_captured("within", within, 3, 1);
    change_captured("by address", by_address, 3, 1);
    change_captured("to the device", to_device, 4, 1);
    change_captured("to the host", to_host, 4, 1);
    change_captured("from pageable memory", from_pageable, 3, 1);
    change_captured("two rows", two_rows, 3, 1);
    change_captured("one row", one_row, 3, 1);
    change_captured("rows without a gap", rows_without_a_gap, 2, 1);
    change_captured("filled", filled, 3, 0);
    change_captured("filled rows", filled_rows, 4, 0);
    printf("\n");
    return 0;
}

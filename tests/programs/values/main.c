/* The probes by name: lines `PROBE VALUE` come in by a file, or on stdin without one; lines `PROBE VALUE CODE` go out. With `--list`
 * it says every probe's name. It runs on any driver, so that floe's answers can be compared with NVIDIA's. */
#include "probe.h"

struct bench bench;

const char program_text[] =
    ".version 6.4\n.target sm_75\n.address_size 64\n.global .texref image;\n"
    ".visible .global .align 4 .u32 word;\n"
    ".visible .entry touch(.param .u64 out)\n{\n .reg .b32 %r<2>;\n .reg .b64 %rd<3>;\n"
    " ld.param.u64 %rd1, [out];\n cvta.to.global.u64 %rd2, %rd1;\n mov.u32 %r1, 1;\n st.global.u32 [%rd2], %r1;\n ret;\n}\n";

static struct probe probes[512];
static size_t probe_count;

void add_probe(struct probe probe) { probes[probe_count++] = probe; }

static void set_up(void) {
    int devices = 0;
    MUST(cuInit(0));
    MUST(cuDeviceGetCount(&devices));
    bench.peer = devices > 1 ? 1 : 0;
    MUST(cuDevicePrimaryCtxRetain(&bench.context, bench.device));
    MUST(cuCtxSetCurrent(bench.context));
    MUST(cuStreamCreate(&bench.stream, CU_STREAM_NON_BLOCKING));
    MUST(cuEventCreate(&bench.event, CU_EVENT_DISABLE_TIMING));
    MUST(cuMemAlloc_v2(&bench.buffer, 1 << 20));
    MUST(cuMemAllocManaged(&bench.managed, 4 << 20, CU_MEM_ATTACH_GLOBAL));
    MUST(cuMemHostAlloc((void **)&bench.host, 4096, 0));
    MUST(cuModuleLoadData(&bench.module, program_text));
    MUST(cuModuleGetFunction(&bench.function, bench.module, "touch"));
    MUST(cuLibraryLoadData(&bench.library, program_text, 0, 0, 0, 0, 0, 0));
    MUST(cuLibraryGetKernel(&bench.kernel, bench.library, "touch"));
    MUST(cuModuleGetTexRef(&bench.reference, bench.module, "image"));
    MUST(cuDeviceGetDefaultMemPool(&bench.pool, bench.device));
}

static CUresult with_member(const struct probe *probe, const struct member *member, uint64_t value) {
    CUresult first = CUDA_SUCCESS;
    for (size_t element = 0; element < member->count; ++element) {
        char *filled = calloc(1, probe->size);
        probe->fill(filled);
        memcpy(filled + member->offset + element * member->size, &value, member->size < 8 ? member->size : 8);
        CUresult code = probe->with(filled);
        free(filled);
        if (element > 0 && code != first) return (CUresult)-1;
        first = code;
    }
    return first;
}

/* A probe's name is its function and parameter, and the member where there is one. */
static int is_named(const struct probe *probe, const struct member *member, const char *name) {
    char own[256];
    snprintf(own, sizeof own, "%s.%s%s%s", probe->function, probe->parameter, member ? "." : "", member ? member->name : "");
    return name ? !strcmp(own, name) : puts(own);
}

static int make(const char *name, uint64_t value, CUresult *code) {
    for (size_t i = 0; i < probe_count; ++i) {
        const struct probe *probe = &probes[i];
        if (probe->call && is_named(probe, 0, name)) return *code = probe->call(value), 1;
        for (size_t m = 0; m < probe->member_count; ++m)
            if (is_named(probe, &probe->members[m], name))
                return *code = with_member(probe, &probe->members[m], value), 1;
    }
    return 0;
}

int main(int count, char **arguments) {
    if (count > 1 && !strcmp(arguments[1], "--list")) {
        for (size_t i = 0; i < probe_count; ++i) {
            if (probes[i].call) is_named(&probes[i], 0, 0);
            for (size_t m = 0; m < probes[i].member_count; ++m) is_named(&probes[i], &probes[i].members[m], 0);
        }
        return 0;
    }
    if (count > 1 && !freopen(arguments[1], "r", stdin)) {
        perror(arguments[1]);
        return 1;
    }
    set_up();
    char name[256];
    long long value;
    CUresult code;
    while (scanf("%255s %lli", name, &value) == 2) {
        if (!make(name, (uint64_t)value, &code)) {
            fprintf(stderr, "no probe: %s\n", name);
            return 1;
        }
        printf("%s %lld %d\n", name, value, (int)code);
        fflush(stdout);
    }
    return 0;
}

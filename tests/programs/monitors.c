/* What monitors of GPUs (nvtop, gpustat, nvitop) ask for one picture, in the order in which they ask it: every answer is a
   number that can be, or NOT_SUPPORTED. Arguments: the process to watch, how many pictures. Waits until that process keeps
   the GPU busy, then prints a line per picture: percent of the GPU, percent and bytes of the process. */
#include "nvml.h"

#include <unistd.h>

enum { NONE = -1, MILLISECOND = 1000 };

struct sample { uint32_t pid; uint64_t time; uint32_t sm, memory, encoder, decoder; };

/* A query of one number: its name, what is asked for where there are several, and the most that is no nonsense. */
struct number { const char *name; int which; unsigned most; };

static const struct number lasting[] = {
    {"nvmlDeviceGetMaxPcieLinkGeneration", NONE, 10},
    {"nvmlDeviceGetMaxPcieLinkWidth", NONE, 64},
    {"nvmlDeviceGetTemperatureThreshold", 0, 200},
    {"nvmlDeviceGetTemperatureThreshold", 1, 200},
    {0},
};

static const struct number before_the_processes[] = {
    {"nvmlDeviceGetClockInfo", 0, 10000},
    {"nvmlDeviceGetClockInfo", 1, 10000},
    {"nvmlDeviceGetMaxClockInfo", 0, 10000},
    {"nvmlDeviceGetClockInfo", 2, 20000},
    {"nvmlDeviceGetMaxClockInfo", 2, 20000},
    {"nvmlDeviceGetCurrPcieLinkGeneration", NONE, 10},
    {"nvmlDeviceGetCurrPcieLinkWidth", NONE, 64},
    {"nvmlDeviceGetPcieThroughput", 1, 500 * 1000 * 1000},
    {"nvmlDeviceGetPcieThroughput", 0, 500 * 1000 * 1000},
    {"nvmlDeviceGetFanSpeed", NONE, 100},
    {"nvmlDeviceGetTemperature", 0, 200},
    {"nvmlDeviceGetPowerUsage", NONE, 10 * 1000 * 1000},
    {"nvmlDeviceGetEnforcedPowerLimit", NONE, 10 * 1000 * 1000},
    {"nvmlDeviceGetPowerManagementLimit", NONE, 10 * 1000 * 1000},
    {"nvmlDeviceGetPerformanceState", NONE, 32},
    {"nvmlDeviceGetPersistenceMode", NONE, 1},
    {"nvmlDeviceGetDisplayActive", NONE, 1},
    {"nvmlDeviceGetComputeMode", NONE, 3},
    {0},
};

static void ask(void *device, const struct number *numbers)
{
    for (; numbers->name; numbers++) {
        unsigned value = UINT32_MAX;
        fn query = find(nvml, numbers->name);
        int code = numbers->which == NONE ? query(device, &value) : query(device, numbers->which, &value);
        if (code == NOT_SUPPORTED || (code == SUCCESS && value <= numbers->most))
            continue;
        printf("%s %d gave %d: %u\n", numbers->name, numbers->which, code, value);
        exit(1);
    }
}

static unsigned busy(void *device)
{
    struct { unsigned gpu, memory; } percent = {200, 200};
    CHECK(NVML(nvmlDeviceGetUtilizationRates)(device, &percent) == SUCCESS && percent.gpu <= 100 && percent.memory <= 100);
    return percent.gpu;
}

static void coders(void *device)
{
    unsigned percent = 0, microseconds = 0;
    int code = NVML(nvmlDeviceGetEncoderUtilization)(device, &percent, &microseconds);
    CHECK(code == NOT_SUPPORTED || (code == SUCCESS && percent <= 100));
    code = NVML(nvmlDeviceGetDecoderUtilization)(device, &percent, &microseconds);
    CHECK(code == NOT_SUPPORTED || (code == SUCCESS && percent <= 100));
}

static void facts(void *device)
{
    char text[128];
    struct pci pci;
    CHECK(NVML(nvmlDeviceGetPciInfo_v3)(device, &pci) == SUCCESS && strlen(pci.id_text) == 16);
    CHECK(NVML(nvmlDeviceGetName)(device, text, sizeof text) == SUCCESS && *text);
    CHECK(NVML(nvmlDeviceGetUUID)(device, text, sizeof text) == SUCCESS && !strncmp(text, "GPU-", 4));
    ask(device, lasting);
}

/* Bytes of the watched process in a list that grows until it is long enough; 0 where it is not in it. */
static uint64_t bytes(void *device, const char *list, unsigned watched)
{
    struct process *rows = 0;
    unsigned room = 0, count = 0;
    int code;
    while ((code = find(nvml, list)(device, &count, rows)) == INSUFFICIENT_SIZE) {
        CHECK(count > room);
        room = count;
        CHECK((rows = realloc(rows, room * sizeof *rows)));
    }
    CHECK(code == SUCCESS && count <= room);
    uint64_t used = 0;
    for (unsigned row = 0; row < count; row++)
        if (rows[row].pid == watched)
            used = rows[row].used;
    free(rows);
    return used;
}

/* Percent of the GPU that the watched process has had since the last picture. */
static unsigned share(void *device, unsigned watched, uint64_t *last)
{
    struct sample rows[64];
    unsigned count = 0, percent = UINT32_MAX;
    uint64_t since = *last;
    CHECK(NVML(nvmlDeviceGetProcessUtilization)(device, (void *)0, &count, since) == INSUFFICIENT_SIZE);
    CHECK(count && count <= 64);
    CHECK(NVML(nvmlDeviceGetProcessUtilization)(device, rows, &count, since) == SUCCESS);
    for (unsigned row = 0; row < count; row++) {
        CHECK(rows[row].time > since && rows[row].sm <= 100 && rows[row].encoder <= 100 && rows[row].decoder <= 100);
        *last = rows[row].time;
        if (rows[row].pid == watched)
            percent = rows[row].sm;
    }
    CHECK(percent <= 100);
    return percent;
}

static void picture(void *device, unsigned watched, uint64_t *last)
{
    struct memory memory;
    unsigned percent = busy(device);
    coders(device);
    CHECK(NVML(nvmlDeviceGetMemoryInfo)(device, &memory) == SUCCESS && memory.used + memory.free == memory.total);
    ask(device, before_the_processes);
    CHECK(!bytes(device, "nvmlDeviceGetGraphicsRunningProcesses_v3", watched));
    uint64_t used = bytes(device, "nvmlDeviceGetComputeRunningProcesses_v3", watched);
    CHECK(!bytes(device, "nvmlDeviceGetMPSComputeRunningProcesses_v3", watched));
    CHECK(used <= memory.used);
    printf("gpu %u process %u bytes %llu\n", percent, share(device, watched, last), (unsigned long long)used);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    unsigned watched = (unsigned)strtoul(argv[1], 0, 10), pictures = (unsigned)strtoul(argv[2], 0, 10), count = 0;
    nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    CHECK(nvml && NVML(nvmlInit_v2)() == SUCCESS);
    CHECK(NVML(nvmlDeviceGetCount_v2)(&count) == SUCCESS && count == 1);
    void *device = 0;
    uint64_t last = 0;
    CHECK(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &device) == SUCCESS);
    facts(device);
    for (unsigned tries = 0; !bytes(device, "nvmlDeviceGetComputeRunningProcesses_v3", watched) || !busy(device); tries++) {
        CHECK(tries < 600);
        usleep(100 * MILLISECOND);
    }
    for (unsigned number = 0; number < pictures; number++) {
        picture(device, watched, &last);
        // Not in step with the kernel's ticks.
        usleep((500 + 3 * number) * MILLISECOND);
    }
    CHECK(NVML(nvmlShutdown)() == SUCCESS);
    return 0;
}

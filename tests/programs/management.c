/* A program of the management library and CUDA's driver, both found as programs find them: what the two say of one device
   must agree. Arguments: a quota in bytes (0: none), or `monitor`, or
   `hold`, or `peers reached` or `peers apart` with two vGPUs. Prints one line per check; exits 1 at the first that fails. */
#include "nvml.h"

#include <unistd.h>

static void *cuda;

#define CUDA(name) find(cuda, #name)

enum { INVALID_ARGUMENT = 2, NOT_FOUND = 6, VERSION_MISMATCH = 25 };

struct memory_v2 { uint32_t version; uint64_t total, reserved, free, used; };
struct process_v1 { uint32_t pid; uint64_t used; };
struct field { uint32_t field, scope; int64_t time, latency; uint32_t kind, result; uint64_t value; };

/* The library counts who initialised it and answers nothing before. */
static void counts_its_users(void)
{
    unsigned count;
    CHECK(NVML(nvmlDeviceGetCount_v2)(&count) == UNINITIALIZED);
    CHECK(NVML(nvmlDeviceGetSamples)() == UNINITIALIZED);
    CHECK(NVML(nvmlShutdown)() == UNINITIALIZED);
    CHECK(NVML(nvmlInit_v2)() == SUCCESS);
    CHECK(NVML(nvmlInit)() == SUCCESS);
    CHECK(NVML(nvmlShutdown)() == SUCCESS);
    CHECK(NVML(nvmlDeviceGetCount_v2)(&count) == SUCCESS);
    CHECK(NVML(nvmlShutdown)() == SUCCESS);
    CHECK(NVML(nvmlDeviceGetCount_v2)(&count) == UNINITIALIZED);
    CHECK(NVML(nvmlInitWithFlags)(0) == SUCCESS);
    const char *(*text)(int) = (const char *(*)(int))dlsym(nvml, "nvmlErrorString");
    CHECK(!strcmp(text(0), "Success") && !strcmp(text(3), "Not Supported") && !strcmp(text(12345), "Unknown Error"));
    puts("users are counted");
}

static void refuses_what_is_wrong(void *device)
{
    char text[96];
    unsigned number = 0;
    void *other;
    CHECK(NVML(nvmlDeviceGetHandleByIndex_v2)(99, &other) == INVALID_ARGUMENT);
    CHECK(NVML(nvmlDeviceGetHandleByIndex_v2)(0, (void *)0) == INVALID_ARGUMENT);
    CHECK(NVML(nvmlDeviceGetName)((void *)0, text, 96) == INVALID_ARGUMENT);
    CHECK(NVML(nvmlDeviceGetName)((void *)&text, text, 96) == INVALID_ARGUMENT);
    CHECK(NVML(nvmlDeviceGetName)(device, text, 2) == INSUFFICIENT_SIZE);
    CHECK(NVML(nvmlDeviceGetName)(device, (void *)0, 96) == INVALID_ARGUMENT);
    CHECK(NVML(nvmlDeviceGetHandleByUUID)("GPU-nobody", &other) == NOT_FOUND);
    CHECK(NVML(nvmlDeviceGetHandleByPciBusId_v2)("nonsense", &other) == INVALID_ARGUMENT);
    CHECK(NVML(nvmlDeviceGetTemperature)(device, 9, &number) == INVALID_ARGUMENT);
    CHECK(NVML(nvmlDeviceGetNvLinkCapability)(device, 0, 6, &number) == INVALID_ARGUMENT);
    CHECK(NVML(nvmlDeviceSetPersistenceMode)(device, 1) == NOT_SUPPORTED);
    puts("what is wrong is refused");
}

static void agrees_with_cuda(void *device)
{
    int count = -1, major = 0, minor = 0, cuda_major = 0, cuda_minor = 0, version = 0, cuda_version = 0;
    unsigned nvml_count = 0, index = 9;
    char name[96], cuda_name[96], uuid[96], bus[64];
    unsigned char bytes[16];
    CHECK(CUDA(cuDeviceGetCount)(&count) == 0 && NVML(nvmlDeviceGetCount_v2)(&nvml_count) == SUCCESS);
    CHECK(count > 0 && (unsigned)count == nvml_count);
    CHECK(NVML(nvmlDeviceGetIndex)(device, &index) == SUCCESS && index == 0);
    CHECK(CUDA(cuDeviceGetName)(cuda_name, 96, 0) == 0 && NVML(nvmlDeviceGetName)(device, name, 96) == SUCCESS);
    CHECK(!strcmp(name, cuda_name));
    CHECK(CUDA(cuDeviceGetUuid)(bytes, 0) == 0 && NVML(nvmlDeviceGetUUID)(device, uuid, 96) == SUCCESS);
    char expected[48] = "GPU-", *at = expected + 4;
    for (int byte = 0; byte < 16; byte++)
        at += sprintf(at, "%s%02x", byte == 4 || byte == 6 || byte == 8 || byte == 10 ? "-" : "", bytes[byte]);
    CHECK(!strcmp(uuid, expected));
    CHECK(CUDA(cuDeviceGetPCIBusId)(bus, 64, 0) == 0);
    void *same = 0;
    CHECK(NVML(nvmlDeviceGetHandleByPciBusId_v2)(bus, &same) == SUCCESS && same == device);
    same = 0;
    CHECK(NVML(nvmlDeviceGetHandleByUUID)(uuid, &same) == SUCCESS && same == device);
    struct pci pci;
    CHECK(NVML(nvmlDeviceGetPciInfo_v3)(device, &pci) == SUCCESS && strlen(pci.id_text) == 16);
    CHECK(CUDA(cuDeviceGetAttribute)(&cuda_major, 75, 0) == 0 && CUDA(cuDeviceGetAttribute)(&cuda_minor, 76, 0) == 0);
    CHECK(NVML(nvmlDeviceGetCudaComputeCapability)(device, &major, &minor) == SUCCESS);
    CHECK(major == cuda_major && minor == cuda_minor);
    CHECK(CUDA(cuDriverGetVersion)(&cuda_version) == 0);
    CHECK(NVML(nvmlSystemGetCudaDriverVersion)(&version) == SUCCESS && version == cuda_version);
    CHECK(NVML(nvmlSystemGetDriverVersion)(name, 80) == SUCCESS && strlen(name) > 2);
    CHECK(NVML(nvmlSystemGetNVMLVersion)(name, 80) == SUCCESS && !strncmp(name, "13.", 3));
    puts("devices agree");
}

/* The bytes NVML shows once they are what is expected; a daemon hears of an allocation a moment later. */
static uint64_t used_becomes(void *device, uint64_t expected)
{
    struct memory memory = {0};
    for (int tries = 0; tries < 100; tries++) {
        CHECK(NVML(nvmlDeviceGetMemoryInfo)(device, &memory) == SUCCESS);
        CHECK(memory.used + memory.free == memory.total);
        if (memory.used == expected)
            break;
        usleep(50000);
    }
    return memory.used;
}

static void shows_memory(void *device, uint64_t quota)
{
    size_t cuda_total = 0, free = 0, total = 0;
    struct memory memory;
    struct memory_v2 second = {.version = sizeof second | 2 << 24};
    CHECK(CUDA(cuDeviceTotalMem_v2)(&cuda_total, 0) == 0);
    CHECK(NVML(nvmlDeviceGetMemoryInfo)(device, &memory) == SUCCESS);
    CHECK(memory.total == cuda_total && (!quota || memory.total == quota));
    CHECK(NVML(nvmlDeviceGetMemoryInfo_v2)(device, &second) == SUCCESS && second.total == memory.total);
    second.version = 1;
    CHECK(NVML(nvmlDeviceGetMemoryInfo_v2)(device, &second) == VERSION_MISMATCH);
    uint64_t at;
    CHECK(CUDA(cuMemAlloc_v2)(&at, 64 << 20) == 0);
    CHECK(CUDA(cuMemGetInfo_v2)(&free, &total) == 0);
    if (quota)
        CHECK(used_becomes(device, total - free) == total - free);
    puts("memory agrees");
}

static void shows_this_process(void *device)
{
    struct process rows[64];
    struct process_v1 first[64];
    unsigned count = 0, own = 64;
    for (int tries = 0; tries < 100 && (own == 64 || rows[own].used < 64 << 20); tries++) {
        usleep(50000);
        count = 64;
        CHECK(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, rows) == SUCCESS);
        for (unsigned row = 0; row < count; row++)
            if (rows[row].pid == (unsigned)getpid())
                own = row;
    }
    CHECK(own != 64 && rows[own].used >= 64 << 20 && rows[own].gpu_instance == UINT32_MAX);
    unsigned none = 0;
    CHECK(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device, &none, (void *)0) == INSUFFICIENT_SIZE && none == count);
    unsigned same = 64;
    CHECK(NVML(nvmlDeviceGetComputeRunningProcesses)(device, &same, first) == SUCCESS && same == count);
    CHECK(first[own].pid == rows[own].pid && first[own].used == rows[own].used);
    count = 0;
    CHECK(NVML(nvmlDeviceGetGraphicsRunningProcesses_v3)(device, &count, (void *)0) == SUCCESS && count == 0);
    char name[256];
    CHECK(NVML(nvmlSystemGetProcessName)(getpid(), name, 256) == SUCCESS && strstr(name, "management"));
    CHECK(NVML(nvmlSystemGetProcessName)(0x7fffffff, name, 256) == NOT_FOUND);
    puts("this process is shown");
}

static void answers_or_says_that_it_cannot(void *device)
{
    struct { unsigned gpu, memory; } busy = {200, 200};
    unsigned number = 0, pending = 0;
    CHECK(NVML(nvmlDeviceGetUtilizationRates)(device, &busy) == SUCCESS && busy.gpu <= 100 && busy.memory <= 100);
    CHECK(NVML(nvmlDeviceGetMigMode)(device, &number, &pending) == NOT_SUPPORTED);
    CHECK(NVML(nvmlDeviceGetP2PStatus)(device, device, 0, &number) == SUCCESS);
    CHECK(NVML(nvmlUnitGetCount)(&number) == SUCCESS && number == 0);
    int power = NVML(nvmlDeviceGetPowerUsage)(device, &number);
    CHECK(power == SUCCESS ? number > 1000 : power == NOT_SUPPORTED);
    struct field fields[2] = {{.field = 186}, {.field = 9999}};
    CHECK(NVML(nvmlDeviceGetFieldValues)(device, 2, fields) == SUCCESS);
    CHECK((int)fields[0].result == power && fields[1].result == NOT_SUPPORTED);
    unsigned long cpus[16];
    CHECK(NVML(nvmlDeviceGetCpuAffinity)(device, 16, cpus) == SUCCESS && cpus[0] & 1);
    puts("readings are answered or not supported");
}

/* The questions by which NCCL finds its way, in its own layouts: those that must be answered are, the others are answered
   or not supported. */
static void answers_nccl(void *device)
{
    unsigned number = 0;
    struct field fields[2] = {{.field = 165}, {.field = 170}};
    CHECK(NVML(nvmlDeviceGetFieldValues)(device, 2, fields) == SUCCESS);
    CHECK(fields[0].result == SUCCESS ? fields[0].value <= 1 : fields[0].result == NOT_SUPPORTED);
    CHECK(fields[1].result == SUCCESS ? fields[1].value <= 64 : fields[1].result == NOT_SUPPORTED);
    int link = NVML(nvmlDeviceGetNvLinkCapability)(device, 0, 0, &number);
    CHECK(link == SUCCESS ? number <= 1 : link == NOT_SUPPORTED);
    CHECK(NVML(nvmlDeviceGetNvLinkCapability)(device, 99, 0, &number) == INVALID_ARGUMENT);
    /* A struct of 52 bytes: NVIDIA's library writes one byte more, the text's NUL. */
    char pci[68];
    memset(pci, '~', sizeof pci);
    CHECK(NVML(nvmlDeviceGetPciInfo_v3)(device, pci) == SUCCESS);
    CHECK(!pci[52] && pci[53] == '~' && pci[67] == '~' && strlen(pci + 36) == 16);
    memset(pci, '~', sizeof pci);
    CHECK(NVML(nvmlDeviceGetPciInfo)(device, pci) == SUCCESS && strlen(pci) == 12 && pci[31] != '~' && pci[32] == '~');
    memset(pci, '~', sizeof pci);
    int remote = NVML(nvmlDeviceGetNvLinkRemotePciInfo)(device, 0, pci);
    CHECK((remote == SUCCESS || remote == NOT_SUPPORTED) && pci[32] == '~');
    int speed = NVML(nvmlDeviceGetPcieLinkMaxSpeed)(device, &number);
    CHECK(speed == SUCCESS ? number >= 1 && number <= 6 : speed == NOT_SUPPORTED);
    CHECK(NVML(nvmlDeviceGetGpuFabricInfoV)(device, pci) == NOT_SUPPORTED);
    CHECK(NVML(nvmlDeviceGetPlatformInfo)(device, pci) == NOT_SUPPORTED);
    struct { unsigned version, environment, enabled, tools, several; } settings = {.version = 20 | 1 << 24};
    int confidential = NVML(nvmlSystemGetConfComputeSettings)(&settings);
    CHECK(confidential == SUCCESS ? settings.enabled <= 1 : confidential == NOT_SUPPORTED);
    settings.version = 1;
    CHECK(NVML(nvmlSystemGetConfComputeSettings)(&settings) == VERSION_MISMATCH);
    puts("NCCL finds its way");
}

/* Two vGPUs: whether kernels of one reach the other's memory, and which of them a bus id names. */
static int peers(int reached)
{
    nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    CHECK(nvml && NVML(nvmlInit_v2)() == SUCCESS);
    void *devices[2] = {0}, *found = 0;
    unsigned count = 0, status = 99;
    CHECK(NVML(nvmlDeviceGetCount_v2)(&count) == SUCCESS && count == 2);
    struct pci pci[2];
    for (unsigned index = 0; index < 2; index++) {
        CHECK(NVML(nvmlDeviceGetHandleByIndex_v2)(index, &devices[index]) == SUCCESS);
        CHECK(NVML(nvmlDeviceGetPciInfo_v3)(devices[index], &pci[index]) == SUCCESS);
    }
    for (unsigned capability = 0; capability < 2; capability++)
        for (unsigned from = 0; from < 2; from++) {
            CHECK(NVML(nvmlDeviceGetP2PStatus)(devices[from], devices[!from], capability, &status) == SUCCESS);
            CHECK(status == (reached ? 0 : 5));
        }
    CHECK(NVML(nvmlDeviceGetP2PStatus)(devices[0], devices[1], 99, &status) == INVALID_ARGUMENT);
    /* Where two have the same bus id, the first. */
    CHECK(NVML(nvmlDeviceGetHandleByPciBusId)(pci[1].id_text, &found) == SUCCESS);
    CHECK(found == devices[strcmp(pci[0].id_text, pci[1].id_text) ? 1 : 0]);
    puts("PASSED");
    return 0;
}

/* What a monitor does: looks, and takes nothing. */
static int monitor(void)
{
    nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    CHECK(nvml && NVML(nvmlInit_v2)() == SUCCESS);
    void *device = 0;
    struct process rows[64];
    unsigned count = 64;
    CHECK(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &device) == SUCCESS);
    CHECK(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, rows) == SUCCESS);
    for (unsigned row = 0; row < count; row++)
        printf("process %u\n", rows[row].pid);
    return 0;
}

/* Takes a vGPU and keeps it until it is killed. */
static int hold(void)
{
    uint64_t at;
    void *context = 0;
    cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    CHECK(cuda && CUDA(cuInit)(0) == 0 && CUDA(cuDevicePrimaryCtxRetain)(&context, 0) == 0);
    CHECK(CUDA(cuCtxSetCurrent)(context) == 0 && CUDA(cuMemAlloc_v2)(&at, 64 << 20) == 0);
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "monitor"))
        return monitor();
    if (argc > 1 && !strcmp(argv[1], "hold"))
        return hold();
    if (argc > 2 && !strcmp(argv[1], "peers"))
        return peers(!strcmp(argv[2], "reached"));
    uint64_t quota = argc > 1 ? strtoull(argv[1], 0, 10) : 0;
    nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    CHECK(nvml && cuda);
    counts_its_users();
    void *device = 0, *context = 0;
    CHECK(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &device) == SUCCESS && device);
    refuses_what_is_wrong(device);
    struct memory before;
    CHECK(NVML(nvmlDeviceGetMemoryInfo)(device, &before) == SUCCESS && (!quota || before.total == quota));
    CHECK(CUDA(cuInit)(0) == 0 && CUDA(cuDevicePrimaryCtxRetain)(&context, 0) == 0);
    CHECK(CUDA(cuCtxSetCurrent)(context) == 0);
    agrees_with_cuda(device);
    shows_memory(device, quota);
    shows_this_process(device);
    answers_or_says_that_it_cannot(device);
    answers_nccl(device);
    CHECK(NVML(nvmlShutdown)() == SUCCESS);
    puts("PASSED");
    return 0;
}

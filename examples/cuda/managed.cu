// Managed memory: one pointer for host and device. Managed memory as programs use it: the tutorials' sum of two arrays,
// managed variables, and a list that the host links and a kernel changes. Either side touches little of a large array.
// Host functions and graphs read earlier writes, and threads have memory of their own.
// Argument: one part alone (add, list, variables, little, functions, graphs, threads), else all of them.
#include "check.h"

#include <atomic>
#include <cstring>
#include <thread>

__global__ void add(size_t count, const float *x, float *y) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x) y[i] += x[i];
}

template <typename T>
static T *managed(size_t count, unsigned flags = cudaMemAttachGlobal) {
    T *pointer = nullptr;
    CHECK(cudaMallocManaged(&pointer, count * sizeof(T), flags));
    return pointer;
}

// The tutorial, three times over the same arrays, with the host reading all and writing some in between.
static void sum_of_arrays(Verdict &verdict) {
    const size_t count = 1 << 20;
    float *x = managed<float>(count), *y = managed<float>(count);
    for (size_t i = 0; i < count; ++i) {
        x[i] = 1.0f;
        y[i] = 2.0f;
    }
    bool right = true;
    for (int round = 0; round < 3; ++round) {
        add<<<64, 256>>>(count, x, y);
        CHECK_LAUNCH();
        CHECK(cudaDeviceSynchronize());
        for (size_t i = 0; i < count; ++i) right &= y[i] == 3.0f + static_cast<float>(round) + (i == 77 && round ? 9 * round : 0);
        y[77] += 9.0f;
    }
    verdict.expect(right, "the host sees each sum, and the device what the host wrote in between");
    CHECK(cudaFree(x));
    CHECK(cudaFree(y));
}

struct Node {
    int value;
    Node *next;
    int padding[1000];
};

__global__ void walk(Node *node, int *sum) {
    for (*sum = 0; node != nullptr; node = node->next) {
        *sum += node->value;
        node->value = -node->value;
    }
}

// Every node an allocation of its own; the kernel follows the host's pointers, the host goes the list back and forth.
static void linked_list(Verdict &verdict) {
    const int count = 200;
    Node *first = nullptr;
    for (int i = 0; i < count; ++i) {
        Node *node = managed<Node>(1);
        node->value = i;
        node->next = first;
        first = node;
    }
    int *sum = managed<int>(1);
    walk<<<1, 1>>>(first, sum);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    verdict.expect(*sum == count * (count - 1) / 2, "the kernel walks the host's list");
    int seen = 0;
    for (Node *node = first; node != nullptr; node = node->next) seen += node->value;
    verdict.expect(seen == -count * (count - 1) / 2, "the host sees the nodes the kernel changed");
    // A node in the middle is taken out by the host, and is gone for the kernel.
    Node *gone = first->next;
    first->next = gone->next;
    const int value = gone->value;
    CHECK(cudaFree(gone));
    walk<<<1, 1>>>(first, sum);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    verdict.expect(*sum == seen - value, "the kernel walks the list the host has changed");
    while (first != nullptr) {
        Node *next = first->next;
        CHECK(cudaFree(first));
        first = next;
    }
    CHECK(cudaFree(sum));
}

__managed__ int answer = 41;
__managed__ double table[5000] = {0.5, 1.5};
__device__ int beside = 7;

__global__ void use_variables(int round) {
    answer += 1;
    beside += 1;
    for (int i = 0; i < 5000; ++i) table[i] += round;
}

static void variables(Verdict &verdict) {
    verdict.expect(answer == 41 && table[0] == 0.5 && table[1] == 1.5 && table[4999] == 0, "they begin as declared");
    use_variables<<<1, 1>>>(1);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    verdict.expect(answer == 42 && table[0] == 1.5 && table[4999] == 1, "the host sees what the kernel wrote");
    answer = 100;
    table[4999] = 10;
    use_variables<<<1, 1>>>(2);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    verdict.expect(answer == 101 && table[4999] == 12 && table[1] == 4.5, "and the kernel what the host wrote");
    int other = 0;
    CHECK(cudaMemcpyFromSymbol(&other, beside, sizeof other));
    verdict.expect(other == 9, "a variable beside them that is the device's alone is left alone");
}

__global__ void poke(unsigned char *bytes, size_t at, unsigned char value) { bytes[at] = value; }

// 48 MiB, of which few bytes are touched, far apart.
static void little_of_much(Verdict &verdict) {
    const size_t bytes = 48 << 20, step = (1 << 20) + 4099;
    unsigned char *memory = managed<unsigned char>(bytes);
    std::vector<unsigned char> want(bytes);
    for (size_t at = 5; at < bytes; at += step) memory[at] = want[at] = static_cast<unsigned char>(at / step + 1);
    Inputs inputs;
    bool right = true;
    for (int round = 0; round < 20; ++round) {
        const size_t at = inputs.below(static_cast<uint32_t>(bytes));
        poke<<<1, 1>>>(memory, at, static_cast<unsigned char>(round));
        want[at] = static_cast<unsigned char>(round);
        CHECK(cudaDeviceSynchronize());
        right &= memory[at] == want[at];
        const size_t other = inputs.below(static_cast<uint32_t>(bytes));
        memory[other] = want[other] = static_cast<unsigned char>(round + 100);
    }
    right &= std::memcmp(memory, want.data(), bytes) == 0;
    verdict.expect(right, "few bytes of many are the same on both sides");
    std::vector<unsigned char> copied(bytes);
    CHECK(cudaMemcpy(copied.data(), memory, bytes, cudaMemcpyDefault));
    verdict.expect(copied == want, "and a copy of all of them is");
    CHECK(cudaFree(memory));
}

__global__ void twice(int *value) { *value *= 2; }

struct Told {
    int *value;
    int seen;
};

static void CUDART_CB add_one(void *user) {
    Told *told = static_cast<Told *>(user);
    told->seen = *told->value;
    *told->value += 1;
}

// A host function reads what the kernel before it wrote, and the kernel behind it reads what the function wrote.
static void host_functions(Verdict &verdict) {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    int *value = managed<int>(1);
    *value = 5;
    Told first{value, 0}, second{value, 0};
    twice<<<1, 1, 0, stream>>>(value);
    CHECK(cudaLaunchHostFunc(stream, add_one, &first));
    twice<<<1, 1, 0, stream>>>(value);
    CHECK(cudaLaunchHostFunc(stream, add_one, &second));
    twice<<<1, 1, 0, stream>>>(value);
    CHECK(cudaStreamSynchronize(stream));
    verdict.expect(first.seen == 10 && second.seen == 22 && *value == 46, "kernels and host functions take turns");
    CHECK(cudaFree(value));
    CHECK(cudaStreamDestroy(stream));
}

static void graphs(Verdict &verdict) {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    int *value = managed<int>(1), *copy = managed<int>(1);
    Told told{value, 0};
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    twice<<<1, 1, 0, stream>>>(value);
    CHECK(cudaLaunchHostFunc(stream, add_one, &told));
    twice<<<1, 1, 0, stream>>>(value);
    CHECK(cudaMemcpyAsync(copy, value, sizeof(int), cudaMemcpyDefault, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    bool right = true;
    for (int round = 1; round < 5; ++round) {
        *value = round;
        *copy = 0;
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        right &= told.seen == 2 * round && *value == 4 * round + 2 && *copy == *value;
    }
    verdict.expect(right, "a graph finds what the host wrote before each launch");
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaFree(value));
    CHECK(cudaFree(copy));
    CHECK(cudaStreamDestroy(stream));
}

__global__ void scale(int *values, int count, int factor) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) values[i] *= factor;
}

// Each thread has a stream and memory attached to it: it touches it when its own stream is done, whatever others do.
static void threads(Verdict &verdict) {
    std::atomic<int> wrong{0};
    auto body = [&](int own) {
        cudaStream_t stream;
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        const int count = 3000;
        int *values = managed<int>(count, cudaMemAttachHost);
        CHECK(cudaStreamAttachMemAsync(stream, values, 0, cudaMemAttachSingle));
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < count; ++i) values[i] = i + own;
        for (int round = 0; round < 25; ++round) {
            scale<<<blocks_for(count, 128), 128, 0, stream>>>(values, count, 3);
            CHECK(cudaStreamSynchronize(stream));
            for (int i = 0; i < count; ++i) {
                if (values[i] != 3 * (i + own + round)) ++wrong;
                values[i] = i + own + round + 1;
            }
        }
        CHECK(cudaStreamDestroy(stream));
        CHECK(cudaFree(values));
    };
    std::vector<std::thread> all;
    for (int own = 0; own < 4; ++own) all.emplace_back(body, own * 1000);
    for (std::thread &thread : all) thread.join();
    verdict.expect(wrong == 0, "threads with memory of their own do not disturb each other");

    // Many threads touch the same memory at once after one wait.
    const int count = 1 << 18;
    int *shared = managed<int>(count);
    for (int i = 0; i < count; ++i) shared[i] = i;
    scale<<<blocks_for(count, 128), 128>>>(shared, count, 2);
    CHECK(cudaDeviceSynchronize());
    auto look = [&](int own) {
        for (int i = own; i < count; i += 8) {
            if (shared[i] != 2 * i) ++wrong;
            shared[i] += 1;
        }
    };
    all.clear();
    for (int own = 0; own < 8; ++own) all.emplace_back(look, own);
    for (std::thread &thread : all) thread.join();
    scale<<<blocks_for(count, 128), 128>>>(shared, count, 2);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < count; ++i) wrong += shared[i] != 4 * i + 2;
    verdict.expect(wrong == 0, "threads touch the same memory at once");
    CHECK(cudaFree(shared));
}

int main(int argc, char **argv) {
    Verdict verdict;
    auto wanted = [&](const char *part) { return argc < 2 || std::strcmp(argv[1], part) == 0; };
    if (wanted("variables")) variables(verdict);
    if (wanted("add")) sum_of_arrays(verdict);
    if (wanted("list")) linked_list(verdict);
    if (wanted("little")) little_of_much(verdict);
    if (wanted("functions")) host_functions(verdict);
    if (wanted("graphs")) graphs(verdict);
    if (wanted("threads")) threads(verdict);
    return verdict.finish();
}

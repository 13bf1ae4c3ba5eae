// Functions of the program in streams: host functions and stream callbacks, in order within a stream and, through
// events, between streams. Also their arguments, and events with timing around work of a known length.
// No argument. Checks every order and value, and that times between events are at least what passed.
#include "check.h"

#include <chrono>
#include <mutex>
#include <thread>

__global__ void store(int *data, int value) { *data = value; }

// Observations of the functions, in the order in which they ran.
struct Diary {
    std::mutex mutex;
    std::vector<int> entries;

    void write(int entry) {
        const std::lock_guard<std::mutex> lock(mutex);
        entries.push_back(entry);
    }
};

struct Entry {
    Diary *diary;
    int number;
    const int *value;
    cudaStream_t stream;
    bool right_thread_and_stream;
    std::thread::id caller;
};

static void CUDART_CB note(void *data) {
    Entry *entry = static_cast<Entry *>(data);
    entry->right_thread_and_stream = std::this_thread::get_id() != entry->caller;
    entry->diary->write(entry->number * 1000 + *entry->value);
}

static void CUDART_CB note_with_status(cudaStream_t stream, cudaError_t status, void *data) {
    Entry *entry = static_cast<Entry *>(data);
    entry->right_thread_and_stream =
        std::this_thread::get_id() != entry->caller && stream == entry->stream && status == cudaSuccess;
    entry->diary->write(entry->number * 1000 + *entry->value);
}

static void CUDART_CB sleep_a_while(void *milliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(*static_cast<int *>(milliseconds)));
}

// Kernel, copy, function; again and again: each function sees the copy before it and not the one behind it.
static void in_one_stream(Verdict &verdict) {
    constexpr int rounds = 12;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    int *device = device_alloc<int>(1), *host;
    CHECK(cudaMallocHost(&host, sizeof(int)));
    Diary diary;
    std::vector<Entry> entries;
    for (int i = 0; i < rounds; ++i) entries.push_back({&diary, i, host, stream, false, std::this_thread::get_id()});
    std::vector<int> want;
    for (int i = 0; i < rounds; ++i) {
        store<<<1, 1, 0, stream>>>(device, 100 + i);
        CHECK(cudaMemcpyAsync(host, device, sizeof(int), cudaMemcpyDeviceToHost, stream));
        if (i % 2 == 0)
            CHECK(cudaLaunchHostFunc(stream, note, &entries[static_cast<size_t>(i)]));
        else
            CHECK(cudaStreamAddCallback(stream, note_with_status, &entries[static_cast<size_t>(i)], 0));
        want.push_back(i * 1000 + 100 + i);
    }
    CHECK(cudaStreamSynchronize(stream));
    verdict.expect(diary.entries == want, "functions run once each, in order, after the copy before them");
    for (const Entry &entry : entries)
        verdict.expect(entry.right_thread_and_stream, "a function runs on a thread of CUDA and knows its stream");
    verdict.expect(cudaStreamAddCallback(stream, note_with_status, &entries[0], 1) == cudaErrorInvalidValue,
                   "a callback's flags must be 0");
    (void)cudaGetLastError();
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(device));
    CHECK(cudaFreeHost(host));
}

// A stream waits for the function of another stream: kernels behind the event see what the function wrote.
static void between_streams(Verdict &verdict) {
    cudaStream_t first, second;
    CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    cudaEvent_t done;
    CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    int *host, *device = device_alloc<int>(1);
    CHECK(cudaMallocHost(&host, sizeof(int)));
    *host = 0;
    struct Writer {
        int *target;
    } writer = {host};
    const auto write = [](void *data) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        *static_cast<Writer *>(data)->target = 77;
    };
    CHECK(cudaLaunchHostFunc(first, write, &writer));
    CHECK(cudaEventRecord(done, first));
    CHECK(cudaStreamWaitEvent(second, done, 0));
    CHECK(cudaMemcpyAsync(device, host, sizeof(int), cudaMemcpyHostToDevice, second));
    verdict.expect(cudaStreamQuery(second) == cudaErrorNotReady, "the second stream waits for the function");
    (void)cudaGetLastError();
    CHECK(cudaStreamSynchronize(second));
    verdict.expect(host_copy(device, 1)[0] == 77, "a copy behind the event takes what the function wrote");
    CHECK(cudaEventDestroy(done));
    CHECK(cudaStreamDestroy(first));
    CHECK(cudaStreamDestroy(second));
    CHECK(cudaFree(device));
    CHECK(cudaFreeHost(host));
}

// Events around a function that sleeps: the time between them is at least the sleep, and times add up.
static void times(Verdict &verdict) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaEvent_t begin, middle, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreateWithFlags(&middle, cudaEventBlockingSync));
    CHECK(cudaEventCreate(&end));
    int milliseconds = 30;
    float unused = 0;
    verdict.expect(cudaEventElapsedTime(&unused, begin, end) == cudaErrorInvalidResourceHandle,
                   "events never recorded give no time");
    (void)cudaGetLastError();
    CHECK(cudaEventRecord(begin, stream));
    CHECK(cudaLaunchHostFunc(stream, sleep_a_while, &milliseconds));
    CHECK(cudaEventRecord(middle, stream));
    CHECK(cudaLaunchHostFunc(stream, sleep_a_while, &milliseconds));
    CHECK(cudaEventRecord(end, stream));
    verdict.expect(cudaEventQuery(end) == cudaErrorNotReady, "an event is not ready before its work is done");
    (void)cudaGetLastError();
    verdict.expect(cudaEventElapsedTime(&unused, begin, end) == cudaErrorNotReady, "nor has it a time");
    (void)cudaGetLastError();
    CHECK(cudaEventSynchronize(end));
    float first = 0, second = 0, whole = 0, back = 0;
    CHECK(cudaEventElapsedTime(&first, begin, middle));
    CHECK(cudaEventElapsedTime(&second, middle, end));
    CHECK(cudaEventElapsedTime(&whole, begin, end));
    CHECK(cudaEventElapsedTime(&back, end, begin));
    verdict.expect(first >= 29 && second >= 29 && whole < 60000, "the time between events covers the work");
    verdict.expect(std::fabs(first + second - whole) < 0.1f, "times add up");
    verdict.expect(back == -whole, "a time has a direction");

    // Recording again moves the event.
    CHECK(cudaEventRecord(begin, stream));
    CHECK(cudaEventSynchronize(begin));
    CHECK(cudaEventElapsedTime(&back, end, begin));
    verdict.expect(back >= 0, "an event stands for its last record");
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(middle));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaStreamDestroy(stream));
}

// Functions queued by several threads on one stream all run, each thread's in its order.
static void from_many_threads(Verdict &verdict) {
    constexpr int threads = 4, rounds = 25;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    Diary diary;
    const int zero = 0;
    std::vector<Entry> entries;
    for (int i = 0; i < threads * rounds; ++i) entries.push_back({&diary, i, &zero, stream, false, {}});
    std::vector<std::thread> callers;
    for (int t = 0; t < threads; ++t) {
        callers.emplace_back([&, t] {
            for (int i = 0; i < rounds; ++i)
                CHECK(cudaLaunchHostFunc(stream, note, &entries[static_cast<size_t>(t * rounds + i)]));
        });
    }
    for (std::thread &caller : callers) caller.join();
    CHECK(cudaStreamSynchronize(stream));
    verdict.expect(diary.entries.size() == threads * rounds, "every function ran once");
    std::vector<int> last(threads, -1);
    bool ordered = true;
    for (const int entry : diary.entries) {
        const int number = entry / 1000, thread = number / rounds;
        ordered &= number > last[static_cast<size_t>(thread)];
        last[static_cast<size_t>(thread)] = number;
    }
    verdict.expect(ordered, "those of one thread in its order");
    CHECK(cudaStreamDestroy(stream));
}

int main() {
    Verdict verdict;
    in_one_stream(verdict);
    between_streams(verdict);
    times(verdict);
    from_many_threads(verdict);
    return verdict.finish();
}

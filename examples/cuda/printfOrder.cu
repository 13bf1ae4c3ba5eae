// Order of kernels' output among the program's own. It appears by the end of a blocking copy or a synchronize of
// device, stream or event. A host function behind the kernels does not mix it up.
// No argument. Writes to descriptor 1 by hand; its reader, the test, checks the order of the lines.
#include "check.h"

#include <string>
#include <unistd.h>

__global__ void say(int number) { printf("kernel %d\n", number); }

static void write_line(const char *text) {
    const std::string line = std::string(text) + "\n";
    if (write(1, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::exit(1);
}

static void CUDART_CB say_too(void *text) { write_line(static_cast<const char *>(text)); }

int main() {
    Verdict verdict;
    cudaStream_t stream;
    cudaEvent_t event;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&event));
    int *data = device_alloc<int>(1), host = 0;
    write_line("begin");
    say<<<1, 1>>>(1);
    CHECK(cudaDeviceSynchronize());
    write_line("after the device");
    say<<<1, 1, 0, stream>>>(2);
    CHECK(cudaStreamSynchronize(stream));
    write_line("after the stream");
    say<<<1, 1, 0, stream>>>(3);
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaEventSynchronize(event));
    write_line("after the event");
    say<<<1, 1>>>(4);
    CHECK(cudaMemcpy(&host, data, sizeof(host), cudaMemcpyDeviceToHost));
    write_line("after the copy");
    for (int i = 5; i < 8; ++i) say<<<1, 1, 0, stream>>>(i);
    char text[] = "host function";
    CHECK(cudaLaunchHostFunc(stream, say_too, text));
    CHECK(cudaStreamSynchronize(stream));
    write_line("after the function");
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaEventDestroy(event));
    CHECK(cudaFree(data));
    return verdict.finish();
}

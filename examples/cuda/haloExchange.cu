// Steps of a sum over neighbours on a grid that two devices share: each has one half, and after every step the edges travel
// as copies between the devices, rows of one half and columns of another. Also copies by unified addresses, of the default
// stream and between memory of one device seen from the other.
// Arguments: rows and columns per device (default 96), steps (default 12). Checks every cell against the CPU's.
#include "check.h"

#include <cstring>

constexpr unsigned side = 16;

// One step on a half with a border of one cell.
__global__ void step(const unsigned *from, unsigned *to, size_t pitch, int width, int height) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x + 1;
    const int y = blockIdx.y * blockDim.y + threadIdx.y + 1;
    if (x > width || y > height) return;
    const unsigned *row = from + y * pitch;
    to[y * pitch + x] = row[x] * 3 + row[x - 1] + row[x + 1] + row[x - static_cast<long>(pitch)] + row[x + pitch];
}

struct Half {
    unsigned *cells[2];
    size_t pitch;
    cudaStream_t stream;
    cudaEvent_t ready;
};

static void cpu_step(const std::vector<unsigned> &from, std::vector<unsigned> &to, int width, int height) {
    const int pitch = width + 2;
    for (int y = 1; y <= height; ++y) {
        for (int x = 1; x <= width; ++x) {
            const unsigned *at = &from[y * pitch + x];
            to[y * pitch + x] = at[0] * 3 + at[-1] + at[1] + at[-pitch] + at[pitch];
        }
    }
}

// `beside`: the halves lie side by side and columns travel; else one above the other, and rows do.
static void exchange(Verdict &verdict, int size, int steps, bool beside) {
    const int width = beside ? 2 * size : size, height = beside ? size : 2 * size;
    std::vector<unsigned> want((width + 2) * (height + 2)), other;
    Inputs inputs(7);
    for (int y = 1; y <= height; ++y)
        for (int x = 1; x <= width; ++x) want[y * (width + 2) + x] = inputs.bits();
    other = want;
    Half halves[2];
    for (int device = 0; device < 2; ++device) {
        Half &half = halves[device];
        CHECK(cudaSetDevice(device));
        CHECK(cudaStreamCreateWithFlags(&half.stream, cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&half.ready, cudaEventDisableTiming));
        size_t bytes = 0;
        for (unsigned *&cells : half.cells) {
            CHECK(cudaMallocPitch(&cells, &bytes, (size + 2) * sizeof(unsigned), size + 2));
            CHECK(cudaMemset2D(cells, bytes, 0, (size + 2) * sizeof(unsigned), size + 2));
        }
        half.pitch = bytes / sizeof(unsigned);
        const unsigned *source = &want[beside ? device * size : device * size * (width + 2)];
        CHECK(cudaMemcpy2D(half.cells[0], bytes, source, (width + 2) * sizeof(unsigned),
                           (size + 2) * sizeof(unsigned), size + 2, cudaMemcpyHostToDevice));
        CHECK(cudaDeviceSynchronize());
    }
    for (int turn = 0; turn < steps; ++turn) {
        const int now = turn % 2, next = 1 - now;
        for (int device = 0; device < 2; ++device) {
            Half &half = halves[device];
            CHECK(cudaSetDevice(device));
            const dim3 grid(blocks_for(size, side), blocks_for(size, side)), block(side, side);
            step<<<grid, block, 0, half.stream>>>(half.cells[now], half.cells[next], half.pitch, size, size);
            CHECK_LAUNCH();
            CHECK(cudaEventRecord(half.ready, half.stream));
        }
        for (int device = 0; device < 2; ++device) {
            const Half &half = halves[device], &there = halves[1 - device];
            CHECK(cudaSetDevice(device));
            // The other's border is not read any more when its step is over.
            CHECK(cudaStreamWaitEvent(half.stream, there.ready, 0));
            const size_t bytes = half.pitch * sizeof(unsigned);
            if (beside) {
                const int edge = device == 0 ? size : 1, border = device == 0 ? 0 : size + 1;
                CHECK(cudaMemcpy2DAsync(there.cells[next] + border, there.pitch * sizeof(unsigned),
                                        half.cells[next] + edge, bytes, sizeof(unsigned), size + 2,
                                        cudaMemcpyDefault, half.stream));
            } else {
                const int edge = device == 0 ? size : 1, border = device == 0 ? 0 : size + 1;
                CHECK(cudaMemcpyPeerAsync(there.cells[next] + border * there.pitch, 1 - device,
                                          half.cells[next] + edge * half.pitch, device,
                                          (size + 2) * sizeof(unsigned), half.stream));
            }
        }
        for (int device = 0; device < 2; ++device) CHECK(cudaEventRecord(halves[device].ready, halves[device].stream));
        for (int device = 0; device < 2; ++device)
            CHECK(cudaStreamWaitEvent(halves[device].stream, halves[1 - device].ready, 0));
        cpu_step(want, other, width, height);
        std::swap(want, other);
    }
    for (int device = 0; device < 2; ++device) {
        Half &half = halves[device];
        CHECK(cudaSetDevice(device));
        CHECK(cudaStreamSynchronize(half.stream));
        std::vector<unsigned> got(size * size), cells(size * size);
        CHECK(cudaMemcpy2D(got.data(), size * sizeof(unsigned), half.cells[steps % 2] + half.pitch + 1,
                           half.pitch * sizeof(unsigned), size * sizeof(unsigned), size, cudaMemcpyDeviceToHost));
        for (int y = 0; y < size; ++y) {
            const int row = beside ? y + 1 : device * size + y + 1, column = beside ? device * size + 1 : 1;
            std::memcpy(&cells[y * size], &want[row * (width + 2) + column], size * sizeof(unsigned));
        }
        verdict.equal(beside ? "side by side" : "one above the other", got.data(), cells.data(), got.size());
        for (unsigned *cells_of_half : half.cells) CHECK(cudaFree(cells_of_half));
        CHECK(cudaStreamDestroy(half.stream));
        CHECK(cudaEventDestroy(half.ready));
    }
}

// The default stream's copies need no event: they are in order of both devices' default streams.
static void copy_by_default(Verdict &verdict) {
    constexpr size_t count = 1 << 18;
    unsigned *memory[2];
    std::vector<unsigned> want(count), got(count);
    Inputs inputs(9);
    for (unsigned &value : want) value = inputs.bits();
    for (int device = 0; device < 2; ++device) {
        CHECK(cudaSetDevice(device));
        memory[device] = device_alloc<unsigned>(count);
    }
    CHECK(cudaSetDevice(0));
    CHECK(cudaMemcpyAsync(memory[0], want.data(), count * sizeof(unsigned), cudaMemcpyDefault, nullptr));
    CHECK(cudaMemcpyPeer(memory[1], 1, memory[0], 0, count * sizeof(unsigned)));
    CHECK(cudaMemsetAsync(memory[0], 0, count * sizeof(unsigned), nullptr));
    // Seen from the other device.
    CHECK(cudaMemcpy(got.data(), memory[1], count * sizeof(unsigned), cudaMemcpyDefault));
    verdict.equal("default streams", got.data(), want.data(), count);
    CHECK(cudaSetDevice(1));
    CHECK(cudaMemcpy(memory[0], memory[1], count * sizeof(unsigned), cudaMemcpyDefault));
    CHECK(cudaMemset(memory[1], 1, count * sizeof(unsigned)));
    CHECK(cudaMemcpy(got.data(), memory[0], count * sizeof(unsigned), cudaMemcpyDeviceToHost));
    verdict.equal("and back", got.data(), want.data(), count);
    // Freed while a copy from it is under way.
    for (int turn = 0; turn < 8; ++turn) {
        CHECK(cudaSetDevice(0));
        unsigned *from = device_alloc<unsigned>(count);
        CHECK(cudaMemcpy(from, want.data(), count * sizeof(unsigned), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpyPeerAsync(memory[1], 1, from, 0, count * sizeof(unsigned), nullptr));
        CHECK(cudaFree(from));
        unsigned *again = device_alloc<unsigned>(count);
        CHECK(cudaMemset(again, turn, count * sizeof(unsigned)));
        CHECK(cudaFree(again));
        CHECK(cudaSetDevice(1));
        CHECK(cudaMemcpy(got.data(), memory[1], count * sizeof(unsigned), cudaMemcpyDeviceToHost));
        verdict.equal("freed behind the copy", got.data(), want.data(), count);
    }
    for (unsigned *pointer : memory) CHECK(cudaFree(pointer));
}

int main(int argc, char **argv) {
    Verdict verdict;
    int devices = 0;
    CHECK(cudaGetDeviceCount(&devices));
    if (!verdict.expect(devices >= 2, "two devices")) return verdict.finish();
    const int size = static_cast<int>(size_argument(argc, argv, 1, 96));
    const int steps = static_cast<int>(size_argument(argc, argv, 2, 12));
    exchange(verdict, size, steps, false);
    exchange(verdict, size, steps, true);
    copy_by_default(verdict);
    return verdict.finish();
}

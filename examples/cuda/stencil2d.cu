// Heat spreading over a plate: Jacobi steps of a five-point stencil between two buffers. Each block stages its part and
// a rim of one cell in dynamic shared memory. Rows are padded by cudaMallocPitch.
// Arguments: edge length (default 200), steps (default 16). Checks every cell against the CPU's steps.
#include "check.h"

#include <utility>

constexpr unsigned width = 32, height = 8;
constexpr float diffusion = 0.2f;

__global__ void heat_step(const float *from, float *to, size_t pitch, unsigned edge) {
    extern __shared__ float cells[];  // (height + 2) rows of (width + 2)
    const unsigned stride = width + 2;
    const int left = static_cast<int>(blockIdx.x * width) - 1;
    const int top = static_cast<int>(blockIdx.y * height) - 1;
    // The block's threads load the tile and its rim together; outside the plate it is 0 degrees.
    for (unsigned i = threadIdx.y * width + threadIdx.x; i < stride * (height + 2); i += width * height) {
        const int x = left + static_cast<int>(i % stride);
        const int y = top + static_cast<int>(i / stride);
        const bool inside = x >= 0 && y >= 0 && x < static_cast<int>(edge) && y < static_cast<int>(edge);
        cells[i] = inside ? from[y * pitch + x] : 0.0f;
    }
    __syncthreads();
    const unsigned x = blockIdx.x * width + threadIdx.x;
    const unsigned y = blockIdx.y * height + threadIdx.y;
    if (x >= edge || y >= edge) return;
    const float *cell = &cells[(threadIdx.y + 1) * stride + threadIdx.x + 1];
    const float around = cell[-1] + cell[1] + cell[-static_cast<int>(stride)] + cell[stride];
    to[y * pitch + x] = cell[0] + diffusion * (around - 4.0f * cell[0]);
}

static std::vector<float> cpu_step(const std::vector<float> &from, int edge) {
    std::vector<float> to(from.size());
    const auto at = [&](int x, int y) {
        return x >= 0 && y >= 0 && x < edge && y < edge ? from[y * edge + x] : 0.0f;
    };
    for (int y = 0; y < edge; ++y)
        for (int x = 0; x < edge; ++x) {
            const float around = at(x - 1, y) + at(x + 1, y) + at(x, y - 1) + at(x, y + 1);
            to[y * edge + x] = at(x, y) + diffusion * (around - 4.0f * at(x, y));
        }
    return to;
}

int main(int argc, char **argv) {
    const size_t edge = size_argument(argc, argv, 1, 200);
    const size_t steps = size_argument(argc, argv, 2, 16);
    std::vector<float> plate(edge * edge);
    Inputs inputs;
    for (float &cell : plate) cell = inputs.below(50) == 0 ? inputs.uniform(500, 1000) : 20.0f;

    const size_t row = edge * sizeof(float);
    float *from, *to;
    size_t pitch = 0, other_pitch = 0;
    CHECK(cudaMallocPitch(&from, &pitch, row, edge));
    CHECK(cudaMallocPitch(&to, &other_pitch, row, edge));
    Verdict verdict;
    verdict.expect(pitch == other_pitch && pitch >= row && pitch % sizeof(float) == 0, "a usable pitch");
    CHECK(cudaMemcpy2D(from, pitch, plate.data(), row, row, edge, cudaMemcpyHostToDevice));
    const dim3 block(width, height);
    const dim3 grid(blocks_for(edge, width), blocks_for(edge, height));
    const size_t shared_bytes = (width + 2) * (height + 2) * sizeof(float);
    for (size_t step = 0; step < steps; ++step) {
        heat_step<<<grid, block, shared_bytes>>>(from, to, pitch / sizeof(float), static_cast<unsigned>(edge));
        std::swap(from, to);
    }
    CHECK_LAUNCH();
    std::vector<float> got(edge * edge);
    CHECK(cudaMemcpy2D(got.data(), row, from, pitch, row, edge, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(from));
    CHECK(cudaFree(to));

    for (size_t step = 0; step < steps; ++step) plate = cpu_step(plate, static_cast<int>(edge));
    // The device contracts a multiply and an add into one rounding; the CPU does not.
    verdict.near("plate", got.data(), plate.data(), plate.size(), 1e-5, 1e-4);
    return verdict.finish();
}

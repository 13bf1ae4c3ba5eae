"""CuPy on a device: elementwise and raw kernels through NVRTC, streams, events, memory pools, pinned memory, transforms,
linear algebra, sparse matrices, random numbers, graphs of a stream, host functions. Results are compared with NumPy's."""

import cupy
import numpy

from checking import check, equal, exact, main, near, refuses


@check
def arrays():
    a = cupy.arange(1000, dtype=cupy.float32)
    equal("sum", float(a.sum()), 499_500.0)
    b = numpy.random.default_rng(0).normal(size=(300, 200))
    near("reduced", cupy.asarray(b).std(axis=0), b.std(axis=0), 1e-10, 1e-10)
    near("sorted", cupy.sort(cupy.asarray(b).ravel()), numpy.sort(b.ravel()), 0, 0)
    near("picked", cupy.asarray(b)[::7, 3:50:2], b[::7, 3:50:2], 0, 0)
    equal("unique", cupy.unique(cupy.asarray([3, 1, 3, 2])).tolist(), [1, 2, 3])
    near("cumulative", cupy.cumsum(cupy.asarray(b), axis=1), b.cumsum(axis=1), 1e-9, 1e-9)


@check
def elementwise_kernel():
    square = cupy.ElementwiseKernel("T x, T y", "T z", "z = x * x + y", "square_and_add")
    x = cupy.arange(1000, dtype=cupy.float64)
    near("values", square(x, x), numpy.arange(1000.0) ** 2 + numpy.arange(1000.0), 0, 0)
    total = cupy.ReductionKernel("T x", "T y", "x * x", "a + b", "y = a", "0", "sum_of_squares")
    near("reduction", total(x), (numpy.arange(1000.0) ** 2).sum(), 1e-12, 0)


SOURCE = r"""
extern "C" __global__ void scale(float *x, float by, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) x[i] *= by;
}
__constant__ float factors[4];
extern "C" __global__ void scale_by_constant(float *x, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) x[i] *= factors[i % 4];
}
template <typename T> __global__ void fill(T *x, T value, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) x[i] = value;
}
extern "C" __global__ void reverse(int *x) {
    extern __shared__ int staged[];
    staged[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = staged[blockDim.x - 1 - threadIdx.x];
}
"""


@check
def raw_kernels():
    module = cupy.RawModule(code=SOURCE, name_expressions=["fill<double>"], options=("-std=c++17",))
    x = cupy.arange(1000, dtype=cupy.float32)
    module.get_function("scale")((8,), (128,), (x, numpy.float32(2.5), numpy.int32(1000)))
    near("scaled", x, numpy.arange(1000.0) * 2.5)
    at = module.get_global("factors")
    cupy.ndarray(4, cupy.float32, at)[:] = cupy.asarray([1, 2, 3, 4], dtype=cupy.float32)
    y = cupy.ones(1000, dtype=cupy.float32)
    module.get_function("scale_by_constant")((8,), (128,), (y, numpy.int32(1000)))
    equal("by a constant", y[:5].tolist(), [1.0, 2.0, 3.0, 4.0, 1.0])
    z = cupy.zeros(100, dtype=cupy.float64)
    module.get_function("fill<double>")((1,), (128,), (z, numpy.float64(7), numpy.int32(100)))
    equal("template", z.sum().item(), 700.0)
    order = cupy.arange(256, dtype=cupy.int32)
    module.get_function("reverse")((1,), (256,), (order,), shared_mem=1024)
    equal("shared memory", order[:3].tolist(), [255, 254, 253])


@check
def broken_source_is_refused():
    refuses("not C++", cupy.cuda.compiler.CompileException, lambda: cupy.RawModule(code="this is no program").get_function("x"))


@check
def streams_and_events():
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
    results = []
    for number, stream in enumerate(streams):
        with stream:
            results.append((cupy.full(100_000, number, dtype=cupy.float64) * 2).sum())
    for stream in streams:
        stream.synchronize()
    equal("sums", [float(result) for result in results], [number * 200_000.0 for number in range(4)])
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    begin.record()
    cupy.ones((1000, 1000)) @ cupy.ones((1000, 1000))
    end.record()
    end.synchronize()
    equal("time", cupy.cuda.get_elapsed_time(begin, end) > 0, True)


@check
def host_function():
    seen, stream = [], cupy.cuda.Stream()
    with stream:
        x = cupy.ones(1000).sum()
        stream.launch_host_func(lambda what: seen.append(what), "first")
        stream.launch_host_func(lambda what: seen.append(what), "second")
    stream.synchronize()
    equal("in order", (seen, float(x)), (["first", "second"], 1000.0))


@check
def graph_of_a_stream():
    stream, x = cupy.cuda.Stream(non_blocking=True), cupy.zeros(1000)
    with stream:
        x += 1
        stream.synchronize()
        stream.begin_capture()
        x += 1
        x *= 2
        graph = stream.end_capture()
        graph.launch()
        graph.launch()
        stream.synchronize()
    equal("twice", cupy.unique(x).tolist(), [10.0])


@check
def memory_pools():
    pool = cupy.cuda.MemoryPool()
    with cupy.cuda.using_allocator(pool.malloc):
        a = cupy.ones(1 << 20)
        equal("used", pool.used_bytes() >= 8 << 20, True)
        del a
        equal("kept", pool.total_bytes() >= 8 << 20, True)
        pool.free_all_blocks()
        equal("given back", pool.total_bytes(), 0)
    stream_ordered = cupy.cuda.MemoryAsyncPool()
    with cupy.cuda.using_allocator(stream_ordered.malloc):
        equal("stream-ordered", float((cupy.ones(1 << 16) * 3).sum()), 3.0 * (1 << 16))
    cupy.get_default_pinned_memory_pool().free_all_blocks()


@check
def pinned_memory():
    memory = cupy.cuda.alloc_pinned_memory(1 << 20)
    host = numpy.frombuffer(memory, numpy.float64, 1 << 17)
    host[:] = numpy.arange(1 << 17)
    stream, there = cupy.cuda.Stream(non_blocking=True), cupy.empty(1 << 17)
    there.set(host, stream=stream)
    with stream:
        there += 1
    back = there.get(stream=stream)
    stream.synchronize()
    near("both ways", back, numpy.arange(1 << 17) + 1.0, 0, 0)


@check
def transforms():
    x = numpy.random.default_rng(1).normal(size=(64, 1000))
    near("fft", cupy.fft.fft(cupy.asarray(x)), numpy.fft.fft(x), 1e-9, 1e-9)
    near("2d", cupy.fft.ifft2(cupy.fft.fft2(cupy.asarray(x))), x, 1e-9, 1e-9)
    near("real", cupy.fft.irfft(cupy.fft.rfft(cupy.asarray(x))), x, 1e-9, 1e-9)


@check
def linear_algebra():
    a = numpy.random.default_rng(2).normal(size=(150, 150))
    there = cupy.asarray(a)
    near("inverse", cupy.linalg.inv(there) @ there, numpy.eye(150), 0, 1e-8)
    u, s, v = cupy.linalg.svd(there)
    near("svd", (u * s) @ v, a, 0, 1e-9)
    values, vectors = cupy.linalg.eigh(there @ there.T)
    near("eigh", (vectors * values) @ vectors.T, a @ a.T, 0, 1e-7)
    factor = cupy.linalg.cholesky(there @ there.T + cupy.eye(150))
    near("cholesky", factor @ factor.T, a @ a.T + numpy.eye(150), 0, 1e-8)
    near("solve", cupy.linalg.solve(there, cupy.ones(150)), numpy.linalg.solve(a, numpy.ones(150)), 1e-6, 1e-8)
    near("norm", cupy.linalg.norm(there), numpy.linalg.norm(a), 1e-12, 0)


@check
def sparse_matrices():
    import cupyx.scipy.sparse

    dense = numpy.random.default_rng(3).normal(size=(200, 100))
    dense[abs(dense) < 1.5] = 0
    matrix = cupyx.scipy.sparse.csr_matrix(cupy.asarray(dense))
    near("by a vector", matrix @ cupy.ones(100), dense.sum(1), 1e-10, 1e-10)
    near("by its own", (matrix @ matrix.T.tocsr()).toarray(), dense @ dense.T, 1e-10, 1e-10)
    near("columns", matrix.tocsc().toarray(), dense, 0, 0)


@check
def random_numbers():
    cupy.random.seed(5)
    old = exact(cupy.random.rand(4), cupy.random.randn(4), cupy.random.randint(0, 1000, 4))
    generator = cupy.random.default_rng(6)
    return old + exact(generator.random(4), generator.standard_normal(4))


@check
def compiled_fusion():
    @cupy.fuse()
    def fused(x, y):
        return cupy.sqrt(x * x + y * y) + 1

    x = cupy.arange(1000.0)
    near("fused", fused(x, x), numpy.sqrt(2 * numpy.arange(1000.0) ** 2) + 1, 1e-10, 0)


@check
def device_side_print():
    """What kernels print comes out at a synchronize, line by line in one thread's order."""
    kernel = cupy.RawKernel(r"""
        extern "C" __global__ void say() { for (int i = 0; i < 3; ++i) printf("from the device: %d\n", i); }
    """, "say")
    text = printed(lambda: kernel((1,), (1,), ()))
    equal("lines", [line for line in text.splitlines() if line.startswith("from the device")],
          [f"from the device: {number}" for number in range(3)])


def printed(work):
    """What the process writes to its stdout, below Python, while work runs and the device finishes it."""
    import os
    import tempfile

    with tempfile.TemporaryFile() as file:
        own = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            work()
            cupy.cuda.Device().synchronize()
        finally:
            os.dup2(own, 1)
            os.close(own)
        file.seek(0)
        return file.read().decode()


main()

"""Triton kernels: vector addition, an autotuned matmul, softmax, atomics, tensor descriptors (TMA), device-side printing.
Their results are compared with PyTorch's."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from checking import check, equal, main, near


@triton.jit
def add_kernel(x, y, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    tl.store(out + at, tl.load(x + at, inside) + tl.load(y + at, inside), inside)


@check
def vector_addition():
    for count in (1, 1000, 98_432):
        x, y = torch.randn(count, device="cuda"), torch.randn(count, device="cuda")
        out = torch.empty_like(x)
        add_kernel[(triton.cdiv(count, 256),)](x, y, out, count, BLOCK=256)
        near(f"{count} sums", out, x + y, 0, 0)


@triton.autotune(
    configs=[
        triton.Config({"M": 128, "N": 128, "K": 32}, num_stages=3, num_warps=8),
        triton.Config({"M": 64, "N": 64, "K": 32}, num_stages=4, num_warps=4),
        triton.Config({"M": 128, "N": 64, "K": 64}, num_stages=3, num_warps=4),
    ],
    key=["rows", "columns", "inner"],
)
@triton.jit
def matmul_kernel(a, b, c, rows, columns, inner, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.program_id(1) * N + tl.arange(0, N)
    step = tl.arange(0, K)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, inner, K):
        left = tl.load(a + row[:, None] * inner + start + step[None, :], row[:, None] < rows, 0.0)
        right = tl.load(b + (start + step[:, None]) * columns + column[None, :], column[None, :] < columns, 0.0)
        total += tl.dot(left, right)
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    tl.store(c + row[:, None] * columns + column[None, :], total.to(tl.float16), inside)


@check
def autotuned_matmul():
    torch.manual_seed(0)
    a = torch.randn(512, 256, device="cuda", dtype=torch.float16)
    b = torch.randn(256, 384, device="cuda", dtype=torch.float16)
    c = torch.empty(512, 384, device="cuda", dtype=torch.float16)
    matmul_kernel[lambda chosen: (triton.cdiv(512, chosen["M"]), triton.cdiv(384, chosen["N"]))](a, b, c, 512, 384, 256)
    near("product", c, a.float() @ b.float(), 1e-2, 1e-1)
    equal("one was chosen", matmul_kernel.best_config is not None, True)


@triton.jit
def softmax_kernel(x, out, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    values = tl.load(x + row + at, at < columns, -float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row + at, powers / tl.sum(powers, axis=0), at < columns)


@check
def softmax():
    x = torch.randn(300, 781, device="cuda")
    out = torch.empty_like(x)
    softmax_kernel[(300,)](x, out, 781, BLOCK=1024)
    near("rows", out, x.softmax(1), 1e-5, 1e-6)


@triton.jit
def histogram_kernel(x, bins, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    tl.atomic_add(bins + tl.load(x + at, inside, 0), 1, inside)


@check
def atomics():
    x = torch.randint(0, 16, (100_000,), device="cuda")
    bins = torch.zeros(16, dtype=torch.int32, device="cuda")
    histogram_kernel[(triton.cdiv(100_000, 512),)](x, bins, 100_000, BLOCK=512)
    equal("counts", bins.tolist(), torch.bincount(x, minlength=16).tolist())


@triton.jit
def doubled_kernel(a, b, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS
    b.store([row, 0], a.load([row, 0]) * 2)


@check
def tensor_descriptors():
    """Encoded on the host (cuTensorMapEncodeTiled) and handed over as kernel arguments."""
    for number in range(3):
        a = torch.randn(1024, 64, device="cuda", dtype=torch.float16)
        b = torch.empty_like(a)
        doubled_kernel[(16,)](TensorDescriptor.from_tensor(a, [64, 64]), TensorDescriptor.from_tensor(b, [64, 64]), 64)
        near(f"doubled, tensor {number}", b, a * 2, 0, 0)


@triton.jit
def described_on_device_kernel(a, b, rows, COLUMNS: tl.constexpr, ROWS: tl.constexpr):
    source = tl.make_tensor_descriptor(a, [rows, COLUMNS], [COLUMNS, 1], [ROWS, COLUMNS])
    target = tl.make_tensor_descriptor(b, [rows, COLUMNS], [COLUMNS, 1], [ROWS, COLUMNS])
    row = tl.program_id(0) * ROWS
    target.store([row, 0], source.load([row, 0]) + 1)


@check
def tensor_descriptors_made_on_the_device():
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    a = torch.randn(512, 64, device="cuda")
    b = torch.empty_like(a)
    described_on_device_kernel[(16,)](a, b, 512, 64, 32)
    near("plus one", b, a + 1, 0, 0)


@check
def on_many_streams():
    streams = [torch.cuda.Stream() for _ in range(8)]
    x = torch.ones(10_000, device="cuda")
    torch.cuda.synchronize()
    outs = []
    for number, stream in enumerate(streams):
        with torch.cuda.stream(stream):
            out = torch.empty_like(x)
            add_kernel[(40,)](x, torch.full_like(x, number), out, 10_000, BLOCK=256)
            outs.append(out)
    torch.cuda.synchronize()
    equal("sums", [out.unique().tolist() for out in outs], [[1.0 + number] for number in range(8)])


main()

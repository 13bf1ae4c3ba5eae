"""What PyTorch takes from cuFFT, cuSOLVER, cuSPARSE and its attention kernels: transforms, decompositions, sparse products,
every backend of scaled_dot_product_attention. Each result is checked by its defining equation or against the host."""

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from checking import check, equal, exact, main, near

torch.manual_seed(0)


@check
def transforms():
    for size in ((1024,), (1000,), (4, 243, 35), (7, 101)):
        x = torch.randn(size, dtype=torch.complex64)
        near(f"fft {size}", torch.fft.fft(x.cuda()), torch.fft.fft(x), 1e-3, 1e-3)
        near(f"there and back {size}", torch.fft.ifftn(torch.fft.fftn(x.cuda())), x, 1e-4, 1e-4)
    signal = torch.randn(16, 4096, dtype=torch.float64)
    near("real", torch.fft.rfft(signal.cuda()), torch.fft.rfft(signal), 1e-9, 1e-9)
    near("inverse real", torch.fft.irfft(torch.fft.rfft(signal.cuda())), signal, 1e-9, 1e-9)
    near("stft", torch.stft(signal[0].cuda(), 256, return_complex=True, window=torch.hann_window(256, dtype=torch.float64).cuda()),
         torch.stft(signal[0], 256, return_complex=True, window=torch.hann_window(256, dtype=torch.float64)), 1e-8, 1e-8)


@check
def decompositions():
    a = torch.randn(200, 200, dtype=torch.float64, device="cuda")
    unit = torch.eye(200, dtype=torch.float64, device="cuda")
    near("inverse", torch.linalg.inv(a) @ a, unit, 0, 1e-8)
    u, s, v = torch.linalg.svd(a)
    near("svd", u @ torch.diag(s) @ v, a, 0, 1e-9)
    symmetric = a @ a.T + unit
    values, vectors = torch.linalg.eigh(symmetric)
    near("eigh", vectors @ torch.diag(values) @ vectors.T, symmetric, 0, 1e-8)
    factor = torch.linalg.cholesky(symmetric)
    near("cholesky", factor @ factor.T, symmetric, 0, 1e-9)
    b = torch.randn(200, 5, dtype=torch.float64, device="cuda")
    near("solve", a @ torch.linalg.solve(a, b), b, 0, 1e-8)
    q, r = torch.linalg.qr(a)
    near("qr", q @ r, a, 0, 1e-10)
    pivots, lower, upper = torch.linalg.lu(a)
    near("lu", pivots @ lower @ upper, a, 0, 1e-10)
    near("least squares", torch.linalg.lstsq(a, b).solution, torch.linalg.solve(a, b), 1e-5, 1e-7)
    near("determinant", torch.linalg.slogdet(a)[1], torch.linalg.slogdet(a.cpu())[1], 1e-9, 0)


@check
def batched_decompositions():
    a = torch.randn(50, 8, 8, dtype=torch.float64, device="cuda")
    near("inverse", torch.linalg.inv(a) @ a, torch.eye(8, dtype=torch.float64).expand(50, 8, 8), 0, 1e-6)
    near("svd", torch.linalg.svdvals(a), torch.linalg.svdvals(a.cpu()), 1e-8, 1e-9)
    near("eigenvalues", torch.linalg.eigvalsh(a @ a.mT), torch.linalg.eigvalsh((a @ a.mT).cpu()), 1e-7, 1e-8)


@check
def sparse():
    dense = torch.randn(300, 200) * (torch.rand(300, 200) > 0.9)
    x = torch.randn(200, 64)
    expected = dense @ x
    near("csr", torch.sparse.mm(dense.cuda().to_sparse_csr(), x.cuda()), expected, 1e-4, 1e-4)
    near("coo", torch.sparse.mm(dense.cuda().to_sparse_coo(), x.cuda()), expected, 1e-4, 1e-4)
    near("vector", dense.cuda().to_sparse_csr() @ x[:, 0].cuda(), expected[:, 0], 1e-4, 1e-4)
    product = torch.sparse.mm(dense.cuda().to_sparse_csr(), dense.T.cuda().to_sparse_csr()).to_dense()
    near("sparse by sparse", product, dense @ dense.T, 1e-4, 1e-4)


def attention(backend, kind, causal=True):
    torch.manual_seed(1)
    query, key, value = (torch.randn(2, 8, 256, 64).cuda().to(kind).requires_grad_() for _ in range(3))
    with sdpa_kernel(backend):
        out = functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
    out.float().square().sum().backward()
    return out, query.grad


def compared_attention(backend, kind=torch.float16):
    reference, gradient = attention(SDPBackend.MATH, torch.float32)
    out, ours = attention(backend, kind)
    near("output", out, reference, 2e-2, 2e-2)
    near("gradient", ours, gradient, 5e-2, 1e-1)
    return exact(out.float().abs().sum())


@check
def flash_attention():
    return compared_attention(SDPBackend.FLASH_ATTENTION)


@check
def efficient_attention():
    return compared_attention(SDPBackend.EFFICIENT_ATTENTION)


@check
def cudnn_attention():
    return compared_attention(SDPBackend.CUDNN_ATTENTION, torch.bfloat16)


@check
def math_attention():
    return compared_attention(SDPBackend.MATH, torch.float32)


@check
def large_matmuls():
    """cuBLASLt's largest kernels (clusters, tensor maps): ones times ones is the inner size."""
    for kind in (torch.bfloat16, torch.float16, torch.float32):
        a = torch.ones(4096, 2048, device="cuda", dtype=kind)
        b = torch.ones(2048, 3072, device="cuda", dtype=kind)
        equal(str(kind), (a @ b).unique().tolist(), [2048.0])
    a = torch.randint(-10, 10, (1024, 512), dtype=torch.int8)
    b = torch.randint(-10, 10, (512, 256), dtype=torch.int8)
    equal("int8", torch.equal(torch._int_mm(a.cuda(), b.cuda()).cpu(), (a.int() @ b.int())), True)


main()

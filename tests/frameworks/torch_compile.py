"""torch.compile: Inductor's Triton kernels, fused training, and mode="reduce-overhead", which replays CUDA graphs.
What is compiled must equal what is not."""

import torch
from torch import nn
from torch.nn import functional

from checking import check, equal, main, near


@check
def pointwise_and_reduction():
    @torch.compile
    def work(a, b):
        return functional.gelu(a * b + 1).softmax(1).sum(0)

    a, b = torch.randn(500, 300, device="cuda"), torch.randn(500, 300, device="cuda")
    near("compiled", work(a, b), functional.gelu(a * b + 1).softmax(1).sum(0), 1e-4, 1e-4)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 10)).cuda()


def losses_of(step_of):
    model = network()
    torch.manual_seed(1)
    x, y = torch.randn(128, 64, device="cuda"), torch.randint(0, 10, (128,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    forward = step_of(model)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = functional.cross_entropy(forward(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@check
def training():
    eager = losses_of(lambda model: model)
    compiled = losses_of(torch.compile)
    near("losses", compiled, eager, 1e-3, 1e-3)


@check
def reduce_overhead():
    """CUDA graph trees: recorded at the second call, replayed from then on."""
    model = network().eval()
    fast = torch.compile(model, mode="reduce-overhead")
    with torch.no_grad():
        for seed in range(6):
            torch.manual_seed(seed)
            x = torch.randn(128, 64, device="cuda")
            torch.compiler.cudagraph_mark_step_begin()
            near("replayed", fast(x).clone(), model(x), 1e-4, 1e-4)


@check
def reduce_overhead_training():
    eager = losses_of(lambda model: model)
    near("losses", losses_of(lambda model: torch.compile(model, mode="reduce-overhead")), eager, 1e-3, 1e-3)


@check
def changing_shapes():
    @torch.compile(dynamic=True)
    def work(a):
        return (a.sin() + a.cos()).sum()

    for size in (10, 1000, 77):
        a = torch.randn(size, device="cuda")
        near(f"size {size}", work(a), (a.sin() + a.cos()).sum(), 1e-4, 1e-3)


@check
def matmul_with_epilogue():
    @torch.compile
    def work(a, b):
        return torch.relu(a @ b + 1)

    a = torch.randn(256, 256, device="cuda", dtype=torch.float16)
    b = torch.randn(256, 256, device="cuda", dtype=torch.float16)
    near("compiled", work(a, b), torch.relu(a @ b + 1), 1e-2, 1e-1)
    equal("shape", tuple(work(a, b).shape), (256, 256))


main()

"""PyTorch's tensors on a device: arithmetic, types, indexing, sorting, autograd, random numbers, copies, device queries.
Every result is compared with PyTorch's own on the host or with what is known."""

import torch
from torch.nn import functional

from checking import check, equal, exact, main, near

torch.manual_seed(0)


@check
def device():
    equal("devices", torch.cuda.is_available() and torch.cuda.device_count() >= 1, True)
    properties = torch.cuda.get_device_properties(0)
    equal("capability", torch.cuda.get_device_capability(0), (properties.major, properties.minor))
    free, total = torch.cuda.mem_get_info()
    equal("free memory", 0 < free <= total, True)
    equal("multiprocessors", properties.multi_processor_count > 0, True)


@check
def elementwise():
    x, y = torch.randn(1000, 333), torch.randn(1000, 333)
    for name in ("add", "mul", "sub", "maximum", "atan2"):
        near(name, getattr(torch, name)(x.cuda(), y.cuda()), getattr(torch, name)(x, y))
    for name in ("exp", "tanh", "sigmoid", "erf", "sin", "rsqrt"):
        positive = x.abs() + 0.1
        near(name, getattr(torch, name)(positive.cuda()), getattr(torch, name)(positive), 1e-4, 1e-5)


@check
def types():
    x = torch.randint(-100, 100, (4096,))
    for kind in (torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float64):
        near(str(kind), (x.cuda().to(kind) * 1).long().sum(), x.to(kind).long().sum())
    equal("bool", int((x.cuda() > 3).sum()), int((x > 3).sum()))
    wave = torch.randn(100, dtype=torch.complex64)
    near("complex", wave.cuda() * wave.cuda().conj(), wave * wave.conj())


@check
def reductions():
    x = torch.arange(1 << 20, dtype=torch.float64)
    equal("sum", x.cuda().sum().item(), float((1 << 19) * ((1 << 20) - 1)))
    y = torch.randn(37, 1001)
    for name in ("mean", "std", "logsumexp", "amax", "prod"):
        near(name, getattr(y.cuda(), name)(1), getattr(y, name)(1), 1e-4, 1e-5)
    near("cumsum", y.cuda().cumsum(1), y.cumsum(1), 1e-4, 1e-4)
    equal("argmax", y.cuda().argmax(1).tolist(), y.argmax(1).tolist())


@check
def indexing():
    x, at = torch.randn(500, 64), torch.randint(0, 500, (200,))
    near("gather", x.cuda()[at.cuda()], x[at])
    near("mask", x.cuda()[x.cuda() > 0.5], x[x > 0.5])
    near("scatter", torch.zeros(500, 64, device="cuda").index_add_(0, at.cuda(), x[:200].cuda()),
         torch.zeros(500, 64).index_add_(0, at, x[:200]), 1e-5, 1e-5)
    near("strided", x.cuda().t()[::3, 1::7], x.t()[::3, 1::7])
    near("cat", torch.cat([x.cuda(), x.cuda().flip(0)]), torch.cat([x, x.flip(0)]))
    near("where", torch.where(x.cuda() > 0, x.cuda(), -x.cuda()), x.abs())
    equal("nonzero", (x.cuda() > 1).nonzero().tolist(), (x > 1).nonzero().tolist())


@check
def sorting():
    x = torch.randperm(100_003)
    values, places = x.cuda().sort()
    equal("sorted", bool((values.cpu() == torch.arange(100_003)).all()), True)
    equal("places", bool((x[places.cpu()] == values.cpu()).all()), True)
    equal("topk", x.cuda().topk(5).values.tolist(), [100_002, 100_001, 100_000, 99_999, 99_998])
    equal("unique", (x % 10).cuda().unique().tolist(), list(range(10)))


@check
def products():
    a, b = torch.randn(300, 200, dtype=torch.float64), torch.randn(200, 400, dtype=torch.float64)
    near("double", a.cuda() @ b.cuda(), a @ b, 1e-10, 1e-10)
    near("single", a.float().cuda() @ b.float().cuda(), a @ b, 1e-3, 1e-3)
    near("half", a.half().cuda() @ b.half().cuda(), a @ b, 2e-2, 0.2)
    near("bfloat16", a.bfloat16().cuda() @ b.bfloat16().cuda(), a @ b, 5e-2, 1.0)
    x, y = torch.randn(16, 64, 32), torch.randn(16, 32, 48)
    near("batched", torch.bmm(x.cuda(), y.cuda()), torch.bmm(x, y), 1e-3, 1e-3)
    near("einsum", torch.einsum("bij,bjk->ik", x.cuda(), y.cuda()), torch.einsum("bij,bjk->ik", x, y), 1e-3, 1e-2)


@check
def autograd():
    x = torch.randn(64, 32, dtype=torch.float64)
    weight = torch.randn(32, 16, dtype=torch.float64)

    def gradients(device):
        leaf, matrix = x.to(device).requires_grad_(), weight.to(device).requires_grad_()
        value = functional.gelu(functional.layer_norm(leaf @ matrix, (16,))).pow(2).sum()
        return torch.autograd.grad(value, (leaf, matrix), create_graph=True)

    for ours, reference in zip(gradients("cuda"), gradients("cpu")):
        near("gradient", ours, reference, 1e-8, 1e-8)
    near("second", gradients("cuda")[0].sum(), gradients("cpu")[0].sum(), 1e-6, 1e-6)


@check
def random_numbers():
    torch.manual_seed(1234)
    drawn = [torch.rand(5, device="cuda"), torch.randn(5, device="cuda"), torch.randperm(9, device="cuda")]
    drawn.append(functional.dropout(torch.ones(64, device="cuda"), 0.5))
    drawn.append(torch.randint(0, 1 << 30, (5,), device="cuda"))
    state = torch.cuda.get_rng_state()
    first = torch.rand(3, device="cuda")
    torch.cuda.set_rng_state(state)
    equal("from the same state", torch.rand(3, device="cuda").tolist(), first.tolist())
    generator = torch.Generator("cuda").manual_seed(7)
    drawn.append(torch.empty(6, device="cuda").exponential_(generator=generator))
    return exact(*drawn)


@check
def exact_numbers():
    torch.manual_seed(3)
    x = torch.randn(512, 512).cuda()
    # The same library computes on the same device, natively and through floe: not one bit may differ.
    return exact((x @ x).sum(), x.softmax(1)[5, :8], x.exp().cumsum(0)[-1, :8], x.std(), x.norm())


@check
def copies():
    x = torch.randn(1_000_003)
    pinned = x.pin_memory()
    equal("pinned", pinned.is_pinned(), True)
    there = pinned.to("cuda", non_blocking=True)
    back = torch.empty_like(pinned).pin_memory()
    back.copy_(there, non_blocking=True)
    torch.cuda.synchronize()
    equal("both ways", torch.equal(back, x), True)
    box = torch.zeros(100, 200, device="cuda")
    box[10:20, 30:50] = x[:200].view(10, 20).cuda()
    near("a box", box[10:20, 30:50], x[:200].view(10, 20))
    near("device to device", there.clone(), x)
    near("a numpy array", torch.from_numpy(x.numpy()).cuda(), x)
    equal("element", there[17].item(), x[17].item())


@check
def reused_pinned_memory():
    """A pinned buffer may be written again once an event behind the copy has passed."""
    pinned, event = torch.empty(1 << 20).pin_memory(), torch.cuda.Event()
    kept = []
    for round_number in range(20):
        event.synchronize()
        pinned.fill_(round_number)
        kept.append(pinned.to("cuda", non_blocking=True))
        event.record()
    equal("each copy has its own bytes", [float(copy.mean()) for copy in kept], [float(n) for n in range(20)])


main()

"""What PyTorch does between training steps: encoder passes, the same replayed as a CUDA graph, small eager operations,
one large matmul, a reduction whose value is read. Each reports its time and numbers that must equal native's."""

import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch
from torch import nn

import measuring

# One synchronize per this many passes, as a loop over a data set does.
PASSES = 10


def sample(y):
    """Numbers of a tensor that change when any of its elements does."""
    return [y.double().abs().sum().item(), *y.flatten()[:: max(1, y.numel() // 8)].tolist()]


def new_encoder():
    torch.manual_seed(3)
    layer = nn.TransformerEncoderLayer(512, 8, batch_first=True)
    return nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).cuda().eval(), torch.randn(8, 128, 512, device="cuda")


@torch.inference_mode()
def encoder():
    model, x = new_encoder()
    measuring.result("encoder.output", sample(model(x)))

    def passes():
        for _ in range(PASSES):
            model(x)
        torch.cuda.synchronize()

    def alone():
        model(x)
        torch.cuda.synchronize()

    measuring.measure("encoder.pass", passes, each=PASSES)
    measuring.measure("encoder.alone", alone)
    measuring.waits("encoder.waits", alone, 20)


@torch.no_grad()
def graph():
    model, x = new_encoder()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(x)
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        y = model(x)
    captured.replay()
    first = sample(y)
    x.mul_(0.5)
    captured.replay()
    measuring.result("encoder.graph.output", first + sample(y))

    def replays():
        for _ in range(PASSES):
            captured.replay()
        torch.cuda.synchronize()

    measuring.measure("encoder.graph", replays, each=PASSES)


@torch.no_grad()
def eager():
    x = torch.zeros(1024, device="cuda")
    y = torch.full((1024,), 0.5, device="cuda")

    def operations():
        for _ in range(250):
            x.add_(y)
            x.mul_(0.5)
            torch.relu_(x)
            x.add_(0.25)
        torch.cuda.synchronize()

    operations()
    measuring.result("eager.values", x[:8].tolist())
    measuring.measure("eager.1000", operations)


@torch.no_grad()
def matmul():
    torch.manual_seed(4)
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    c = torch.empty_like(a)
    torch.matmul(a, b, out=c)
    measuring.result("matmul.product", sample(c))

    def products():
        for _ in range(PASSES):
            torch.matmul(a, b, out=c)
        torch.cuda.synchronize()

    def alone():
        torch.matmul(a, b, out=c)
        torch.cuda.synchronize()

    # A GPU at its limit of power slows down: the first bursts only take it there, the others are many, of 0.2 s.
    measuring.measure("matmul.8192", products, each=PASSES, seconds=4.8, turns=24, heating=1)
    measuring.measure("matmul.alone", alone)


@torch.no_grad()
def summing():
    torch.manual_seed(5)
    x = torch.randn(1 << 20, device="cuda")
    measuring.result("sum.value", [x.sum().item()])
    measuring.measure("sum.item", lambda: x.sum().item(), warm=20)


measuring.say("version", name="torch", value=torch.__version__)
measuring.run({"encoder": encoder, "graph": graph, "eager": eager, "matmul": matmul, "sum": summing})

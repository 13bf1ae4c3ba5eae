"""CUDA graphs in PyTorch: capture and replay, private pools and shared ones, random numbers inside, training captured
whole, make_graphed_callables, captures that must fail and leave the device whole."""

import torch
from torch import nn

from checking import check, equal, exact, main, near


def warmed(work):
    """Runs work on a side stream first, as capture asks for."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)


@check
def captured_and_replayed():
    x = torch.zeros(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    warmed(lambda: x * 2 + 1)
    with torch.cuda.graph(graph):
        y = x * 2 + 1
    for number in range(5):
        x.fill_(number)
        graph.replay()
        equal("replayed", y.unique().tolist(), [2.0 * number + 1])


@check
def encoder():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(128, 4, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).cuda().eval()
    x = torch.randn(4, 32, 128, device="cuda")
    with torch.no_grad():
        warmed(lambda: model(x))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = model(x)
        for seed in range(3):
            torch.manual_seed(seed)
            x.copy_(torch.randn(4, 32, 128))
            graph.replay()
            near("replayed", y, model(x), 1e-4, 1e-5)
        return exact(y.abs().sum())


@check
def shared_pool():
    """Two graphs in one private pool; the second reads what the first left."""
    x = torch.ones(4096, device="cuda")
    warmed(lambda: (x * 3).sqrt())
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(first):
        y = x * 3
    with torch.cuda.graph(second, pool=first.pool()):
        z = y + 4
    x.fill_(5.0)
    first.replay()
    second.replay()
    equal("both", z.unique().tolist(), [19.0])
    second.reset()
    first.reset()


@check
def own_pool_keeps_memory_apart():
    graph, x = torch.cuda.CUDAGraph(), torch.ones(1 << 20, device="cuda")
    warmed(lambda: x + 1)
    with torch.cuda.graph(graph, pool=torch.cuda.graph_pool_handle()):
        y = x + 1
    others = [torch.full((1 << 20,), 9.0, device="cuda") for _ in range(8)]
    graph.replay()
    equal("the graph's tensor", y.sum().item(), float(2 << 20))
    equal("the others", [other.sum().item() for other in others], [9.0 * (1 << 20)] * 8)


@check
def random_numbers_inside():
    """Each replay draws anew, and the same as without a graph from the same seed."""
    x = torch.empty(1000, device="cuda")
    warmed(x.uniform_)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.uniform_()
    torch.cuda.manual_seed(7)
    graph.replay()
    first = x.clone()
    graph.replay()
    equal("anew", torch.equal(first, x), False)
    torch.cuda.manual_seed(7)
    near("the same as eager", first, torch.empty(1000, device="cuda").uniform_(), 0, 0)
    return exact(first[:4], x[:4])


@check
def branches():
    """A capture that forks to two streams and joins."""
    x, side = torch.ones(1000, device="cuda"), torch.cuda.Stream()
    warmed(lambda: (x * 2, x * 3))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        side.wait_stream(torch.cuda.current_stream())
        left = x * 2
        with torch.cuda.stream(side):
            right = x * 3
        torch.cuda.current_stream().wait_stream(side)
        joined = left + right
    x.fill_(4.0)
    graph.replay()
    equal("joined", joined.unique().tolist(), [20.0])


@check
def copies_and_fills_inside():
    pinned = torch.zeros(1 << 16).pin_memory()
    x, back = torch.zeros(1 << 16, device="cuda"), torch.zeros(1 << 16).pin_memory()
    graph = torch.cuda.CUDAGraph()

    def work():
        x.copy_(pinned, non_blocking=True)
        x.add_(1)
        x[:100].zero_()
        back.copy_(x, non_blocking=True)

    warmed(work)
    with torch.cuda.graph(graph):
        work()
    for number in (5.0, 6.0):
        pinned.fill_(number)
        graph.replay()
        torch.cuda.synchronize()
        equal("back on the host", (back[:100].sum().item(), back[100:].unique().tolist()), (0.0, [number + 1]))


@check
def whole_training_step():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 1)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, capturable=True)
    x, y = torch.randn(256, 64, device="cuda"), torch.randn(256, 1, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    warmed(step)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = step()
    losses = []
    for _ in range(30):
        graph.replay()
        losses.append(loss.item())
    equal("the loss falls", losses[-1] < losses[0], True)
    return losses


@check
def graphed_callables():
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)).cuda()
    x = torch.randn(16, 32, device="cuda")
    expected = model(x.clone())
    expected.sum().backward()
    gradient = model[0].weight.grad.clone()
    model.zero_grad()
    # What is left of that pass would take the captured one's gradients on the stream it ran on.
    expected = expected.detach()
    graphed = torch.cuda.make_graphed_callables(model, (x.clone(),))
    y = graphed(x)
    y.sum().backward()
    near("forward", y, expected, 1e-5, 1e-6)
    near("backward", model[0].weight.grad, gradient, 1e-4, 1e-5)


@check
def many_replays_in_order():
    counter = torch.zeros(1, dtype=torch.int64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    warmed(lambda: counter.add_(1))
    counter.zero_()
    with torch.cuda.graph(graph):
        counter.add_(1)
    for _ in range(1000):
        graph.replay()
    equal("count", counter.item(), 1000)


@check
def forbidden_while_capturing():
    """Waiting inside a capture fails by name; afterwards the device works and captures again."""
    x, graph = torch.ones(10, device="cuda"), torch.cuda.CUDAGraph()
    warmed(lambda: x + 1)
    refused = False
    try:
        with torch.cuda.graph(graph):
            (x + 1).sum().item()
    except RuntimeError:
        refused = True
    equal("refused", refused, True)
    equal("the device goes on", (x + 1).sum().item(), 20.0)
    captured_and_replayed()


main()

"""Tensors shared between processes (torch.multiprocessing): both ways, views, models, events, memory whose owner has let it
go. Everything is counted in whole numbers, so that native and floe must agree exactly."""
# run with:
# run with: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True

import torch
from torch import multiprocessing, nn

from checking import check, equal, main

COUNT = 1 << 20


def spawned(work, *arguments):
    """A process that runs `work(orders, answers, …)`, and its two queues."""
    context = multiprocessing.get_context("spawn")
    orders, answers = context.Queue(), context.Queue()
    process = context.Process(target=work, args=(orders, answers, *arguments))
    process.start()
    return process, orders, answers


def ended(process):
    """It has ended well."""
    process.join(120)
    equal("the process's end", process.exitcode, 0)


def adds_one(orders, answers):
    """Takes tensors until None comes: tells the sum of each, and adds one to each of its numbers."""
    while (tensor := orders.get(timeout=120)) is not None:
        answers.put(int(tensor.sum()))
        tensor.add_(1)
        torch.cuda.synchronize()
        del tensor
        answers.put("added")
    answers.put(None)


@check
def to_another_process_and_back():
    process, orders, answers = spawned(adds_one)
    x = torch.arange(COUNT, device="cuda")
    for turn in range(3):
        orders.put(x)
        equal("what it sees", answers.get(timeout=120), COUNT * (COUNT - 1) // 2 + turn * COUNT)
        equal("what it does", answers.get(timeout=120), "added")
        equal("what is seen of that", int(x.sum()), COUNT * (COUNT - 1) // 2 + (turn + 1) * COUNT)
    orders.put(None)
    answers.get(timeout=120)
    ended(process)


@check
def views_and_types():
    process, orders, answers = spawned(adds_one)
    whole = torch.zeros(64, 64, dtype=torch.int32, device="cuda")
    for part in (whole[3:7], whole.t()[1:5, 2:60:3], whole[:, 5]):
        before = int(part.sum())
        orders.put(part)
        equal("before", answers.get(timeout=120), before)
        answers.get(timeout=120)
    for kind in (torch.float64, torch.float16, torch.bfloat16, torch.uint8):
        ones = torch.ones(100, dtype=kind, device="cuda")
        orders.put(ones)
        equal(str(kind), answers.get(timeout=120), 100)
        answers.get(timeout=120)
        equal(f"{kind} changed", float(ones.double().sum()), 200.0)
    orders.put(None)
    answers.get(timeout=120)
    ended(process)
    expected = torch.zeros(64, 64, dtype=torch.int32)
    for part in (expected[3:7], expected.t()[1:5, 2:60:3], expected[:, 5]):
        part.add_(1)
    equal("each place", torch.equal(whole.cpu(), expected), True)


def makes(orders, answers):
    """Makes tensors for another process, and keeps them until it is told to end."""
    made = [torch.full((COUNT,), number, device="cuda") for number in range(5)]
    for tensor in made:
        answers.put(tensor)
    orders.get(timeout=120)


@check
def from_another_process():
    process, orders, answers = spawned(makes)
    for number in range(5):
        tensor = answers.get(timeout=120)
        equal("a tensor of the other's", int(tensor.sum()), number * COUNT)
        tensor.zero_()
        equal("written here", int(tensor.sum()), 0)
        del tensor
    torch.cuda.synchronize()
    orders.put("end")
    ended(process)


def keeps(orders, answers):
    """Keeps a tensor, and tells its sum whenever it is asked."""
    tensor = orders.get(timeout=120)
    while orders.get(timeout=120) == "sum":
        answers.put(int(tensor.sum()))


@check
def memory_that_its_owner_let_go():
    process, orders, answers = spawned(keeps)
    x = torch.full((COUNT,), 7, device="cuda")
    orders.put(x)
    orders.put("sum")
    equal("with its owner", answers.get(timeout=120), 7 * COUNT)
    del x
    others = [torch.full((COUNT,), 1, device="cuda") for _ in range(8)]
    orders.put("sum")
    equal("without", answers.get(timeout=120), 7 * COUNT)
    equal("the owner's next tensors", sum(int(other.sum()) for other in others), 8 * COUNT)
    orders.put("end")
    ended(process)


def waits(orders, answers):
    """Reads a tensor behind an event of another process."""
    device, handle, x = orders.get(timeout=120)
    torch.cuda.current_stream().wait_event(torch.cuda.Event.from_ipc_handle(device, handle))
    answers.put(int(x.sum()))


@check
def events_between_processes():
    process, orders, answers = spawned(waits)
    big, x = torch.randn(4096, 4096, device="cuda"), torch.zeros(COUNT, dtype=torch.int64, device="cuda")
    event = torch.cuda.Event(interprocess=True)
    for _ in range(20):
        big = (big @ big).tanh()
    x.fill_(3)
    event.record()
    orders.put((torch.device("cuda", torch.cuda.current_device()), event.ipc_handle(), x))
    equal("behind the event", answers.get(timeout=120), 3 * COUNT)
    ended(process)


def trains(orders, answers, model):
    """A step of the shared model for each word: its weights lose their gradient, which is in whole numbers."""
    while (word := orders.get(timeout=120)) != "end":
        model.zero_grad()
        model(torch.full((4, 8), float(word), device="cuda")).sum().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= parameter.grad
        torch.cuda.synchronize()
        answers.put("stepped")


@check
def a_model_that_processes_train_together():
    model = nn.Linear(8, 8, device="cuda")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    model.share_memory()
    others = [spawned(trains, model) for _ in range(2)]
    for step in range(6):
        _, orders, answers = others[step % 2]
        orders.put(step)
        equal("a step", answers.get(timeout=120), "stepped")
    for process, orders, _ in others:
        orders.put("end")
        ended(process)
    equal("weights", model.weight.unique().tolist(), [-4.0 * sum(range(6))])
    equal("bias", model.bias.unique().tolist(), [-4.0 * 6])


def doubled(tensor):
    """For a pool."""
    return tensor * 2


@check
def a_pool_of_processes():
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        tensors = [torch.full((1000,), number, device="cuda") for number in range(20)]
        results = [int(result.sum()) for result in pool.map(doubled, tensors)]
    equal("doubled", results, [2000 * number for number in range(20)])


if __name__ == "__main__":
    main()

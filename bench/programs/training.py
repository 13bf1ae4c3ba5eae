"""Training steps as people write them: ResNet-18 with SGD, a small GPT with AdamW in bf16 and in fp16 with a GradScaler.
Batches lie in pinned memory and are copied non-blocking at every step; every step reads its loss with item().
The losses of the first 20 steps are computed with deterministic algorithms and must equal native's bit for bit."""

import os
import warnings

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch
import torchvision
from torch import nn
from torch.nn import functional

import measuring

warnings.filterwarnings("ignore")
COMPARED_STEPS = 20
COUNTED_STEPS = 20


def first_losses(step):
    """With deterministic algorithms."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.deterministic = True
    losses = [step() for _ in range(COMPARED_STEPS)]
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.deterministic = False
    return losses


def new_resnet18():
    """A step of its training."""
    torch.manual_seed(1)
    model = torchvision.models.resnet18().cuda().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    batches = [
        (torch.randn(32, 3, 224, 224).pin_memory(), torch.randint(0, 1000, (32,)).pin_memory()) for _ in range(4)
    ]
    at = 0

    def step():
        nonlocal at
        images, labels = batches[at % len(batches)]
        at += 1
        images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        loss = functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def resnet18():
    step = new_resnet18()
    measuring.result("resnet18.losses", first_losses(step))
    measuring.measure("resnet18.step", step, warm=5)
    measuring.waits("resnet18.waits", step, COUNTED_STEPS)


def memory():
    """Steps of both kinds, then a pause: what is resident then is weighed. It takes no turns, for it has to be alone."""
    step = new_resnet18()
    first_losses(step)
    for _ in range(COUNTED_STEPS):
        step()
    measuring.pause("resnet18")


class Block(nn.Module):
    """One transformer block with causal attention."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_feed = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        split = self.project(self.before_attention(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.merge(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed(self.before_feed(x))


class Gpt(nn.Module):
    """A GPT of 6 layers."""

    def __init__(self, vocabulary=8192, width=384, heads=6, layers=6, length=256):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.last(self.blocks(self.tokens(tokens) + self.places(places))))


def gpt(precision, scaled):
    torch.manual_seed(2)
    model = Gpt().cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    scaler = torch.amp.GradScaler("cuda", enabled=scaled)
    batches = [torch.randint(0, 8192, (16, 257)).pin_memory() for _ in range(4)]
    at = 0

    def step():
        nonlocal at
        tokens = batches[at % len(batches)].cuda(non_blocking=True)
        at += 1
        with torch.autocast("cuda", dtype=precision):
            guesses = model(tokens[:, :-1])
            loss = functional.cross_entropy(guesses.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.item()

    name = "gpt_fp16" if scaled else "gpt_bf16"
    measuring.result(f"{name}.losses", first_losses(step))
    measuring.measure(f"{name}.step", step, warm=5)
    measuring.waits(f"{name}.waits", step, COUNTED_STEPS)


measuring.say("version", name="torch", value=torch.__version__)
measuring.run(
    {
        "resnet18": resnet18,
        "gpt_bf16": lambda: gpt(torch.bfloat16, False),
        "gpt_fp16": lambda: gpt(torch.float16, True),
        "memory": memory,
    }
)

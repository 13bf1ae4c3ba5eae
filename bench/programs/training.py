"""Training steps as people write them: ResNet-18 with SGD, a small GPT with AdamW in bf16 and in fp16 with a GradScaler.
Every step reads its loss with item(). The losses of the first 20 steps are computed with deterministic algorithms and must
equal native's bit for bit."""

import warnings

import torch

import measuring
from models import be_deterministic, new_gpt, new_resnet18

warnings.filterwarnings("ignore")
COMPARED_STEPS = 20
COUNTED_STEPS = 20


def first_losses(step):
    """With deterministic algorithms."""
    be_deterministic(True)
    losses = [step() for _ in range(COMPARED_STEPS)]
    be_deterministic(False)
    return losses


def train(name, step):
    """Reports its losses, the time of a step and how often one waits."""
    measuring.result(f"{name}.losses", first_losses(step))
    measuring.measure(f"{name}.step", step, warm=5)
    measuring.waits(f"{name}.waits", step, COUNTED_STEPS)


def memory():
    """Steps of both kinds, then a pause: what is resident then is weighed. It takes no turns, for it has to be alone."""
    step = new_resnet18()
    first_losses(step)
    for _ in range(COUNTED_STEPS):
        step()
    measuring.pause("resnet18")


measuring.say("version", name="torch", value=torch.__version__)
measuring.run(
    {
        "resnet18": lambda: train("resnet18", new_resnet18()),
        "gpt_bf16": lambda: train("gpt_bf16", new_gpt(torch.bfloat16, False)),
        "gpt_fp16": lambda: train("gpt_fp16", new_gpt(torch.float16, True)),
        "memory": memory,
    }
)

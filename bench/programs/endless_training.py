"""Trains a model until the end of stdin, or for STEPS steps, with deterministic algorithms. A line on stdin has it print what it
did since the line before: steps, seconds, and its longest step. At the end it prints every loss, exactly as the machine holds it.
  endless_training.py resnet18|gpt [STEPS]"""

import json
import select
import sys
import time
import warnings

import torch

from models import be_deterministic, new_gpt, new_resnet18

warnings.filterwarnings("ignore")
WARM = 10
MODELS = {"resnet18": new_resnet18, "gpt": lambda: new_gpt(torch.bfloat16, False)}


def asked():
    """Has another line come? None: no more will."""
    if not select.select([sys.stdin], [], [], 0)[0]:
        return False
    return True if sys.stdin.buffer.raw.read(1) else None


def train(step, count):
    """Steps, and answers; gives the losses."""
    losses = [step() for _ in range(WARM)]
    print("ready", flush=True)
    steps, longest, last = 0, 0.0, time.perf_counter()
    begin = last
    while len(losses) < count if count else (word := asked()) is not None:
        if not count and word:
            print(json.dumps({"kernels": steps, "seconds": last - begin, "longest_ms": longest * 1e3}), flush=True)
            steps, longest, last = 0, 0.0, time.perf_counter()
            begin = last
        losses.append(step())
        now = time.perf_counter()
        steps, longest, last = steps + 1, max(longest, now - last), now
    return losses


be_deterministic(True)
torch.backends.cudnn.benchmark = False
found = train(MODELS[sys.argv[1]](), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
print("losses", *(loss.hex() for loss in found), flush=True)

"""Compares what torch.profiler says through floe with what it says natively.

In: native.json and others of train.py, then the file to write. Out: counts, and for each kernel the ratio of medians.
"""

import json
import os
import sys


def read(path):
    with open(path) as file:
        return json.load(file)


def beside(native, floe):
    ratios = {}
    for name, its in native["names"].items():
        other = floe["names"].get(name)
        ratios[name] = {
            "count_native": its["count"], "count": other["count"] if other else 0,
            "median_us_native": its["median_us"], "median_us": other["median_us"] if other else None,
            "ratio": round(other["median_us"] / its["median_us"], 4) if other and its["median_us"] else None,
        }
    kernels = [it["ratio"] for name, it in ratios.items() if it["ratio"] and not name.startswith("Mem")]
    return {
        "gpu_events": floe["gpu_events"], "gpu_events_native": native["gpu_events"],
        "by_category": floe["by_category"], "linked": floe["linked"], "linked_native": native["linked"],
        "begin_before_their_call": floe["begin_before_their_call"],
        "seconds": floe["seconds"], "seconds_native": native["seconds"],
        "same_losses": floe["losses"] == native["losses"],
        "ratios_of_kernels": {"least": min(kernels, default=None), "most": max(kernels, default=None)},
        "names": ratios, "names_only_here": sorted(set(floe["names"]) - set(native["names"])),
    }


def main():
    *runs, written = sys.argv[1:]
    native = read(runs[0])
    said = {"torch": native["torch"], "device": native["device"], "native_by_category": native["by_category"]}
    for path in runs[1:]:
        name = os.path.splitext(os.path.basename(path))[0]
        said[name] = beside(native, read(path)) if os.path.exists(path) else None
    with open(written, "w") as file:
        json.dump(said, file, indent=1)
    for name in (os.path.splitext(os.path.basename(path))[0] for path in runs[1:]):
        it = said[name]
        if it is None:
            print(f"{name}: no result")
            continue
        print(f"{name}: {it['gpu_events']} of {it['gpu_events_native']} GPU events, {it['linked']} linked "
              f"(native {it['linked_native']}), kernel medians {it['ratios_of_kernels']}")


main()

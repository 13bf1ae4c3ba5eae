"""How the frameworks' checks run: names come in as arguments (none: all), one line per check goes out: `ok NAME` or
`FAILED NAME: why`. A check may return numbers; they go out first as `value NAME NUMBERS…`, exactly as the machine holds
them, and must be the same natively and under floe. It never goes on after a failure with --stop-at-failure, because a
broken CUDA context fails every check behind it."""

import os
import sys
import traceback

CHECKS = {}


def check(function):
    """Makes a function one of the file's checks, under its own name."""
    CHECKS[function.__name__] = function
    return function


def equal(what, got, want):
    """Ends the check when two plain values are not the same."""
    if got != want:
        raise AssertionError(f"{what}: {got!r}, expected {want!r}")


def near(what, got, want, relative=1e-5, absolute=1e-6):
    """Ends the check when numbers, tensors or arrays differ by more than a tolerance."""
    got, want = on_host(got), on_host(want)
    if got.shape != want.shape:
        raise AssertionError(f"{what}: shape {got.shape}, expected {want.shape}")
    difference = abs(got - want)
    worst = (difference - absolute - relative * abs(want)).max() if got.size else 0.0
    if not worst <= 0:
        raise AssertionError(f"{what}: differs by up to {difference.max()}")


def on_host(value):
    """Anything numeric as a NumPy array of double precision."""
    import numpy

    for way in ("detach", "get"):
        if hasattr(value, way) and not isinstance(value, dict):
            value = getattr(value, way)()
    if hasattr(value, "cpu"):
        value = value.cpu()
        value = value.to_dense() if value.layout.__str__() != "torch.strided" else value
        value = (value if value.is_complex() else value.double()).numpy()
    value = numpy.asarray(value)
    return value.astype(numpy.complex128 if numpy.iscomplexobj(value) else numpy.float64)


def refuses(what, errors, work):
    """Ends the check when `work` does not raise one of `errors`."""
    try:
        work()
    except errors:
        return
    raise AssertionError(f"{what}: was not refused")


def exact(*values):
    """Numbers for a `value` line: scalars, tensors or arrays, flattened."""
    numbers = []
    for value in values:
        numbers.extend(on_host(value).ravel().tolist())
    return numbers


def as_text(number):
    """A number without loss."""
    if isinstance(number, complex):
        return f"{number.real.hex()},{number.imag.hex()}"
    return float(number).hex()


def main():
    """Runs what the arguments name."""
    arguments = sys.argv[1:]
    stop = "--stop-at-failure" in arguments
    names = [argument for argument in arguments if not argument.startswith("--")] or list(CHECKS)
    print("checks", *names, flush=True)
    failures = 0
    for name in names:
        try:
            numbers = CHECKS[name]()
        except Exception as error:  # Whatever went wrong is the finding.
            traceback.print_exc(limit=8)
            sys.stderr.flush()
            failures += 1
            reason = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            print(f"FAILED {name}: {reason}", flush=True)
            if stop:
                break
            continue
        if numbers is not None:
            print("value", name, *(as_text(number) for number in numbers), flush=True)
        print(f"ok {name}", flush=True)
    if failures:
        # No unwinding: an interpreter that ends on a broken context can hang in destructors.
        sys.stdout.flush()
        os._exit(1)

"""How the measured Python programs report: a budget and section names come in as arguments, one JSON line per finding goes out.
What is timed takes turns with the same program on other ways: a measurement is several short bursts, and before each the
program stands still until it is told to go on.
A section that fails says so and ends the program, for its CUDA context may be beyond use; whoever started it runs the rest anew.
It never judges a number: floe-bench compares, this only reports."""

import ctypes
import json
import os
import sys
import time
import traceback

# Bursts of a measurement: with four ways, each begins a turn four times. Where others work on the same cores, a processor is
# now half as fast again and now not, for as long as a burst: many short ones are closer to their median than few long ones.
TURNS = 16
# Timed runs of a burst: enough for a median over all bursts, not more than a clock needs.
FEWEST, MOST = 2, 250
# Pairs of processors for the turns. A thread stays where it is while nothing drives it away, for as long as its process lives:
# where processors differ in speed (others' work on the same cores), two processes differ by more than what is measured.
PROCESSORS = sorted(os.sched_getaffinity(0))
ROTATES = os.environ.get("FLOE_BENCH_ROTATE") == "1" and len(PROCESSORS) >= 4
# The share of a burst's time that passes before it is timed: caches hold what the process before left there.
SETTLING = 0.2


def say(kind, **values):
    """Prints one finding."""
    print(json.dumps({"kind": kind, **values}), flush=True)


def mark(name):
    """Says that the program has come this far; floe-bench takes the time since its start."""
    say("mark", name=name)


def stand(kind, **values):
    """Says why it stands still, and does until floe-bench answers."""
    say(kind, **values)
    sys.stdin.readline()


def pause(name):
    """Stands still until floe-bench has measured the memory of this moment."""
    stand("pause", name=name)


def place(processors):
    """Has the program's threads run on these processors only; floe's own go where they like, as the server's do."""
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/comm") as name:
                if not name.read().startswith("floe"):
                    os.sched_setaffinity(int(thread), processors)
        except OSError:
            pass  # It has ended.


def place_by_turn(number):
    """Has this turn run on two processors, which are the same by every way; the next on two others."""
    if ROTATES:
        first = 2 * (number % (len(PROCESSORS) // 2))
        place(PROCESSORS[first : first + 2])


def turn():
    """Stands still until all other ways do; from here to the next turn or meeting nothing else runs."""
    stand("turn")


def meet():
    """Gives the turn away and stands still until every way has come this far."""
    stand("meet")


def result(name, values):
    """Reports numbers that must be the same natively and under floe, exactly as the machine holds them."""
    say("result", name=name, values=[float(value).hex() for value in values])


def burst(work, each, seconds):
    """Times `work` again and again, once it has run for a while."""
    settled = time.perf_counter() + seconds * SETTLING
    work()
    while time.perf_counter() < settled:
        work()
    times, begin = [], time.perf_counter()
    while len(times) < FEWEST or (time.perf_counter() - begin < seconds and len(times) < MOST):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) / each)
    return times


def measure(name, work, each=1, warm=3, seconds=None, turns=TURNS, heating=0):
    """Reports the median time of `work`, which must leave nothing running; `each` is how many units one call does.
    The time is split into `turns`; `heating` as many come before them and do not count. `warm` runs come first of all,
    beside those of the other ways."""
    for _ in range(warm):
        work()
    share = (seconds if seconds is not None else float(sys.argv[1]) / 1e3) / turns
    times, medians = [], []
    for number in range(heating + turns):
        turn()
        place_by_turn(number)
        timed = burst(work, each, share)
        if number >= heating:
            times += timed
            medians.append(sorted(timed)[len(timed) // 2])
    if ROTATES:
        place(PROCESSORS)
    meet()
    times.sort()
    low, middle, high = times[len(times) // 10], times[len(times) // 2], times[-1 - len(times) // 10]
    say("time", name=name, seconds=middle, low=low, high=high, iterations=len(times), turns=medians)


def waits(name, work, units, warm=2):
    """Reports how often one unit of `work` waits for the server; natively there is nothing to count and nothing is said.
    It takes a turn, too: a GPU that others keep busy may have it wait more often."""
    counter = waits_so_far()
    turn()
    if counter is not None:
        for _ in range(warm):
            work()
        before = counter()
        for _ in range(units):
            work()
        say("count", name=name, per_unit=(counter() - before) / units)
    meet()


def waits_so_far():
    """floe's counter of waits, where the process's libcuda.so.1 is floe's."""
    try:
        counter = ctypes.CDLL("libcuda.so.1").floe_waits
    except (AttributeError, OSError):
        return None
    counter.restype = ctypes.c_uint64
    counter.argtypes = []
    return counter


def run(sections):
    """Runs the sections named by the arguments, in their order; all of them when none is named."""
    for name in sys.argv[2:] or sections:
        try:
            sections[name]()
        except Exception as error:  # Whatever went wrong is the finding.
            traceback.print_exc(limit=8)
            sys.stderr.flush()
            say("failed", section=name, reason=f"{type(error).__name__}: {error}".splitlines()[0][:300])
            # No unwinding: an interpreter that ends on a broken context can hang in destructors.
            sys.stdout.flush()
            os._exit(1)
        say("done", section=name)

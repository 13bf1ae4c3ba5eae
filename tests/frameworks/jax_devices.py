"""JAX over every GPU that the program sees, one or several: copies between devices, sharded arrays, collectives of shard_map
(NCCL), a training step by pmap. Sums are of whole numbers, exact in any order."""
# run alone
# every gpu
# run with: XLA_PYTHON_CLIENT_PREALLOCATE=false

import functools

import jax
import jax.numpy as jnp
import numpy
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from checking import check, equal, main

COUNT = len(jax.devices())
MESH = Mesh(numpy.array(jax.devices()), ("gpu",))


@check
def copies_between_devices():
    x = jnp.arange(1 << 20, dtype=jnp.int32)
    for _ in range(3):
        for device in jax.devices():
            x = jax.device_put(x, device) + 1
            equal("where it is", x.devices(), {device})
    equal("each number", bool((numpy.asarray(x) == numpy.arange(1 << 20) + 3 * COUNT).all()), True)


def sharded(x):
    """Rows over the devices."""
    return jax.device_put(x, NamedSharding(MESH, P("gpu")))


@check
def sharded_arrays():
    x = sharded(jnp.arange(COUNT * 4096, dtype=jnp.int32).reshape(COUNT * 4, 1024))
    equal("shards", len(x.addressable_shards), COUNT)
    equal("sum", int(jax.jit(lambda v: (v % 1000).sum())(x)), int((numpy.arange(COUNT * 4096) % 1000).sum()))
    columns = jax.device_put(x, NamedSharding(MESH, P(None, "gpu")))
    equal("laid out anew", bool((numpy.asarray(columns) == numpy.asarray(x)).all()), True)
    equal("transposed", bool((numpy.asarray(jax.jit(lambda v: v.T)(x)) == numpy.asarray(x).T).all()), True)


def on_each(function, out=P("gpu")):
    """A function of each device's part."""
    return jax.jit(jax.shard_map(function, mesh=MESH, in_specs=P("gpu"), out_specs=out, check_vma=False))


@check
def collectives():
    x = sharded(jnp.arange(COUNT * 1000, dtype=jnp.int32))
    rows = numpy.arange(COUNT * 1000).reshape(COUNT, 1000)
    total = on_each(lambda v: jax.lax.psum(v, "gpu"), P())(x)
    equal("psum", bool((numpy.asarray(total) == rows.sum(0)).all()), True)
    most = on_each(lambda v: jax.lax.pmax(v, "gpu"), P())(x)
    equal("pmax", bool((numpy.asarray(most) == rows.max(0)).all()), True)
    gathered = on_each(lambda v: jax.lax.all_gather(v, "gpu", tiled=True))(x)
    equal("all_gather", bool((numpy.asarray(gathered) == numpy.tile(rows.ravel(), COUNT)).all()), True)
    ring = [(number, (number + 1) % COUNT) for number in range(COUNT)]
    moved = on_each(lambda v: jax.lax.ppermute(v, "gpu", ring))(x)
    equal("ppermute", bool((numpy.asarray(moved).reshape(COUNT, -1) == numpy.roll(rows, 1, 0)).all()), True)
    parts = on_each(lambda v: jax.lax.psum_scatter(v, "gpu", tiled=True))(x)
    equal("psum_scatter", bool((numpy.asarray(parts) == rows.sum(0)).all()), True)


@check
def sums_again_and_again():
    x = sharded(jnp.ones(COUNT * 256, dtype=jnp.int32))
    step = on_each(lambda v: jax.lax.psum(v, "gpu") % 1009 + 1)
    expected = 1
    for _ in range(50):
        x = step(x)
        expected = expected * COUNT % 1009 + 1
    equal("fifty sums", numpy.unique(numpy.asarray(x)).tolist(), [expected])


@check
def training_by_pmap():
    @functools.partial(jax.pmap, axis_name="gpu")
    def step(weight, x):
        gradient = jax.grad(lambda w: (x * w).sum())(weight)
        return weight - jax.lax.psum(gradient, "gpu")

    weight = jnp.zeros((COUNT, 16))
    for number in range(1, 6):
        weight = step(weight, jnp.stack([jnp.full(16, float(number + rank)) for rank in range(COUNT)]))
    expected = -sum(sum(number + rank for rank in range(COUNT)) for number in range(1, 6))
    equal("weights", numpy.unique(numpy.asarray(weight)).tolist(), [float(expected)])


if __name__ == "__main__":
    main()

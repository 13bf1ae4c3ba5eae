"""JAX on a device: jit, grad, a training step, large matmuls, control flow, random numbers, its own allocators.
Sums that are known exactly are compared exactly: a wrong number here once came without an error elsewhere."""
# run alone
# run with:
# run with: XLA_FLAGS=--xla_gpu_autotune_level=0
# run with: XLA_PYTHON_CLIENT_ALLOCATOR=vmm
# run with: XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async XLA_PYTHON_CLIENT_PREALLOCATE=false

import os

import jax
import jax.numpy as jnp
import numpy

from checking import check, equal, exact, main, near


@check
def device():
    equal("platform", jax.devices()[0].platform, "gpu")


@check
def exact_sum():
    """The sum of 0 … 2^20 − 1, in whole numbers and as ones in floats: no rounding may excuse anything."""
    equal("integers", int(jnp.sum(jnp.arange(1 << 16, dtype=jnp.int32))), (1 << 15) * ((1 << 16) - 1))
    equal("ones", float(jnp.sum(jnp.ones(1 << 20, dtype=jnp.float32))), float(1 << 20))
    near("floats", float(jnp.sum(jnp.arange(1 << 20, dtype=jnp.float32))), float((1 << 19) * ((1 << 20) - 1)), 1e-5, 0)


@check
def compiled():
    x = jnp.linspace(-3, 3, 10_000)
    near("fused", jax.jit(lambda v: jnp.tanh(v) * jnp.exp(-v * v) + 1)(x),
         numpy.tanh(on(x)) * numpy.exp(-on(x) ** 2) + 1, 1e-4, 1e-5)


def on(x):
    return numpy.asarray(x, dtype=numpy.float64)


@check
def gradients():
    key = jax.random.PRNGKey(0)
    x = jax.random.normal(key, (64, 32))
    weight = jax.random.normal(jax.random.PRNGKey(1), (32, 16))
    value, gradient = jax.jit(jax.value_and_grad(lambda w: jnp.sum(jnp.tanh(x @ w) ** 2)))(weight)
    activated = numpy.tanh(on(x) @ on(weight))
    near("value", value, (activated**2).sum(), 1e-2, 1e-2)
    near("gradient", gradient, on(x).T @ (2 * activated * (1 - activated**2)), 5e-2, 1e-1)


@check
def matmuls():
    for kind in (jnp.float32, jnp.bfloat16, jnp.float16):
        a, b = jnp.ones((4096, 2048), kind), jnp.ones((2048, 4096), kind)
        product = jax.jit(jnp.matmul)(a, b)
        equal(str(kind), (float(product.min()), float(product.max())), (2048.0, 2048.0))


@check
def training():
    key = jax.random.PRNGKey(2)
    x = jax.random.normal(key, (256, 20))
    y = jnp.sin(x.sum(1, keepdims=True))
    layers = [jax.random.normal(jax.random.PRNGKey(n), shape) * 0.1 for n, shape in enumerate([(20, 64), (64, 1)])]

    @jax.jit
    def step(parameters):
        def loss(parameters):
            return jnp.mean((jnp.tanh(x @ parameters[0]) @ parameters[1] - y) ** 2)

        value, gradient = jax.value_and_grad(loss)(parameters)
        return value, [parameter - 0.1 * change for parameter, change in zip(parameters, gradient)]

    losses = []
    for _ in range(50):
        value, layers = step(layers)
        losses.append(float(value))
    equal("the loss falls", losses[-1] < losses[0], True)
    # The autotuner chooses by time, natively too: the last digit differs from run to run.
    return losses[:10] if "autotune_level=0" in os.environ.get("XLA_FLAGS", "") else None


@check
def convolution():
    x, kernel = jnp.ones((2, 3, 16, 16)), jnp.ones((4, 3, 3, 3))
    y = jax.jit(lambda a, b: jax.lax.conv(a, b, (1, 1), "VALID"))(x, kernel)
    equal("sums", (y.shape, float(y.min()), float(y.max())), ((2, 4, 14, 14), 27.0, 27.0))


@check
def loops():
    equal("fori", int(jax.jit(lambda n: jax.lax.fori_loop(0, n, lambda i, s: s + i, 0))(1000)), 499_500)
    equal("while", int(jax.lax.while_loop(lambda v: v < 1000, lambda v: v * 2, 1)), 1024)
    _, sums = jax.lax.scan(lambda s, v: (s + v, s + v), 0, jnp.arange(100))
    equal("scan", int(sums[-1]), 4950)
    near("vmap", jax.vmap(lambda row: row.sum())(jnp.ones((50, 7))), numpy.full(50, 7.0))


@check
def random_numbers():
    return exact(jax.random.normal(jax.random.PRNGKey(7), (8,)), jax.random.uniform(jax.random.PRNGKey(8), (8,)))


@check
def decompositions():
    a = jax.random.normal(jax.random.PRNGKey(3), (64, 64))
    symmetric = a @ a.T + 64 * jnp.eye(64)
    factor = jnp.linalg.cholesky(symmetric)
    near("cholesky", factor @ factor.T, symmetric, 1e-2, 5e-1)
    values, vectors = jnp.linalg.eigh(symmetric)
    near("eigh", vectors @ jnp.diag(values) @ vectors.T, symmetric, 1e-2, 5e-1)
    near("fft", jnp.fft.ifft(jnp.fft.fft(a)).real, a, 1e-3, 1e-3)
    near("sort", jnp.sort(a.ravel()), numpy.sort(on(a).ravel()))


@check
def donated_and_copied():
    work = jax.jit(lambda v: v + 1, donate_argnums=0)
    x = jnp.zeros(1 << 20)
    for _ in range(100):
        x = work(x)
    equal("a hundred", (float(x.min()), float(x.max())), (100.0, 100.0))
    there = jax.device_put(numpy.arange(1000.0, dtype=numpy.float32))
    near("and back", numpy.asarray(there), numpy.arange(1000.0))


@check
def host_callback():
    def double(v):
        return numpy.asarray(v) * 2

    x = jnp.arange(8.0)
    y = jax.jit(lambda v: jax.pure_callback(double, jax.ShapeDtypeStruct(v.shape, v.dtype), v) + 1)(x)
    near("through the host", y, on(x) * 2 + 1)


main()

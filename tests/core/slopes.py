"""A client's values and gradients as one program; operations by themselves compile one by one."""

import jax
import jax.numpy as jnp

EPS = 1e-6


@jax.jit
def value_and_grad(group, client, w):
    """Over all rows of a client of a group."""
    f = group.objective(client)
    return f.full_value(w), f.full_grad(w)


@jax.jit
def grad_and_slopes(federation, client, key, noise, places):
    """At a noisy first model, a client's gradient, and differences of values at some places."""
    f = federation.groups[0].objective(client)
    w = federation.fed.init_model(key) + noise

    def slope(place):
        step = jnp.zeros_like(w).at[place].set(EPS)
        return (f.full_value(w + step) - f.full_value(w - step)) / (2 * EPS)

    return f.full_grad(w), jax.lax.map(slope, places)

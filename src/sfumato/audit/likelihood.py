"""Likelihoods of the integer noise laws: what an attacker who knows the law would compute."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.privacy.ball import BallNoise
from sfumato.privacy.body import CubeNoise, DiscNoise, StackedCubes, StackedDiscs
from sfumato.privacy.laws import NoiseLaw
from sfumato.privacy.noise import DiscreteGaussian, DiscreteLaplace, FlooredLaplace


def log_weights(law: NoiseLaw, noise: NDArray[np.number]) -> NDArray[np.float64]:
    """Log probability of noise vectors, up to a constant of the law.

    Parameters
    ----------
    law : NoiseLaw
        One of the library's laws.
    noise : ndarray, shape (..., size)
        Noise vectors along the last axis; whole blocks for the laws that come in blocks.

    Returns
    -------
    ndarray, shape (...)

    Examples
    --------
    >>> from fractions import Fraction
    >>> log_weights(DiscreteLaplace(Fraction(1, 2)), np.array([[0, 0], [3, -1]]))
    array([-0., -2.])
    """
    if isinstance(law, DiscreteLaplace):
        energy = float(law.rate) * np.abs(noise).sum(axis=-1)
    elif isinstance(law, FlooredLaplace):
        energy = float(law.rate) * np.where(noise >= 0, noise, -1 - noise).sum(axis=-1)
    elif isinstance(law, DiscreteGaussian):
        energy = np.square(noise.astype(np.float64)).sum(axis=-1) / (2.0 * law.sigma**2)
    elif isinstance(law, CubeNoise):
        blocks = noise.reshape(*noise.shape[:-1], -1, law.size)
        energy = float(law.rate) * np.abs(blocks).max(axis=-1).sum(axis=-1)
    elif isinstance(law, BallNoise):
        blocks = noise.astype(np.float64).reshape(*noise.shape[:-1], -1, law.size)
        energy = float(law.rate) * np.linalg.norm(blocks, axis=-1).sum(axis=-1)
    elif isinstance(law, DiscNoise):
        pairs = noise.astype(np.float64).reshape(*noise.shape[:-1], -1, law.pairs, 2)
        radii = np.ceil(np.sqrt(np.square(pairs).sum(axis=-1))).max(axis=-1)
        energy = float(law.rate) * np.maximum(radii, 1.0).sum(axis=-1)
    elif isinstance(law, StackedCubes):
        ends = np.cumsum([part.size for part in law.parts])[:-1]
        pieces = np.split(noise.reshape(*noise.shape[:-1], -1, law.block), ends, axis=-1)
        norms = [float(part.rate) * np.abs(piece).max(axis=-1) for part, piece in zip(law.parts, pieces, strict=True)]
        energy = np.sum(norms, axis=0).sum(axis=-1)
    elif isinstance(law, StackedDiscs):
        pieces = np.split(noise, np.cumsum(law.sizes)[:-1], axis=-1)
        energy = -np.sum([log_weights(part, piece) for part, piece in zip(law.parts, pieces, strict=True)], axis=0)
    else:
        raise InputError(f"the likelihood of {law!r} is not known; pass a statistic of your own")
    return np.asarray(-energy)

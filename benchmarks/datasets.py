"""Data sets by name: real ones from the folder named by SFUMATO_DATA, scaled with public bounds, and synthetic ones.

A loader is a function of the data set's table in the case. Nothing here is read off the data: the bounds are public
facts about the columns.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from benchmarks import synthetic
from benchmarks.kinds import Skipped

SPLIT_SEED = 0
# Ages are brackets of ten years from 0 to 100, here in decades; stays last from 1 to 14 days.
DIABETES_BOUNDS = ((0.0, 10.0), (1.0, 14.0))
NEW_YORK_BOUNDS = ((-74.1, -73.15), (40.5, 40.9))
CODRNA_BOUNDS = np.array([(-1868, 0), (67, 133), *[(0, 0.5)] * 6], dtype=np.float64)

Points = NDArray[np.float32]
Bounds = tuple[float, float] | tuple[tuple[float, float], ...] | None


@dataclass(frozen=True, eq=False)
class Split:
    """Points to release and held-out points to query, with the public bounds of both (None where there are none)."""

    name: str
    points: Points
    held_out: NDArray[np.float64]
    bounds: Bounds

    @property
    def facts(self) -> dict[str, Any]:
        """What a row says about its data."""
        return {"set": self.name, "n": len(self.points), "d": self.points.shape[1], "split_seed": SPLIT_SEED}


def load_split(table: Mapping[str, Any], held_out: int) -> Split:
    """Load the data set that a case's table names and split it at random, always in the same way."""
    # The names in the table are few and its values plain, so equal tables share one copy in memory.
    named = tuple(sorted((key, value) for key, value in table.items() if key not in ("bandwidth", "seeds")))
    return _load_split(named, held_out)


@lru_cache(maxsize=1)
def _load_split(table: tuple[tuple[str, Any], ...], held_out: int) -> Split:
    settings = dict(table)
    name = str(settings.pop("set"))
    if name not in LOADERS:
        raise ValueError(f"unknown data set {name!r}; known are {', '.join(LOADERS)}")
    rows = settings.pop("rows", None)  # a case may want fewer points than there are
    points, bounds = LOADERS[name](**settings)
    order = np.random.default_rng(SPLIT_SEED).permutation(len(points))
    order = order if rows is None else order[: held_out + int(rows)]
    return Split(name, points[order[held_out:]], points[order[:held_out]].astype(np.float64), bounds)


def _array(file: str, name: str) -> NDArray[Any]:
    folder = os.environ.get("SFUMATO_DATA")
    if not folder:
        raise Skipped("SFUMATO_DATA does not name the folder of the real data sets")
    path = Path(folder) / file
    if not path.exists():
        raise Skipped(f"SFUMATO_DATA has no {file}")
    with np.load(path, allow_pickle=False) as archive:
        return np.asarray(archive[name])


def diabetes2d() -> tuple[Points, Bounds]:
    """Age bracket and days in hospital of 101,766 hospital stays (UCI Diabetes 130-US)."""
    return _array("diabetes2d.npz", "X").astype(np.float32), DIABETES_BOUNDS


def nyc_uber2d() -> tuple[Points, Bounds]:
    """Longitude and latitude of 418,511 pickups in New York, April to September 2014."""
    return _array("nyc_uber2d.npz", "X").astype(np.float32), NEW_YORK_BOUNDS


def codrna(columns: int = 8) -> tuple[Points, tuple[float, float]]:
    """Eight features (or the first ones) of 331,152 RNA sequences (LIBSVM cod-rna), scaled to [0, 1] with bounds."""
    low, high = CODRNA_BOUNDS.T
    return ((_array("codrna.npz", "X") - low) / (high - low))[:, :columns].astype(np.float32), (0.0, 1.0)


def glove100d() -> tuple[Points, None]:
    """The 100-dimensional GloVe vectors of the 100,000 most frequent words."""
    return _array("glove100d_100k.npz", "E").astype(np.float32), None


def glove_columns(columns: int) -> tuple[Points, tuple[float, float]]:
    """The first columns of `glove100d`, within bounds: most entries of such vectors lie within 1 of 0."""
    return glove100d()[0][:, :columns], (-2.0, 2.0)


def image_columns(columns: int) -> tuple[Points, tuple[float, float]]:
    """The first columns of ResNet-18 features of 15,000 images: never below 0 and skewed, seldom above 4."""
    return _array("cifar10_resnet18_3class.npz", "E")[:, :columns].astype(np.float32), (0.0, 4.0)


def agnews() -> tuple[Points, None]:
    """20,000 news texts as embeddings of 384 columns and length 1 (AG News, all-MiniLM-L6-v2)."""
    return _array("minilm_agnews_train20k.npz", "E").astype(np.float32), None


def words() -> tuple[Points, None]:
    """20,000 common English words in the embedding of `agnews`."""
    return _array("minilm_words20k.npz", "E").astype(np.float32), None


def worded() -> tuple[Points, list[str]]:
    """Embeddings of `words`, and the words themselves."""
    return words()[0], [str(word) for word in _array("minilm_words20k.npz", "words")]


def labelled_agnews() -> tuple[Points, NDArray[np.int64], Points, NDArray[np.int64]]:
    """Points and classes of `agnews` for training, and 4,000 more for testing."""
    parts = [_array(f"minilm_agnews_{part}.npz", name) for part in ("train20k", "test4k") for name in ("E", "y")]
    return (
        parts[0].astype(np.float32),
        parts[1].astype(np.int64),
        parts[2].astype(np.float32),
        parts[3].astype(np.int64),
    )


def labelled_cifar() -> tuple[Points, NDArray[np.int64], Points, NDArray[np.int64]]:
    """ResNet-18 features of images of three classes, made of length 1: 12,000 for training and 3,000 for testing."""
    points, labels = (_array("cifar10_resnet18_3class.npz", name) for name in ("E", "y"))
    points = points.astype(np.float32)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    order = np.random.default_rng(SPLIT_SEED).permutation(len(points))
    train, test = order[:12_000], order[12_000:]
    codes = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    return points[train], codes[train], points[test], codes[test]


def labelled_pair() -> tuple[Points, NDArray[np.int64], Points, NDArray[np.int64]]:
    """Two classes of `labelled_agnews`, Business and Sci/Tech."""
    points, labels, tests, answers = labelled_agnews()
    kept, asked = labels >= 2, answers >= 2
    return points[kept], labels[kept] - 2, tests[asked], answers[asked] - 2


def labelled_clusters(classes: int = 14) -> tuple[Points, NDArray[np.int64], Points, NDArray[np.int64]]:
    """Words in clusters of k-means, which stand for classes: 17,000 for training and the others for testing."""
    points = words()[0]
    labels = KMeans(classes, n_init=1, random_state=SPLIT_SEED).fit_predict(points).astype(np.int64)
    order = np.random.default_rng(SPLIT_SEED).permutation(len(points))
    train, test = order[:17_000], order[17_000:]
    return points[train], labels[train], points[test], labels[test]


LABELLED: dict[str, Callable[[], tuple[Points, NDArray[np.int64], Points, NDArray[np.int64]]]] = {
    "agnews": labelled_agnews,
    "cifar": labelled_cifar,
    "pair": labelled_pair,
    "clusters": labelled_clusters,
}


def mixture(n: int, d: int, centres: int = 20, reach: float | None = None) -> tuple[Points, Bounds]:
    """Unit normals around standard normal centres: synthetic, always at hand; bounds of `reach` if it is given."""
    random = np.random.default_rng(1)
    bounds = None if reach is None else (-reach, reach)
    middles = random.standard_normal((centres, d), dtype=np.float32)
    return middles[random.integers(centres, size=n)] + random.standard_normal((n, d), dtype=np.float32), bounds


def boxed(n: int, d: int, side: float, centres: int = 12) -> tuple[Points, Bounds]:
    """Normals of a bandwidth or less around places in a box, clipped to it: synthetic, always at hand."""
    random = np.random.default_rng(3)
    middles, spreads = random.uniform(0.1, 0.9, size=(centres, d)) * side, random.uniform(0.3, 1.0, size=centres)
    chosen = random.integers(centres, size=n)
    points = middles[chosen] + spreads[chosen, None] * random.standard_normal((n, d))
    return points.clip(0, side).astype(np.float32), (0.0, side)


def syn(n: int, d: int) -> tuple[Points, Bounds]:
    """Ten tight blobs of unequal sizes, the synthetic set of the local experiments."""
    points, _ = synthetic.blobs(n, d, queries=0)
    return points.astype(np.float32), synthetic.BOUNDS


LOADERS: dict[str, Callable[..., tuple[Points, Bounds]]] = {
    loader.__name__: loader
    for loader in (
        diabetes2d,
        nyc_uber2d,
        codrna,
        glove100d,
        glove_columns,
        image_columns,
        agnews,
        words,
        mixture,
        boxed,
        syn,
    )
}

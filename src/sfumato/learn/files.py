"""A classifier as one file: the releases of all classes in the container of `sfumato.release.format`.

Header: ``{"classifier": {"classes", "rule", "priors", "together"}, "release": {...}, "each": [{...}, ...]}``.
"release" is the header of the first class's release, and "each" holds, for every class, the entries in which its header
differs from that (usually the count alone). "together" says how the promises of the classes make up that of all, see
`common_guarantee`. Files of 0.1.0 do not have it: `DensityClassifier.fit` is recognised by what it says about labels,
and the promises of other releases add up. Arrays are named ``class:name``, with the class's place; one that is equal to
the first class's is left out, so that features which all classes share are stored once (`sharing`). A centre that is
taken off points is the entry "center" of "classifier", one number a column; without one there is no such entry.

Rule "linear" has no releases: ``{"classifier": {...}, "linear": {...}}``, see `softmax`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, ReleaseFileError
from sfumato.kernels import InnerProduct, Kernel
from sfumato.learn import rules, sharing
from sfumato.learn.collecting import OTHERS
from sfumato.learn.fitting import public_center
from sfumato.learn.labels import LABEL_CONDITION
from sfumato.learn.softmax import LinearModel
from sfumato.learn.squared_distance import ProjectedSquares
from sfumato.privacy.guarantee import LARGEST_EPSILON, Guarantee
from sfumato.public.codec import Many, Nested, Optional, Real, Schema, Text, refuse
from sfumato.public.ranges import LARGEST_LENGTH, MOST_COLUMNS
from sfumato.quantizers.base import Floats
from sfumato.release import Release
from sfumato.release import format as container

MOST_CLASSES = 100_000
_LABELS = (str, int, float, bool)

# How the promises of the classes make up the promise of all.
BY_LABEL, DISJOINT, SHARED = "by-label", "disjoint", "shared"
_DECLARED = "no record is in the data of more than one class, as declared by whoever put the releases together"
_PUBLIC_SIZES = "the number of records of every class is public"
_WEAKEST = "the promises of the classes differ, and the weakest of them is stated"


def _label(value: Any, path: str) -> Any:
    if not isinstance(value, _LABELS):
        raise refuse(path, "a class: they are text or numbers", value)
    return value


_ABOUT = Schema(
    classes=Many(Nested(_label), most=MOST_CLASSES, least=1),
    rule=Text(*rules.RULES),
    priors=Nested(lambda value, _: value),  # one for each class: checked with them
    together=Optional(Text(BY_LABEL, DISJOINT, SHARED)),
    center=Optional(Many(Real(-LARGEST_LENGTH, LARGEST_LENGTH), most=MOST_COLUMNS, least=1)),
)


@dataclass(frozen=True)
class Content:
    """What a classifier's file holds.

    Attributes
    ----------
    classes : ndarray
        The classes, sorted.
    releases : tuple of Release
        One for each.
    rule : str
        What decides.
    priors : str or list of float
        What densities are multiplied with.
    together : str
        How the promises of the classes make up that of all.
    center : ndarray or None
        What is taken off points.
    linear : LinearModel or None
        For rule "linear", which has no releases.
    """

    classes: NDArray[Any]
    releases: tuple[Release, ...]
    rule: str
    priors: Any
    together: str
    center: Floats | None = None
    linear: LinearModel | None = None


def _labels(classes: NDArray[Any]) -> list[Any]:
    labels: list[Any] = classes.tolist()
    if not all(isinstance(label, _LABELS) for label in labels):
        raise InputError("a classifier is saved with classes that are text or numbers; rename them")
    return labels


def encode_linear(classes: NDArray[Any], linear: LinearModel) -> bytes:
    """Lay out the file of rule "linear"."""
    document, arrays = linear.to_document()
    about = {"classes": _labels(classes), "rule": rules.LINEAR, "priors": "uniform", "together": BY_LABEL}
    return container.encode({"classifier": about, "linear": document}, arrays)


def encode(
    classes: NDArray[Any],
    releases: Sequence[Release],
    rule: str,
    priors: Any,
    together: str,
    center: Floats | None = None,
) -> bytes:
    """Lay out the file."""
    labels = _labels(classes)
    headers = [release.describe() for release in releases]
    stored = [{"values": release.values, **release.reader.to_document()[1]} for release in releases]
    first = headers[0]
    arrays = {
        f"{place}:{name}": array
        for place, named in enumerate(stored)
        for name, array in named.items()
        if place == 0 or not np.array_equal(array, stored[0][name])
    }
    header = {
        "classifier": {
            "classes": labels,
            "rule": rule,
            "priors": priors if isinstance(priors, str) else np.asarray(priors, dtype=np.float64).tolist(),
            "together": together,
            **({} if center is None else {"center": center.tolist()}),
        },
        "release": first,
        "each": [{name: part for name, part in header.items() if part != first[name]} for header in headers],
    }
    return container.encode(header, arrays)


def decode(path: str | Path, max_memory: int | None = None) -> Content:
    """Read and check the file; anything out of place is a `ReleaseFileError`. `max_memory` is for all classes."""
    header, arrays = container.decode(path)
    if set(header) not in ({"classifier", "release", "each"}, {"classifier", "linear"}):
        raise ReleaseFileError(f"{str(path)!r} is a release and no classifier: read it with sfumato.load")
    with container.read_as("a classifier"):
        about = _ABOUT.read({"together": None, "center": None, **header["classifier"]}, "classifier")
        if "linear" in header:
            return _linear_content(about, header, arrays)
        return _content(about, header, arrays, max_memory)


def _linear_content(about: dict[str, Any], header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Content:
    labels = list(about["classes"])
    classes = np.array(labels)
    if classes.tolist() != labels or not np.array_equal(np.unique(classes), classes):
        raise ReleaseFileError("a classifier must have each of its classes once, in their order")
    if about != {**about, "rule": rules.LINEAR, "priors": "uniform", "together": BY_LABEL, "center": None}:
        raise ReleaseFileError("a linear classifier has rule 'linear', uniform priors and a centre of its own")
    linear = LinearModel.from_document(header["linear"], arrays, len(classes))
    return Content(classes, (), rules.LINEAR, "uniform", BY_LABEL, linear=linear)


def _content(
    about: dict[str, Any], header: dict[str, Any], arrays: dict[str, NDArray[Any]], max_memory: int | None
) -> Content:
    each, labels = header["each"], list(about["classes"])
    classes = np.array(labels)
    if classes.tolist() != labels or not np.array_equal(np.unique(classes), classes) or len(each) != len(classes):
        raise ReleaseFileError("a classifier must have one release for each of its classes, in their order")
    if not (isinstance(each, list) and all(isinstance(part, dict) for part in each)):
        raise ReleaseFileError("a classifier must say of each class in which entries it differs from the first")
    releases = sharing.releases_of(header["release"], each, _by_class(arrays, len(each)), labels, max_memory)
    check_together(releases, about["rule"], about["priors"])
    center = None if about["center"] is None else public_center(about["center"], releases[0].dimension)
    together = about["together"] or _of_first_version(releases)
    return Content(classes, releases, about["rule"], about["priors"], together, center)


def _by_class(arrays: dict[str, NDArray[Any]], classes: int) -> list[dict[str, NDArray[Any]]]:
    """Return the arrays that are stored for each class, by their names."""
    places = {str(place): place for place in range(classes)}
    stored: list[dict[str, NDArray[Any]]] = [{} for _ in range(classes)]
    for whole, array in arrays.items():
        place, _, name = whole.partition(":")
        if place not in places:
            raise ReleaseFileError(f"the classifier holds an array {whole!r} that nothing reads")
        stored[places[place]][name] = array
    return stored


def _of_first_version(releases: Sequence[Release]) -> str:
    promise = releases[0].guarantee
    fitted = any(said.startswith((LABEL_CONDITION, OTHERS)) for said in promise.conditions)
    return BY_LABEL if fitted and all(release.guarantee == promise for release in releases) else SHARED


def common_guarantee(guarantees: Sequence[Guarantee], together: str) -> Guarantee:
    """Return the promise of the releases of all classes.

    A record counts in one class only where the classifier itself sorted the records by their labels (`BY_LABEL`), or
    where that is declared (`DISJOINT`), which is then a condition: its promise is that class's, and the weakest of
    them is stated. Otherwise (`SHARED`) a record may be in the data of every class, and the promises add up.
    """
    first = guarantees[0]
    kinds = {(each.trust, each.neighbours, each.unit, each.n_public, each.within) for each in guarantees}
    if len(kinds) > 1:
        raise InputError(
            "the releases of a classifier must have one trust model, unit and neighbouring relation, and promise about "
            "the same changes"
        )
    same = all(each == first for each in guarantees)
    if len(guarantees) == 1 or (same and together == BY_LABEL):
        return first
    total = sum if together == SHARED else max
    epsilon = Fraction(total(each.epsilon for each in guarantees))
    if epsilon > LARGEST_EPSILON:
        raise InputError(
            f"the promises of the classes add up to epsilon = {float(epsilon):g}, and the largest that can be stated "
            f"is {LARGEST_EPSILON}: pass disjoint=True if no record is in the data of two classes"
        )
    said = dict.fromkeys(condition for each in guarantees for condition in each.conditions)
    if together == SHARED:
        said[f"a record may be in the data of all {len(guarantees)} classes, whose promises add up"] = None
    if together == DISJOINT:
        said[_DECLARED] = None
        said |= {_PUBLIC_SIZES: None} if first.n_public else {}
    if together != SHARED and not same:
        said[_WEAKEST] = None
    return replace(
        first,
        epsilon=epsilon,
        delta=total(each.delta for each in guarantees),
        conditions=tuple(said),
        private=all(each.private for each in guarantees),
    )


def rule_of(rule: str, first: Release, priors: Any) -> str:
    """Return the rule that "auto" stands for, for releases like this one."""
    if rule == rules.AUTO and isinstance(first.reader, ProjectedSquares):
        return rules.DISTANCE
    return rule if first.kernel is None else str(rules.chosen(rule, first.kernel, priors, linear=False))


def check_together(releases: Sequence[Release], rule: Any, priors: Any) -> Kernel:
    """Refuse a rule, priors or releases that do not go together; return what similar means to them."""
    first = releases[0]
    kernel = first.kernel
    if rule == rules.LINEAR:
        raise InputError("rule 'linear' is trained on records and cannot be made of releases")
    if rule == rules.DISTANCE:
        if not isinstance(first.reader, ProjectedSquares):
            raise InputError(f"rule {rule!r} reads projected squares, not {first.reader.name}")
        kernel = InnerProduct(first.reader.ball.radius)
    if kernel is None:
        raise InputError("a release does not carry its author's own kernel: compare such releases one by one")
    rules.check_rule(rule, kernel, priors)
    rules.check_priors(priors, len(releases))
    if any(release.dimension != first.dimension or release.kernel != first.kernel for release in releases):
        raise InputError("the releases of a classifier must have the same columns and the same kernel")
    return kernel

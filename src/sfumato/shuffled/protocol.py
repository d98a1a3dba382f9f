"""`Protocol`: the public document of a shuffled collection, and the roles that act on it.

Source: Algorithm 1 of Wagner (2025), with exactly calibrated bit sums (`sfumato.shuffled.bitsum`). A point
becomes integers (`methods`), these become bits (`features`), each bit is randomised and sealed as one message
(`client`); a shuffler mixes the messages of all (`shuffler`); the analyzer counts (`analyzer`) and publishes a
`Release`. docs/shuffled.md explains and proves.

Guarantee: what the analyzer sees, the shuffled messages of each group, is (epsilon, delta)-differentially private when
one participant's point is replaced, provided that at least `participants` follow the protocol, oneself included; with
private labels see `promise`. A document holds parameters, not promises: whoever reads one certifies them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from sfumato.errors import InputError
from sfumato.kernels import Kernel, get_kernel
from sfumato.methods.registry import SHUFFLED
from sfumato.privacy.guarantee import Guarantee, check_choice, checked_delta, exact_epsilon
from sfumato.public import document as documents
from sfumato.public.arguments import says
from sfumato.public.codec import Nested, Optional, Ratio, Schema, Text, Whole
from sfumato.quantizers import Quantizer
from sfumato.release import Release
from sfumato.shuffled import MAX_DELTA, MAX_EPSILON
from sfumato.shuffled.accuracy import Plan
from sfumato.shuffled.analyzer import Analyzer, simulate
from sfumato.shuffled.bitsum import NAMES
from sfumato.shuffled.bitsum.calibration import LARGEST_INSTANCES, check_delta
from sfumato.shuffled.client import Client, account_of
from sfumato.shuffled.features import Array, BitFeatures, arrays_from_document
from sfumato.shuffled.groups import (
    Budget,
    Group,
    calibrated,
    check_certifying,
    check_summary,
    classes_for,
    groups_from_documents,
    labels_of,
    participants_of,
)
from sfumato.shuffled.labels import Label, LabelResponse, plain_label
from sfumato.shuffled.methods import features_from, named, request_for
from sfumato.shuffled.promise import THREATS, Promise
from sfumato.shuffled.sealing import AnalyzerKey, Context, check_key, key_document

NAME = "shuffled"
_MECHANISM = Schema(
    {"name": NAME},
    bitsum=Text(*NAMES),
    quantizer=Nested(lambda value, _: documents.plain(value)),  # read by the quantizer of that name
    arrays=Nested(arrays_from_document),
    instances=Whole(1, LARGEST_INSTANCES),
    groups=Nested(groups_from_documents),
    label_epsilon=Optional(Ratio(10**20, positive=True)),
    threat=Text(*THREATS),
    key=Nested(check_key),
)


class Protocol:
    """Public parameters of a collection, and the roles that follow them.

    Parameters
    ----------
    kernel : str or Kernel
        What similar means.
    dimension : int
        Columns of a point.
    epsilon, delta : number
        For everything that the messages of one participant reveal after shuffling; delta is 0 for "pure" only.
    participants : int, or one for each class
        How many honest participants there are at least, in every class; a mapping by class or a list in their order.
    bandwidth : float, array or matrix, optional
        For kernels by name that need one.
    bitsum : str, default="rr"
        See `sfumato.shuffled.bitsum`.
    instances : int or "auto", default="auto"
        Bits of one participant. The inner product has one for each column; others choose by predicted error.
    classes : sequence of int or str, optional
        The public list of classes, each with a density of its own.
    label_epsilon : number, optional
        Participants report their class by randomised response; without it labels are public.
    bounds : pair, or one pair per column, optional
        Public bounds of the points.
    landmarks : array, optional
        Public points that resemble the records.
    quantizer : {"auto", "lattice", "fourier", "inner-product", "inner-product-signs", "landmarks", "hashing"}
        How a point becomes numbers; "inner-product-signs" is the published family. With bounds of up to three columns
        "auto" takes a Fourier series on them, "lattice", whose releases answer within the bounds.
    messages : float, optional
        For "rr": messages that a participant has to send, on average; a few more, cover included, are sent by all.
    threat : {"communication", "model"}, default="communication"
        Who a release's guarantee is against: whoever sees all shuffled messages and reported labels, or only releases.
    key : AnalyzerKey or bytes, optional
        The analyzer's (public) key; needed to send messages, not to simulate.
    key_expires, expires : date, str, optional
        When devices stop using the key, and stop altogether.
    seed : int, optional
        Public seed of the features; drawn at random by default.

    Examples
    --------
    >>> import numpy as np
    >>> protocol = Protocol("gaussian", bandwidth=1.0, dimension=2, epsilon=1, delta=1e-5, participants=500,
    ...                     instances=64, seed=1)
    >>> release = protocol.simulate(np.zeros((500, 2)), random_state=3)
    >>> bool(abs(release.query([[0.0, 0.0]])[0] - 1) < 5 * protocol.plan().accuracy.rmse)
    True
    """

    def __init__(
        self,
        kernel: str | Kernel,
        *,
        dimension: int,
        epsilon: Any,
        delta: float = 0.0,
        participants: int | Mapping[Any, int] | Sequence[int],
        bandwidth: Any = None,
        bitsum: str = "rr",
        instances: int | str = "auto",
        classes: Sequence[Any] | None = None,
        label_epsilon: Any = None,
        bounds: Any = None,
        landmarks: Any = None,
        quantizer: str = "auto",
        messages: float | None = None,
        threat: str = "communication",
        key: AnalyzerKey | bytes | None = None,
        key_expires: str | date | None = None,
        expires: str | date | None = None,
        seed: int | str | None = None,
    ) -> None:
        check_choice("bitsum", bitsum, tuple(NAMES))
        check_choice("threat", threat, THREATS)
        labels = labels_of(classes)
        counts = participants_of(participants, labels)
        public_seed = documents.seed_text(seed)
        known, exact, delta = get_kernel(kernel, bandwidth), exact_epsilon(epsilon), checked_delta(delta)
        check_delta(bitsum, delta)
        request = request_for(
            known,
            dimension,
            int(public_seed, 16),
            epsilon=exact,
            delta=delta,
            n=min(counts),
            bounds=bounds,
            landmarks=landmarks,
            bitsum=bitsum,
            **({} if says(instances, "auto") else {"instances": instances}),
        )
        features = BitFeatures(SHUFFLED.build(named(quantizer, request).name, request))
        budget = Budget(exact, delta, features.changed)
        made = {n: calibrated(bitsum, n, budget, features, messages) for n in set(counts)}
        check_certifying(bitsum for bitsum, _ in made.values())
        groups = [Group(label, *made[n]) for label, n in zip(labels, counts, strict=True)]
        response = None if label_epsilon is None else LabelResponse(classes_for(classes), label_epsilon)
        promise = Promise(budget, tuple(groups), response, features)
        description, arrays = features.quantizer.to_document()
        box = features.quantizer.box
        self.document = documents.make_document(
            model=NAME,
            kernel=known.to_document(),
            domain=box.domain(),
            epsilon=str(exact),
            delta=delta,
            participants=min(counts),
            guarantee=promise.guarantee(threat).to_document(),
            mechanism={
                "name": NAME,
                "bitsum": bitsum,
                "quantizer": description,
                "arrays": {name: Array().write(array) for name, array in arrays.items()},
                "instances": features.instances,
                "groups": [group.to_document() for group in groups],
                "label_epsilon": None if response is None else str(response.epsilon),
                "threat": threat,
                "key": key_document(key, key_expires),
            },
            seed=public_seed,
            expires=expires,
        )
        self._open(known, promise)

    def _open(self, kernel: Kernel, promise: Promise) -> None:
        self.kernel, self.promise = kernel, promise
        self.features, self.groups, self.labels = promise.features, promise.groups, promise.response

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Protocol:
        """Read a document, and certify that its noise keeps its promise."""
        documents.check_document(document, NAME)
        mechanism = _MECHANISM.read(document["mechanism"], "mechanism")
        kernel, features = features_from(document, mechanism["quantizer"], mechanism["arrays"], mechanism["instances"])
        groups, epsilon = mechanism["groups"], Ratio(10**20, positive=True).read(document["epsilon"], "epsilon")
        budget = Budget(epsilon, checked_delta(documents.plain(document["delta"])), features.changed)
        different = {(group.bitsum, group.messages): group for group in groups}.values()
        check_certifying(group.bitsum for group in different)
        for group in different:
            group.certify(budget, features)
        check_summary(groups, document["participants"], mechanism["bitsum"])
        response = None
        if mechanism["label_epsilon"] is not None:
            labels = tuple(group.label for group in groups if group.label is not None)
            response = LabelResponse(labels, mechanism["label_epsilon"])
        promise = Promise(budget, groups, response, features)
        if documents.exact(promise.guarantee(mechanism["threat"]).to_document()) != document["guarantee"]:
            raise InputError("the protocol promises something else than its parameters do; do not take part")
        made = cls.__new__(cls)
        made.document = dict(document)
        made._open(kernel, promise)
        return made

    @classmethod
    def load(cls, path: str | Path) -> Protocol:
        """Read a document from a file."""
        return cls.from_document(documents.load(path, NAME))

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write the document to a file."""
        documents.save(self.document, path, overwrite)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the document, which binds every message."""
        return documents.fingerprint(self.document)

    @property
    def quantizer(self) -> Quantizer:
        """The public maps."""
        return self.features.quantizer

    @property
    def bitsum(self) -> str:
        """Name of the bit-sum protocol."""
        return str(self.document["mechanism"]["bitsum"])

    @property
    def threat(self) -> str:
        """Who a release's guarantee is against."""
        return str(self.document["mechanism"]["threat"])

    @property
    def classes(self) -> tuple[Label, ...] | None:
        """The public list of classes."""
        labels = tuple(group.label for group in self.groups if group.label is not None)
        return labels or None

    def guarantee(self, threat: str | None = None) -> Guarantee:
        """Return the promise against a threat model, that of the document by default."""
        return self.promise.guarantee(self.threat if threat is None else threat)

    def group(self, label: Any = None) -> tuple[int, Group]:
        """Return the place and the group of a (reported) class."""
        name = None if label is None else plain_label(label)
        for place, group in enumerate(self.groups):
            if group.label == name:
                return place, group
        raise InputError(f"{label!r} is not one of the protocol's classes {list(self.classes or ())}")

    def context(self, label: Any = None) -> Context:
        """Return what messages of a group are bound to."""
        return Context(self.fingerprint, self.group(label)[0])

    @property
    def key(self) -> bytes:
        """The analyzer's public key."""
        entry = self.document["mechanism"]["key"]
        if entry is None:
            raise InputError("the protocol has no analyzer's key, so messages cannot be sealed: pass key= to Protocol")
        return bytes.fromhex(entry["public"])

    def with_key(self, key: AnalyzerKey | bytes, expires: str | date | None = None) -> Protocol:
        """Return the same protocol with another key: a new document, hence a new collection.

        Messages that were sealed for the old one do not open under the new one. Participants who take part in both
        collections are protected by both guarantees together.
        """
        mechanism = {**self.document["mechanism"], "key": documents.exact(key_document(key, expires))}
        return type(self).from_document({**self.document, "mechanism": mechanism})

    def expired(self, now: datetime | None = None) -> bool:
        """Whether devices must not send any more, because the collection or its key is over."""
        key = self.document["mechanism"]["key"] or {"expires": None}
        return documents.expired(self.document, now) or documents.expired(key, now)

    def client(
        self,
        label: Any = None,
        ledger: str | Path | None = None,
        budget: float | str | Fraction | None = None,
        *,
        max_epsilon: float | str | Fraction = MAX_EPSILON,
        max_delta: float = MAX_DELTA,
    ) -> Client:
        """Return a participant's side.

        Parameters
        ----------
        label : int or str, optional
            The class that was reported, where there are classes.
        ledger : str or Path, optional
            The device's account, which refuses a second participation and whatever exceeds its budget; without one,
            whoever calls sees to it that each person takes part once.
        budget : float, str or Fraction, optional
            Of the account, over all collections: the largest sum of epsilons. It goes with `ledger`.
        max_epsilon : float, str or Fraction
            The most that taking part may cost, the reported class included, whatever the document says.
        max_delta : float
            Largest probability with which the promise may fail.
        """
        return Client(self, label, account_of(ledger, budget), max_epsilon=max_epsilon, max_delta=max_delta)

    def analyzer(self, key: AnalyzerKey) -> Analyzer:
        """Return the analyzer's side."""
        return Analyzer(self, key)

    def simulate(self, X: Any, y: Any = None, random_state: int | None = None) -> Any:
        """Run the whole collection at once, with the same law as the messages: a Release, or one for each class.

        Parameters
        ----------
        X : array, shape (participants, dimension)
            Everybody's points.
        y : sequence, optional
            Everybody's true classes, which are reported by randomised response where labels are private.
        random_state : int, optional
            Seeds all coins and marks the releases NOT PRIVATE.
        """
        return simulate(self, X, y, random_state)

    def unmix(self, releases: Mapping[Any, Release]) -> dict[Label, Release]:
        """Turn releases of reported classes into releases of true ones, see `LabelResponse.unmix`."""
        if self.labels is None:
            raise InputError("the labels of this protocol are public: there is nothing to unmix")
        return self.labels.unmix(releases)

    def plan(self, density: float | None = None) -> Plan:
        """Say what a participant sends and what error to expect, for the smallest group."""
        return Plan.of(self, density)

    def __repr__(self) -> str:
        classes = "" if self.classes is None else f", {len(self.groups)} classes"
        return (
            f"<shuffled Protocol {self.bitsum}: {self.kernel!r}, {self.features.instances} instances{classes}; "
            f"{self.guarantee()}>"
        )

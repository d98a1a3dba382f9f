"""`Protocol`: what an organiser publishes, and from which clients, collectors and simulations are made.

Loading one and making a client needs the standard library only; designing, collecting and simulating load the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import InputError
from sfumato.local.client import MAX_DELTA, MAX_EPSILON, Client, promised_device
from sfumato.public import document as documents

if TYPE_CHECKING:
    from sfumato.kernels import Kernel
    from sfumato.local.collector import Collector
    from sfumato.local.organiser import LocalPlan
    from sfumato.local.server import Server
    from sfumato.methods.request import Request
    from sfumato.release import Release


class Protocol:
    """The public parameters of a collection in the local model.

    Parameters
    ----------
    kernel : str or Kernel
        What similar means; a name with `bandwidth`, or an object.
    dimension : int
        Columns of a point.
    epsilon : float, str or Fraction
        What the report of one person may reveal.
    participants : int
        About how many people will report; sizes are chosen for it, nothing else depends on it.
    mechanism : str
        A name, or "auto" for the least predicted error.
    radius, eta : float, optional
        For guarantees that hold within a radius, or except with probability eta over the hash functions.
    bounds : optional
        Public bounds of the points: one (lower, upper) pair, or one for each column.
    bandwidth : optional
        For a kernel given by name.
    seed : int or str, optional
        The document's nonce, out of which and all other fields the public seed is made; a random one by default.
    expires : str, date or datetime, optional
        After which devices refuse to report.
    options : mapping, optional
        ``"density"`` (mean answer that plans assume) and what only one mechanism knows.

    Examples
    --------
    >>> protocol = Protocol("l2-lsh", bandwidth=0.5, dimension=2, epsilon=1, participants=1000, bounds=(0, 1), seed=7)
    >>> report = protocol.client().report([0.25, 0.75])
    >>> len(report)
    16
    >>> collector = protocol.collector()
    >>> collector.add([report, report]).rejected
    {'duplicate': 1}
    """

    def __init__(
        self,
        kernel: str | Kernel,
        dimension: int,
        epsilon: float | str | Fraction,
        participants: int,
        mechanism: str = "auto",
        radius: float | None = None,
        eta: float | None = None,
        bounds: Any = None,
        bandwidth: Any = None,
        seed: int | str | None = None,
        expires: str | date | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        from sfumato.local.organiser import document_for, make_request

        self._request: Request | None = make_request(
            kernel, bandwidth, dimension, epsilon, participants, radius, eta, bounds, options
        )
        self.document = document_for(self._request, mechanism, documents.seed_text(seed), expires)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Protocol:
        """Take over a document, which is checked."""
        documents.check_document(document, "local")
        protocol = cls.__new__(cls)
        protocol._request = None
        protocol.document = dict(document)
        return protocol

    @classmethod
    def load(cls, path: str | Path) -> Protocol:
        """Read a protocol's file."""
        return cls.from_document(documents.load(path, "local"))

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write the protocol's file."""
        documents.save(self.document, path, overwrite)

    @property
    def mechanism(self) -> str:
        """Name of the mechanism."""
        name: str = self.document["mechanism"]["name"]
        return name

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical document."""
        return documents.fingerprint(self.document)

    def client(
        self,
        ledger: str | Path | None = None,
        budget: float | str | Fraction | None = None,
        permanent: bool = False,
        not_private: bool = False,
        *,
        max_epsilon: float | str | Fraction = MAX_EPSILON,
        max_delta: float = MAX_DELTA,
        unchecked: bool = False,
    ) -> Client:
        """Return a client, which makes reports.

        Parameters
        ----------
        ledger : str or Path, optional
            The device's account; without one, whoever calls sees to it that each person reports once.
        budget : float, str or Fraction, optional
            Of the account, over all protocols; `max_epsilon` by default, never what a document says.
        permanent : bool
            Repeat the report of an unchanged point instead of making a fresh one; needs an account. See
            `sfumato.local.client` for what it protects.
        not_private : bool
            Agree to report under a mechanism that keeps no epsilon, such as `race`.
        max_epsilon : float, str or Fraction
            The most that one report may cost, whatever the document says.
        max_delta : float
            Largest probability with which the promise may fail: delta, or eta over the hash functions.
        unchecked : bool
            Agree to a promise that rests on an organiser's word, see `sfumato.local.client.Client`.
        """
        from sfumato.local.account import DeviceAccount

        if ledger is None:
            if budget is not None:
                raise InputError("a budget needs a file that remembers what was spent: pass ledger=")
            account = None
        else:
            account = DeviceAccount(ledger, max_epsilon if budget is None else budget)
        return Client(
            self.document,
            account,
            permanent,
            not_private=not_private,
            max_epsilon=max_epsilon,
            max_delta=max_delta,
            unchecked=unchecked,
        )

    def collector(self, state: str | Path | None = None) -> Collector:
        """Return a collector, which counts reports.

        Parameters
        ----------
        state : str or Path, optional
            Folder that survives a kill, with all reports. It is new, empty, or a collector's own, which is resumed.
            Without it the state goes to a temporary folder that ends with the process.
        """
        from sfumato.local.collector import Collector

        return Collector(self, state)

    def server(self) -> Server:
        """Return the mechanism's server half."""
        from sfumato.kernels import kernel_from_document
        from sfumato.local.server import server_class

        kernel = kernel_from_document(documents.plain(self.document["kernel"]))
        return server_class(self.mechanism)(promised_device(self.document), kernel)

    def simulate(self, X: Any, random_state: int | None = None) -> Release:
        """Release what a collection from people who hold the rows of `X` would have given.

        The release has the law of client and collector together. Whoever simulates holds all points, so nobody is
        protected against them; the release says so.

        Parameters
        ----------
        X : array-like, path or iterator of batches
            One row, a point, for each person.
        random_state : int, optional
            Seed of the coins; the release is then NOT PRIVATE.
        """
        from sfumato.local.simulation import simulate

        return simulate(self, X, random_state)

    def plan(self) -> LocalPlan:
        """Compare all mechanisms, and the constant answer, by their predicted error."""
        from sfumato.local.organiser import make_plan, request_from_document

        return make_plan(self._request or request_from_document(self.document))

    def __repr__(self) -> str:
        epsilon, name = self.document["epsilon"], self.document["kernel"].get("kernel")
        return f"<local Protocol {self.mechanism}: {name}, epsilon = {epsilon}, {self.fingerprint[:8]}>"

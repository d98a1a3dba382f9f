"""A classifier's classes collected from people who trust no curator: what local and shuffled collections would give.

Source: section 3.3 of Wagner (2025). People first report their class, by randomised response of
`label_epsilon` where classes are private, and then take part in the collection of the class they reported. Whoever
calls `fit` holds all points: this simulates a collection, to try one out and to measure it. For a real one, take the
releases of `sfumato.local` or `sfumato.shuffled` protocols, one for each class, to `DensityClassifier.of`.

Guarantee, replacing one person's point and class. Shuffled: that of `sfumato.shuffled`. Local: a report is
epsilon-private for the point; a class that is reported with label_epsilon adds it (both are made on the device, the
second with the class that was reported, so that they compose); a class that is not randomised is public.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.kernels import Kernel
from sfumato.learn import rules
from sfumato.learn.labels import LabelledSource
from sfumato.privacy.bits import SecureBits, noise_bits
from sfumato.privacy.guarantee import Guarantee, amount_text, checked_delta
from sfumato.public.arguments import checked_options, says
from sfumato.public.codec import brief
from sfumato.public.ranges import plain_number
from sfumato.release import Release

SIMULATED = "simulated: one party held all points and is trusted with them"
OTHERS = "the list of classes is public; people with other labels take part in a class that coins choose"
SHUFFLED_OPTIONS = ("label_epsilon", "participants", "bitsum", "instances", "messages", "quantizer", "threat")


def gathered(data: LabelledSource, random_state: int | None) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Points and codes of everybody: the number of people is public, so nobody is left out for what they hold."""
    coded, secure = data.coded.whole(), SecureBits()
    every = coded[:, -1].astype(np.int64)
    if random_state is not None:
        secure = SecureBits.seeded(f"{random_state} other labels")
    drawn = secure.below(len(data.classes), len(every))
    return np.ascontiguousarray(coded[:, :-1]), np.where(every >= 0, every, drawn)


def collect(trust: str, kernel: Kernel, data: LabelledSource, settings: Mapping[str, Any]) -> list[Release]:
    """Simulate the collection of every class.

    Parameters
    ----------
    trust : {"local", "shuffled"}
        The trust model.
    kernel : Kernel
        What similar means.
    data : LabelledSource
        Everybody's points and classes.
    settings : mapping
        The classifier's parameters.
    """
    if settings["rule"] in (rules.DISTANCE, rules.LINEAR):
        raise InputError(f"rule {settings['rule']!r} is for trust='central'; pass another rule")
    if settings["ledger"] is not None:
        raise InputError(f"the ledger is a curator's, and trust={trust!r} has none: devices keep their own")
    n = settings["n_hint"]
    if settings["epsilon"] is None or isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise InputError("pass epsilon=, the budget of a person's point, and n_hint=, about how many people there are")
    names = ("epsilon", "method", "bounds", "random_state")
    common = {name: settings[name] for name in names}
    common |= {"n": int(n), "options": checked_options(settings["options"]), "seed": settings["feature_seed"]}
    if common["random_state"] is not None:
        SecureBits.seeded(common["random_state"])  # which refuses what is no seed
    if trust == "shuffled":
        return _shuffled(kernel, data, delta=settings["delta"], landmarks=settings["landmarks"], **common)
    delta = 0.0 if settings["delta"] is None else checked_delta(plain_number(settings["delta"]))
    if delta or settings["landmarks"] is not None:
        raise InputError("trust='local' is a pure model and knows no landmarks: leave delta and landmarks out")
    return _local(kernel, data, **common)


def _shuffled(
    kernel: Kernel,
    data: LabelledSource,
    *,
    epsilon: Any,
    delta: float,
    n: int,
    method: str,
    bounds: Any,
    landmarks: Any,
    options: Mapping[str, Any],
    seed: int | None,
    random_state: int | None,
) -> list[Release]:
    from sfumato.shuffled import Protocol

    _check_options(options, SHUFFLED_OPTIONS)
    settings = dict(options)
    if not says(method, "auto"):
        settings["bitsum"] = method
    # A protocol promises for a least number of people in every class; half of an even share leaves room.
    people = settings.pop("participants", max(1, n // (2 * len(data.classes))))
    classes = [_plain(label) for label in data.classes.tolist()]
    protocol = Protocol(
        kernel,
        dimension=data.source.dimension,
        epsilon=epsilon,
        delta=delta,
        participants=people,
        classes=classes,
        bounds=bounds,
        landmarks=landmarks,
        seed=seed,
        **settings,
    )
    points, codes = gathered(data, random_state)
    releases = protocol.simulate(points, [classes[code] for code in codes.tolist()], random_state=random_state)
    promise: Guarantee = releases[classes[0]].guarantee
    promise = replace(promise, conditions=(*promise.conditions, OTHERS, SIMULATED))
    return [replace(releases[name], guarantee=promise) for name in classes]


def _local(
    kernel: Kernel,
    data: LabelledSource,
    *,
    epsilon: Any,
    n: int,
    method: str,
    bounds: Any,
    options: Mapping[str, Any],
    seed: int | None,
    random_state: int | None,
) -> list[Release]:
    from sfumato.local import Protocol
    from sfumato.local.organiser import clip, make_release

    settings = dict(options)
    label_epsilon = settings.pop("label_epsilon", None)
    limits = {name: settings.pop(name) for name in ("radius", "eta") if name in settings}
    classes = [_plain(label) for label in data.classes.tolist()]
    protocol = Protocol(
        kernel,
        dimension=data.source.dimension,
        epsilon=epsilon,
        participants=max(1, n // len(classes)),
        mechanism=method,
        bounds=bounds,
        seed=seed,
        options=settings,
        **limits,
    )
    points, codes = gathered(data, random_state)
    response = None
    if label_epsilon is not None:
        from sfumato.shuffled import LabelResponse

        response = LabelResponse(tuple(classes), label_epsilon)
        secure = SecureBits() if random_state is None else SecureBits.seeded(f"{random_state} labels")
        codes = response.report_codes(codes, secure)
    missing = [name for code, name in enumerate(classes) if not (codes == code).any()]
    if missing:
        raise InputError(f"nobody reports the class {missing[0]!r}: leave it out of classes=, or pass label_epsilon")
    bits = noise_bits(random_state)
    releases, server = [], protocol.server()  # one server: its public tables take longer to draw than the reports
    for code in range(len(classes)):
        own, tally = clip(server.device.domain, points[codes == code]), server.tally()
        server.simulate(own, bits.child(code), tally)
        release = make_release(protocol, server, tally, len(own), private=bits.private, conditions=(OTHERS, SIMULATED))
        labels = None if response is None else Fraction(response.epsilon)
        releases.append(replace(release, guarantee=_with_labels(release.guarantee, labels)))
    return releases


def _with_labels(guarantee: Guarantee, label_epsilon: Fraction | None) -> Guarantee:
    """Say what is promised about classes."""
    if label_epsilon is None:
        return replace(guarantee, conditions=(*guarantee.conditions, "classes are public and not protected"))
    point = amount_text(guarantee.epsilon)
    said = f"this covers a change of point and class; if only the point changes, epsilon = {point} holds"
    return replace(guarantee, epsilon=guarantee.epsilon + label_epsilon, conditions=(*guarantee.conditions, said))


def _plain(label: Any) -> Any:
    if isinstance(label, bool) or not isinstance(label, int | str):
        raise InputError(f"classes of a collection must be whole numbers or texts, got {brief(label)}")
    return label


def _check_options(options: Mapping[str, Any], known: tuple[str, ...]) -> None:
    if unknown := sorted(set(options) - set(known)):
        raise InputError(f"unknown option {unknown[0]!r}; trust='shuffled' knows {', '.join(sorted(known))}")

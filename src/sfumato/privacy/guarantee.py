"""What a release promises, as a value: who is trusted, what is hidden, by how much, and under which conditions.

The same value is printed in every repr, stored in every file, and spelled out for readers who have never heard of
epsilon. It states a promise; the proof that a mechanism keeps it stands beside that mechanism.

Privacy parameters are exact fractions. Noise is sampled exactly for a rational parameter, so the number that a caller
types has to become a fraction once, at the door, in a way that can be explained: a decimal means what it says (``0.1``
is 1/10, not the binary number next to it), and a number with too many digits is rounded down, never up, so that the
noise fits a guarantee at least as strong as the one that was asked for.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_DOWN, Context, Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from sfumato.errors import InputError
from sfumato.public.codec import Documented, Flag, Many, Ratio, Real, Schema, Text, brief

TRUSTS = ("central", "local", "shuffled")
NEIGHBOURS = ("add-remove", "replace")
UNITS = ("record", "user")

_RELATION = {"add-remove": "add/remove one", "replace": "replace one"}
# What is protected, the change that must hardly show, and what therefore stays hidden.
_HIDDEN = {
    ("record", "add-remove"): ("one record", "that record had been left out", "whether it is in the data"),
    ("record", "replace"): ("one record", "that record had held other values", "which values it holds"),
    ("user", "add-remove"): (
        "one person, with all of their records,",
        "that person had been left out",
        "whether they are in the data",
    ),
    ("user", "replace"): (
        "one person, with all of their records,",
        "that person's records had held other values",
        "which values they hold",
    ),
}
_PROMISE_COVERS = {
    "central": "A trusted curator holds the data; the promise covers everyone who sees only the release.",
    "local": (
        "All participants randomised their data on their own devices, so the promise holds even against the collector, "
        "who sees every report."
    ),
    "shuffled": (
        "All participants randomised their data on their own devices and an honest shuffler removed who sent what; "
        "the promise covers everyone who sees only the shuffled messages."
    ),
}
# Room for the exact value of every double; a hostile document cannot make arithmetic slow.
_MOST_BITS = 3600
_MOST_SUM_BITS = 8192  # the difference of a sum and an epsilon can still be written: Python writes 4,300 digits
LONGEST_TEXT = 100_000
MOST_CONDITIONS = 1000


@dataclass(frozen=True, kw_only=True)
class Guarantee(Documented):
    """The privacy promise of one release.

    Parameters
    ----------
    trust : {"central", "local", "shuffled"}
        Who sees raw data: a curator, nobody, or nobody given an honest shuffler.
    neighbours : {"add-remove", "replace"}
        Which pairs of data sets must look alike.
    unit : {"record", "user"}
        What is hidden: one record, or all records of one person.
    epsilon : Fraction
        Natural logarithm of the largest change in odds; numbers and text are converted exactly.
    delta : float
        Probability, below 1, with which the limit may fail; 0 for a pure guarantee.
    n_public : bool
        Whether the exact number of units is public. It is under "replace", and is not under "add-remove".
    conditions : tuple of str
        What must hold besides: clipping, dropped rows, honest participants, a radius.
    within : str
        Which changes the promise is about, where it is not about all, such as "points within a distance of 0.1".
    private : bool
        False when the noise came from a seed, or there is none: then nothing is promised.

    Examples
    --------
    >>> promise = Guarantee(trust="central", neighbours="add-remove", unit="record", epsilon=Fraction(1, 2))
    >>> print(promise)
    epsilon = 0.5 (pure), central, add/remove one record, n private
    >>> Guarantee.from_document(promise.to_document()) == promise
    True
    """

    schema = Schema(
        trust=Text(*TRUSTS),
        neighbours=Text(*NEIGHBOURS),
        unit=Text(*UNITS),
        epsilon=Ratio(positive=True),
        delta=Real(0.0, 1.0),
        n_public=Flag(),
        conditions=Many(Text(longest=LONGEST_TEXT), MOST_CONDITIONS),
        private=Flag(),
        within=Text(longest=LONGEST_TEXT),
    )

    trust: str
    neighbours: str
    unit: str
    epsilon: Fraction
    delta: float = 0.0
    n_public: bool = False
    conditions: tuple[str, ...] = ()
    private: bool = True
    within: str = ""

    def __post_init__(self) -> None:
        check_choice("trust", self.trust, TRUSTS)
        check_choice("neighbours", self.neighbours, NEIGHBOURS)
        check_choice("unit", self.unit, UNITS)
        object.__setattr__(self, "epsilon", promised_epsilon(self.epsilon))
        object.__setattr__(self, "delta", checked_delta(self.delta))
        for name in ("n_public", "private"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} must be True or False, got {brief(getattr(self, name))}")
        if not isinstance(self.conditions, (tuple, list)):
            raise InputError(f"conditions must be a tuple of texts, got {brief(self.conditions)}")
        object.__setattr__(self, "conditions", tuple(checked_text("condition", text) for text in self.conditions))
        checked_text("within", self.within, empty=True)
        self._check_count()

    def _check_count(self) -> None:
        """One more record changes the count, so a public count and hidden presence exclude each other."""
        if self.neighbours == "replace" and not self.n_public:
            raise InputError('neighbours="replace" does not hide the number of records; pass n_public=True')
        if self.neighbours == "add-remove" and self.n_public:
            raise InputError(
                'a public n reveals whether a record was added; pass neighbours="replace", or n_public=False'
            )

    def __str__(self) -> str:
        warning = "" if self.private else "NOT PRIVATE (seeded noise, or none): "
        pure = "" if self.within else " (pure)"
        delta = f", delta = {self.delta!r}" if self.delta else pure
        count = "public" if self.n_public else "private"
        line = (
            f"{warning}epsilon = {amount_text(self.epsilon)}{delta}, {self.trust}, "
            f"{_RELATION[self.neighbours]} {self.unit}, n {count}"
        )
        line += f", for {self.within} only" if self.within else ""
        return "; ".join([f"{line}, provided: {self.conditions[0]}", *self.conditions[1:]]) if self.conditions else line

    def statement(self) -> str:
        """Put the promise in plain language: one paragraph for readers who know nothing about differential privacy.

        Examples
        --------
        >>> promise = Guarantee(trust="central", neighbours="replace", unit="user", epsilon=1, n_public=True)
        >>> "at most a factor of 2.719 (e to the power epsilon, with epsilon = 1)" in promise.statement()
        True
        """
        sentences = [
            self._seed_warning(),
            self._limit(),
            self._exception(),
            self._count(),
            self._several_records(),
            _PROMISE_COVERS[self.trust],
            f"All this holds provided that: {'; '.join(self.conditions)}." if self.conditions else "",
            "Every further release from the same data weakens the promise: the epsilons add up, and so do the deltas.",
        ]
        return " ".join(sentence for sentence in sentences if sentence)

    def _seed_warning(self) -> str:
        if self.private:
            return ""
        return (
            "NOT PRIVATE: the noise came from a seed, with which anyone can remove it, or there is none. Do not "
            "publish this release. With secret noise, what follows would hold."
        )

    def _limit(self) -> str:
        target, change, hidden = _HIDDEN[self.unit, self.neighbours]
        return (
            "This release shows what the crowd looks like, and anyone may learn that from it. What it can reveal about "
            f"{target} is limited: if {change}, the odds of any conclusion that an observer draws, whatever else they "
            f"know, would differ by at most a factor of {_factor_text(self.epsilon)}. So an observer cannot tell, "
            f"beyond that factor, {hidden}."
        )

    def _exception(self) -> str:
        if self.within:
            return f"The limit is for {self.within} only; between others, more may show."
        if self.delta:
            return f"The limit may fail with a probability of at most delta = {self.delta!r}."
        return "The limit has no exceptions (delta = 0)."

    def _count(self) -> str:
        units = "records" if self.unit == "record" else "people"
        if self.n_public:
            return f"The number of {units} is public and is not protected, nor is the fact of taking part."
        return f"The number of {units} is private: it is protected by the same limit."

    def _several_records(self) -> str:
        if self.unit == "user":
            return ""
        return "A person with several records is protected less: with k records, the factor is taken to the power k."

    def to_document(self) -> dict[str, Any]:
        """Return the value as plain JSON types; epsilon is text, so that no digit is lost."""
        document = super().to_document()
        if not self.within:
            del document["within"]  # earlier versions had no such field
        return document

    @classmethod
    def from_document(cls, document: Any, path: str = "guarantee") -> Guarantee:
        """Read back what `to_document` wrote; anything else is refused with its path."""
        whole = {"within": "", **document} if isinstance(document, Mapping) else document
        return cls(**cls.schema.read(whole, path))


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise `InputError` unless `value` is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{name} must be one of {', '.join(map(repr, choices))}, got {brief(value)}")


def checked_delta(delta: object) -> float:
    """Return `delta` as a float, which must be at least 0 and below 1."""
    if isinstance(delta, bool) or not isinstance(delta, (int, float)) or not 0 <= delta < 1:
        raise InputError(f"delta must be a number with 0 <= delta < 1, got {brief(delta)}")
    return float(delta)


def checked_text(name: str, text: object, empty: bool = False) -> str:
    """Return `text`, which must be one line of printable characters, and not empty unless `empty` allows it."""
    if not isinstance(text, str) or not text.isprintable() or not (text.strip() or empty):
        raise InputError(f"{name} must be one line of printable text, got {brief(text)}")
    if len(text) > LONGEST_TEXT:
        raise InputError(f"{name} must be a text of up to {LONGEST_TEXT} characters, got {len(text)}")
    return text


def promised_epsilon(value: int | float | str | Decimal | Fraction) -> Fraction:
    """Return an epsilon as a fraction without rounding it.

    `exact_epsilon` rounds long numbers down, which is right for the noise: less epsilon, more noise. A promise or a
    charge rounded down would claim more privacy than there is, so this keeps every digit.

    Examples
    --------
    >>> promised_epsilon(0.1), promised_epsilon("0.12345678")
    (Fraction(1, 10), Fraction(6172839, 50000000))
    """
    exact_epsilon(value)  # raises InputError for what is not a usable epsilon
    if not isinstance(value, Fraction):
        text = str(value)
        value = Fraction(text) if "/" in text else Fraction(Decimal(text))
    if value.denominator.bit_length() > _MOST_BITS:
        raise InputError("epsilon has more than a thousand digits; round it up to fewer")
    return value


def added(amounts: Iterable[Fraction]) -> Fraction:
    """Add up what was spent: exactly, or rounded up where the sum has thousands of digits.

    Decimals and fractions with small terms stay exact. Long fractions without common factors, which nobody asks for and
    a file may hold, would take quadratic time, and make a number that Python refuses to write.

    Examples
    --------
    >>> added([Fraction(1, 10)] * 3), added([])
    (Fraction(3, 10), Fraction(0, 1))
    """
    total = Fraction(0)
    for amount in amounts:
        total += amount
        if total.denominator.bit_length() > _MOST_SUM_BITS:
            unit = 1 << (_MOST_SUM_BITS - 1)
            total = Fraction(math.ceil(total * unit), unit)
    return total


def amount_text(amount: Fraction, rounding: str = ROUND_CEILING) -> str:
    """Show a non-negative fraction: exactly where that is short, else six digits marked "about".

    It is rounded up by default: a promise must not look stronger than it is.

    Examples
    --------
    >>> amount_text(Fraction(1, 2)), amount_text(Fraction(1, 3)), amount_text(Fraction(10**9, 3 * 10**9 + 1))
    ('0.5', '1/3', 'about 0.333334')
    """
    exact = Context(prec=12).divide(amount.numerator, amount.denominator)
    if Fraction(exact) == amount:
        return f"{exact:f}" if exact.adjusted() >= -6 else str(exact)
    if max(amount.numerator, amount.denominator).bit_length() <= 40 and len(str(amount)) <= 12:
        return str(amount)
    return f"about {Context(prec=6, rounding=rounding).divide(amount.numerator, amount.denominator).normalize()}"


def _factor_text(epsilon: Fraction) -> str:
    power = f"e to the power epsilon, with epsilon = {amount_text(epsilon)}"
    if epsilon > 20:
        return f"{power}, which is so large that it promises almost nothing"
    factor = Context(prec=4, rounding=ROUND_CEILING).create_decimal_from_float(math.exp(epsilon))
    return f"{factor:f} ({power})"


LARGEST_DENOMINATOR = 10**6
SIGNIFICANT_DIGITS = 6
LARGEST_EPSILON = 1000
# A float never goes below 5e-324. Smaller texts are refused before they are turned into integers of a billion digits.
SMALLEST_EXPONENT = -400


def exact_epsilon(value: int | float | str | Decimal | Fraction) -> Fraction:
    """Turn an epsilon into the fraction that the noise is calibrated to.

    A float stands for its shortest decimal form. Where the denominator would exceed a million, the number is rounded
    down to six significant digits: it is never larger than `value` and less than 0.001 % smaller. What is not a finite
    number above 0 and at most 1000 is refused.

    Examples
    --------
    >>> exact_epsilon(0.1)
    Fraction(1, 10)
    >>> exact_epsilon("1/3")
    Fraction(1, 3)
    >>> exact_epsilon(0.123456789)
    Fraction(1929, 15625)
    """
    return exact_positive(value, "epsilon", LARGEST_EPSILON)


def exact_positive(value: int | float | str | Decimal | Fraction, name: str, largest: int) -> Fraction:
    """Turn a positive parameter into a fraction with a small denominator, rounding down.

    Examples
    --------
    >>> exact_positive(1e-9, "delta", 1)
    Fraction(1, 1000000000)
    """
    wanted = f"{name} must be a finite number above 0 and at most {largest}, such as 1, 0.5, '0.1' or Fraction(1, 3)"
    parsed = _parse(value)
    if parsed is None:
        raise InputError(f"{wanted}; got {brief(value)}.")
    if isinstance(parsed, Decimal):
        # Judged before the conversion to a fraction, whose integers grow with the exponent.
        if not parsed.is_finite() or parsed <= 0 or parsed > largest:
            raise InputError(f"{wanted}; got {brief(value)}.")
        if parsed.adjusted() < SMALLEST_EXPONENT:
            raise InputError(
                f"{name} is too small to be of use: got {brief(value)}. Pass at least 1e{SMALLEST_EXPONENT}."
            )
        parsed = Fraction(parsed)
    if not 0 < parsed <= largest:
        raise InputError(f"{wanted}; got {brief(value)}.")
    return _round_down(parsed)


def _parse(value: object) -> Decimal | Fraction | None:
    """Read a number exactly as written; None if it is not a number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, Decimal):
        return value
    if isinstance(value, numbers.Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if not isinstance(value, str | numbers.Real):
        return None
    text = str(value)  # for floats, numpy's included, the shortest decimal that reads back as the same number
    try:
        return Fraction(text) if "/" in text else Decimal(text)
    except (ValueError, ZeroDivisionError, InvalidOperation):
        return None


def _round_down(value: Fraction) -> Fraction:
    if value.denominator <= LARGEST_DENOMINATOR:
        return value
    context = Context(prec=SIGNIFICANT_DIGITS, rounding=ROUND_DOWN)
    return Fraction(context.divide(Decimal(value.numerator), Decimal(value.denominator)))

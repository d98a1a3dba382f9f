"""How documents, arrays and bytes are altered: by what they mean, so that a case gets past the first checks.

All functions draw from the `random.Random` that they are given and from nothing else.
"""

from __future__ import annotations

import copy
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np

Where = tuple[str | int, ...]
Array = np.ndarray[Any, Any]

WHOLE = [0, 1, -1, 2, 3, 7, 31, 32, 63, 64, 255, 2**15, 2**16, 2**20, 2**24, 10**6, 10**7, 2**31 - 1, 2**31, 2**32]
WHOLE += [2**40, 2**53, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64, 10**30, -2, -(2**31), -(2**63), 10**400]
REAL = [0.0, -0.0, 5e-324, 1e-310, 1e-200, 1e-154, 1e-100, 1e-50, 1e-30, 1e-16, 1e-10, 1e-6, 1e-3, 0.1, 0.5, 0.999]
REAL += [1 - 2**-53, 1.0, 1.5, 2.0, 44.0, 1e3, 1e6, 1e10, 1e16, 1e50, 1e60, 1e100, 1e154, 1e200, 1.7e308]
ODD_TEXTS = ["", " ", "\0", "NaN", "nan", "-inf", "1e999", "-1", "0", "1/0", "0/1", "1/3", "9" * 5000, "1" + "0" * 400]
ODD_TEXTS += ["\u0663", "7_0", " 7", "\x1b[31mred\x1b[0m", "\u202eevil", "a$_{x$", "<script>", "../../x", "a\nb", "é"]
TINY_FRACTIONS = ["1/1000000000", "1000", "100", "1/7", "999999999999/1000000000000", "3/2", "1e-9", "0.5", "2/4"]
TINY_FRACTIONS += ["1/00"]
MOST_PLACES = 400  # of a document that was blown up before
MOST_LEAVES = 20_000  # of a part that is repeated: cases stay below some hundred kilobytes
MOST_SCALED = 1 << 16  # leaves of a document whose sizes grow together
MOST_NUMBERS = 1 << 20  # of an array
DIGITS = [300, 1000, 1000, 1000, 1050, 4298]  # of fractions that are long; some are longer than anyone reads
MOST_SQUARED = 256  # rows of a matrix in the place of a number
NO_SIZES = ("version", "bits", "point_bits", "table_bits")  # whole numbers that count nothing
WIDER_SHARE = 0.08  # of all steps: names, long fractions, matrices, sizes that grow together
ODD_CODES = [0x85, 0xA0, 0xAD, 0x34F, 0x378, 0x115F, 0x1680, 0x180E, 0x2028, 0x2800, 0x3000, 0x3164, 0xE000, 0xFE0F]
ODD_CODES += [0x200D, 0x202E, 0x2066, 0xFEFF, 0xFFFC, 0xFFFE, 0xFFFF, 0x1F1E6, 0xE0041, 0x10FFFF]
_FRACTION = re.compile(r"-?[0-9]{1,400}(/[0-9]{1,400})?")
_HEX = re.compile(r"[0-9a-f]{8,}")


def places(document: Any, where: Where = ()) -> Iterator[Where]:
    """All places of a document, the whole first; of long lists only the first entries."""
    yield where
    parts: Iterable[tuple[str | int, Any]] = ()
    if isinstance(document, dict) and set(document) != {"decimal"}:
        parts = list(document.items())[:64]
    elif isinstance(document, list):
        parts = enumerate(document[:16])
    for key, value in parts:
        yield from places(value, (*where, key))


def weight(document: Any) -> int:
    """Leaves of a document, with some for containers; never 0."""
    if isinstance(document, dict):
        return 1 + sum(map(weight, document.values()))
    return 1 + sum(map(weight, document)) if isinstance(document, list) else 1


def at(document: Any, where: Where) -> Any:
    """What stands at a place."""
    for key in where:
        document = document[key]
    return document


def put(document: Any, where: Where, value: Any) -> Any:
    """Put a value at a place, and return the document."""
    if not where:
        return value
    at(document, where[:-1])[where[-1]] = value
    return document


def chosen(document: Any, random: Random) -> Where:
    """Draw a place other than the whole, unless there is none."""
    found: list[Where] = []
    for where in places(document):
        found.append(where)
        if len(found) > MOST_PLACES:
            break
    return random.choice(found[1:] or found)


def whole(random: Random, value: int = 0) -> int:
    """A whole number: an extreme one, or one near another."""
    if random.random() < 0.5:
        return random.choice(WHOLE)
    near = [value + 1, value - 1, -value, 2 * value, value // 2, value * 10 ** random.randrange(1, 12), value**2]
    return random.choice([*near, value ^ (1 << random.randrange(64)), random.randrange(1, 100)])


def real(random: Random, value: float = 1.0) -> float:
    """A finite number: an extreme one, or one near another."""
    if random.random() < 0.5 or not abs(value) < 1e290:
        return random.choice([1, 1, 1, -1]) * random.choice(REAL)
    factor = random.choice([1 + 2**-52, 1 - 2**-53, 0.5, 2.0, -1.0, 1e-12, 1e12, 10 ** random.uniform(-17, 17)])
    return value * factor


def text(random: Random, value: str, words: list[str]) -> str:
    """A text: one that stands elsewhere, an odd one, or one near another."""
    if _HEX.fullmatch(value) and random.random() < 0.7:
        place = random.randrange(len(value))
        return value[:place] + random.choice("0123456789abcdefG") + value[place + 1 :]
    if _FRACTION.fullmatch(value) and random.random() < 0.7:
        top, _, bottom = value.partition("/")
        top, bottom = random.choice([(top, bottom or "3"), (str(whole(random, int(top))), bottom), (top, "1" * 300)])
        return random.choice([*TINY_FRACTIONS, long_fraction(random), f"{top}/{bottom}" if bottom else top])
    if words and random.random() < 0.5:
        return random.choice(words)
    if random.random() < 0.2:
        return odd_name(random)
    if value and random.random() < 0.3:
        place = random.randrange(len(value))
        return value[:place] + random.choice(["", "\x1b[2J", value, "0", "\u0663"]) + value[place + 1 :]
    return random.choice(ODD_TEXTS)


def another(random: Random, value: Any, words: list[str]) -> Any:
    """Return a value in the place of another, mostly of its kind."""
    if random.random() < 0.15:
        return _any_value(random)
    if isinstance(value, bool) or value is None:
        return random.choice([True, False, None, 0, 1, "clip", 7, []])
    if isinstance(value, int):
        return float(value) if random.random() < 0.05 and abs(value) < 2**60 else whole(random, value)
    if isinstance(value, float):
        return real(random, value)
    if isinstance(value, str):
        return text(random, value, words)
    if isinstance(value, dict) and set(value) == {"decimal"}:
        return {"decimal": _decimal(random, value["decimal"])}
    if isinstance(value, list):
        return _list(random, value)
    return _mapping(random, value)


def _any_value(random: Random) -> Any:
    kind = random.randrange(9)
    if kind == 0:
        return nested(random)
    simple = [whole(random), real(random), random.choice(ODD_TEXTS), None, True, [], {}]
    return [*simple, [random.choice(simple)] * random.choice([1, 2, 3, 40])][kind - 1]


def nested(random: Random) -> Any:
    """Lists in lists, or objects in objects, deeper than a reader may follow; rarely, for they are slow to make."""
    made: Any = 0
    for _ in range(random.choice([5, 60, 60, 150, 450])):
        made = [made] if random.random() < 0.7 else {"a": made}
    return made


def _decimal(random: Random, written: Any) -> Any:
    if random.random() < 0.1 or not isinstance(written, str):
        return random.choice([*ODD_TEXTS, "1", "0.50", ".5", "5e-1", "1e400", 0.5, None])
    try:
        return repr(real(random, float(written)))
    except ValueError:
        return repr(real(random))


def _list(random: Random, value: list[Any]) -> list[Any]:
    made = list(value)
    kind = random.randrange(8) if weight(made) < MOST_LEAVES else 1
    if kind == 0 or not made:
        return [] if made else [whole(random)]
    if kind == 1:
        del made[random.randrange(len(made))]
    elif kind == 2:
        made.insert(random.randrange(len(made)), copy.deepcopy(random.choice(made)))
    elif kind == 3:
        made.reverse()
    elif kind == 4:
        times = random.choice([2, 3, 50, 50, 2000])
        made = made * min(times, MOST_LEAVES // weight(made))
    elif kind == 5:
        made = [made]
    elif kind == 6:
        made[random.randrange(len(made))] = _any_value(random)
    else:
        made = [copy.deepcopy(random.choice(made)) for _ in made]
    return made


def _mapping(random: Random, value: dict[str, Any]) -> Any:
    made = dict(value)
    if made and random.random() < 0.6:
        del made[random.choice(list(made))]
    if random.random() < 0.5:
        made[random.choice(["more", "", "kernel", "value", "a" * 3000, "\x1b[1m"])] = _any_value(random)
    return made


class Grammar:
    """What a family of documents is made of: its words, and parts that may stand in each other's place.

    Parameters
    ----------
    documents : iterable
        The family.
    """

    def __init__(self, documents: Iterable[Any]) -> None:
        self.words: list[str] = []
        self.parts: dict[str, list[Any]] = {}
        for document in documents:
            for where in places(document):
                value = at(document, where)
                if isinstance(value, str) and value not in self.words and len(value) < 100:
                    self.words.append(value)
                kept = self.parts.setdefault(str(where[-1]) if where else "", [])
                if value not in kept:
                    kept.append(value)

    def alter(self, document: Any, random: Random) -> Any:
        """Change one thing of a document, in place where that is possible."""
        if random.random() < WIDER_SHARE:
            wider = random.choice([named, lengthened, squared, lambda *given: scaled(given[0], {}, given[1])[0]])
            if (made := wider(document, random)) is not document:
                return made
        kind = random.random()
        if kind < 0.12:
            return renumbered(document, random)
        if kind < 0.2:
            return resized(document, {}, random)[0]
        where = chosen(document, random)
        if kind < 0.3 and where and isinstance(owner := at(document, where[:-1]), dict):
            del owner[where[-1]]
            return document
        if kind < 0.5 and where and (others := self.parts.get(str(where[-1]))):
            return put(document, where, copy.deepcopy(random.choice(others)))
        return put(document, where, another(random, at(document, where), self.words))


def mapped(document: Any, change: Callable[[Any], Any]) -> Any:
    """Return a document in which every leaf and every list went through a function."""
    if isinstance(document, dict):
        return {key: mapped(value, change) for key, value in document.items()}
    if isinstance(document, list):
        return change([mapped(value, change) for value in document])
    return change(document)


def renumbered(document: Any, random: Random, old: str = "", new: str = "") -> Any:
    """Change a number, any or this one, wherever it stands, in words too, so that what has to agree still agrees."""
    found = [value for where in places(document) if type(value := at(document, where)) in (int, float, str, dict)]
    numbers = [number for value in found if (number := _number(value)) is not None]
    if not numbers:
        return document
    old = old or random.choice(numbers)
    new = new or _written(random, old)
    pattern = re.compile(rf"(?<![0-9.]){re.escape(old)}(?![0-9.])")

    def change(value: Any) -> Any:
        if isinstance(value, str) and len(value) < 2000:
            return pattern.sub(new, value)
        if type(value) is int and str(value) == old and re.fullmatch(r"-?[0-9]{1,300}", new):
            return int(new)
        if type(value) is float and repr(value) == old:
            return float(new)
        return value

    return mapped(document, change)


def _number(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("decimal") if set(value) == {"decimal"} else None
    if isinstance(value, str):
        return value if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?(e-?[0-9]+)?", value) and len(value) < 30 else None
    return None if value is None else repr(value)


def _written(random: Random, old: str) -> str:
    if re.fullmatch(r"-?[0-9]{1,60}", old):
        return str(whole(random, int(old)) if random.random() < 0.6 else random.randrange(1, 60))
    try:
        return repr(real(random, float(old)))
    except ValueError:
        return "1"


def resized(document: Any, arrays: dict[str, Array], random: Random) -> tuple[Any, dict[str, Array]]:
    """Change a length wherever it occurs: of lists, of arrays, and as a number."""
    lengths = [len(value) for where in places(document) if isinstance(value := at(document, where), list)]
    lengths += [length for array in arrays.values() for length in array.shape]
    if not lengths:
        return document, arrays
    old = random.choice(lengths)
    new = random.choice([old + 1, max(old - 1, 0), 2 * old, 0, 1, 3, 100, 1000, 5000 if random.random() < 0.2 else 7])

    left = MOST_LEAVES

    def change(value: Any) -> Any:
        nonlocal left
        if isinstance(value, list) and len(value) == old and value and left > 0:
            made = (value * (new // len(value) + 1))[:new] if weight(value) * (new // len(value) + 1) < left else value
            left -= weight(made)
            return made
        return new if type(value) is int and value == old else value

    return mapped(document, change), {name: _fitted(array, old, new) for name, array in arrays.items()}


def _fitted(array: Array, old: int, new: int) -> Array:
    for axis, length in enumerate(array.shape):
        if length == old and array.size and array.size // max(length, 1) * new <= MOST_NUMBERS:
            array = np.take(array, np.arange(new) % length, axis=axis)
    return array


def odd_name(random: Random) -> str:
    """A short text of code points of any kind but surrogates, which no file holds."""
    letters = [chr(random.choice([random.choice(ODD_CODES), random.randrange(sys.maxunicode + 1)])) for _ in range(3)]
    return "a" + "".join(letter for letter in letters if unicodedata.category(letter) != "Cs") + "b"


def named(document: Any, random: Random) -> Any:
    """Name all columns, all classes, or what has one name, oddly."""
    found = [where for where in places(document) if where and where[-1] in ("columns", "classes", "labels")]
    texts = [where for where in places(document) if where and isinstance(at(document, where), str)]
    if not found or random.random() < 0.3:
        return put(copy.copy(document), random.choice(texts), odd_name(random)) if texts else document
    where = random.choice(found)
    before = at(document, where)
    count = len(before) if isinstance(before, list) else _dimension(document)
    return put(copy.copy(document), where, [odd_name(random) for _ in range(count)])


def _dimension(document: Any) -> int:
    """The length of the first list of bounds, or 2."""
    bounds = (at(document, where) for where in places(document) if where and where[-1] == "lower")
    return next((len(value) for value in bounds if isinstance(value, list)), 2)


def long_fraction(random: Random, digits: int = 0) -> str:
    """A number from 0 to 1000 in lowest terms of hundreds of digits or a thousand, hardly of a common denominator."""
    most = 10 ** (digits or random.choice(DIGITS))
    bottom = most // random.choice([1, 1, 8, 1000]) + 2 * random.randrange(1, 10**6) + 1
    return str(Fraction(random.choice([1, most - 1, random.randrange(most)]), bottom))


def lengthened(document: Any, random: Random) -> Any:
    """Write fractions with many digits; those of one document have no common denominator."""
    changed, share, digits = False, random.choice([0.3, 0.8, 1.0]), random.choice(DIGITS)

    def change(value: Any) -> Any:
        nonlocal changed
        if isinstance(value, str) and _FRACTION.fullmatch(value) and random.random() < share:
            changed = True
            return long_fraction(random, digits)
        return value

    made = mapped(document, change)
    return made if changed else document


def squared(document: Any, random: Random) -> Any:
    """Let a bandwidth be a matrix: much the same kernel, a turned and stretched one, or extreme entries."""
    found = [where for where in places(document) if where and where[-1] == "bandwidth"]
    rows = _dimension(document)
    if not found or not 0 < rows <= MOST_SQUARED:
        return document
    kind, size = random.randrange(4), random.choice([1.0, *REAL])
    matrix = [[1.0 if row == column else 0.0 for column in range(rows)] for row in range(rows)]
    if kind == 1:
        matrix = [[random.choice([size, -size, size]) for _ in line] for line in matrix]
    elif kind == 2:
        matrix = [[real(random, 1.0) for _ in line] for line in matrix]
    elif kind == 3:
        matrix = [[size * one + random.choice([0.0, 1e-3, -0.25, 0.5]) for one in line] for line in matrix]
    made = document
    for where in found:
        exact = "decimal" in repr(at(document, where))
        made = put(made, where, [[{"decimal": repr(one)} if exact else one for one in line] for line in matrix])
    return copy.copy(made)


def scaled(document: Any, arrays: dict[str, Array], random: Random) -> tuple[Any, dict[str, Array]]:
    """Multiply sizes that belong together by a power of two, into the thousands.

    That is a length or a count wherever it stands, and some lengths that are multiples of it: sums of so many terms,
    columns with their bounds, names and units.
    """
    values = [at(document, where) for where in places(document)]
    lengths = {len(value) for value in values if isinstance(value, list) and value}
    lengths |= {length for array in arrays.values() for length in array.shape if length}
    counts = {value for value in values if type(value) is int and 0 < value <= MOST_LEAVES}
    if not (sizes := lengths | counts):
        return document, arrays
    old = random.choice(sorted(lengths if lengths and random.random() < 0.7 else sizes))
    factor = 1 << random.randrange(1, 13)
    grown = {size for size in sizes if size == old or (size % old == 0 and random.random() < 0.5)}
    numbers = random.choice([0.0, 0.5, 1.0])
    left = MOST_SCALED

    def change(value: Any) -> Any:
        nonlocal left
        if isinstance(value, list) and len(value) in grown and (left := left - weight(value) * factor) > 0:
            return value * factor
        return value * factor if type(value) is int and value == old and random.random() < numbers else value

    made = mapped(document, change)
    for where in places(document):
        if where and where[-1] in NO_SIZES and at(document, where) == old:
            put(made, where, old)
    return made, {
        name: _fitted(array, length, length * factor)
        if (length := next((one for one in array.shape if one in grown), 0))
        else array
        for name, array in arrays.items()
    }


def altered_arrays(arrays: dict[str, Array], random: Random) -> dict[str, Array]:
    """Change one array: its entries, type, shape, name or presence."""
    made = dict(arrays)
    if not made or random.random() < 0.05:
        made[random.choice(["values", "more", "frequencies"])] = np.arange(random.randrange(9))
        return made
    name = random.choice(sorted(made))
    array = made[name]
    kind = random.randrange(10)
    if kind == 0:
        del made[name]
    elif kind == 1:
        made[random.choice(["values", "more", "landmarks"])] = made.pop(name)
    elif kind == 2:
        made[name] = array.astype(np.float64) + random.choice([0.0, 0.5, np.inf, np.nan])
    elif kind == 3:
        made[name] = _reshaped(array, random)
    elif kind == 4:
        made[name] = np.full_like(array, _entry(array, random))
    else:
        made[name] = array.copy()
        if array.size:
            for _ in range(random.choice([1, 1, 3])):
                made[name].reshape(-1)[random.randrange(array.size)] = _entry(array, random)
    return made


def _reshaped(array: Array, random: Random) -> Array:
    flat = array.reshape(-1)
    shapes = [flat[:0], flat[:-1], np.append(flat, flat[:1]), array.T, array[None], flat, array.reshape(-1, 1)]
    shapes += [np.tile(flat, random.choice([2, 100])), flat[0] if flat.size else flat]
    return np.asarray(random.choice(shapes))


def _entry(array: Array, random: Random) -> Any:
    if array.dtype.kind == "f":
        return random.choice([np.nan, np.inf, -np.inf, *map(float, REAL), -1.0])
    extremes = [0, 1, -1, 2**31, -(2**31), 2**52, 2**62, -(2**62), 2**63 - 1, -(2**63), random.randrange(1000)]
    least, most = (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max) if array.dtype.kind in "iu" else (0, 1)
    return min(max(random.choice(extremes), least), most)


def altered_bytes(content: bytes, random: Random) -> bytes:
    """Flip, cut, repeat, insert or overwrite bytes."""
    made = bytearray(content)
    kind = random.randrange(7)
    place = random.randrange(len(made) + 1)
    if kind == 0:
        return bytes(made[:place])
    if kind == 1:
        return bytes(made[place:])
    if kind == 2:
        made[place:place] = random.randbytes(random.randrange(1, 40))
    elif kind == 3:
        end = min(len(made), place + random.randrange(1, 64))
        made[end:end] = made[place:end] * random.choice([1, 2, 200])
    elif kind == 4:
        del made[place : place + random.randrange(1, 64)]
    elif kind == 5 and place + 8 <= len(made):
        number = random.choice([0, 1, 2**31, 2**32 - 1, 2**40, 2**63, 2**64 - 1])
        size = random.choice([1, 2, 4, 8])
        made[place : place + size] = (number % 256**size).to_bytes(size, random.choice(["little", "big"]))
    else:
        for _ in range(random.choice([1, 1, 2, 8])):
            if made:
                made[random.randrange(len(made))] ^= 1 << random.randrange(8)
    return bytes(made)

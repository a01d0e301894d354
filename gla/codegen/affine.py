"""Index arithmetic that is not yet code: integers known when a kernel is launched, and sums of index values times such integers.

`Poly` is a polynomial over symbols (extents, starts, ...): equal polynomials are one kernel parameter, whatever the sizes
are. `Affine` is offset + sum of atom * coefficient. An atom is an index Value or a `Split`: a quotient or a remainder.
`Indices` makes and simplifies them, so that an index that was split over axes and is put together again in memory order
costs no division. Every form stands for a number that is not negative. Used by lowering only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

from gla.codegen.kernel import Value

Monomial = tuple[int, ...]  # symbols, sorted, repeated for powers


@dataclass(frozen=True, slots=True)
class Poly:
    """A sum of (symbols multiplied, integer), sorted; the empty sum is zero."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    @property
    def constant(self) -> int | None:
        """The number, when no symbol takes part."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    def __add__(self, other: Poly) -> Poly:
        if not other.terms:
            return self
        return _poly(self.terms + other.terms)

    def __sub__(self, other: Poly) -> Poly:
        return self + other * number(-1)

    def __mul__(self, other: Poly) -> Poly:
        if self is ONE or other is ONE:
            return other if self is ONE else self
        return _poly((tuple(sorted(a + b)), m * n) for a, m in self.terms for b, n in other.terms)

    def over(self, other: Poly) -> Poly | None:
        """The exact quotient by a polynomial of one term, or None."""
        if len(other.terms) != 1:
            return ONE if self == other else None
        symbols, factor = other.terms[0]
        out = []
        for monomial, n in self.terms:
            rest = list(monomial)
            for symbol in symbols:
                if symbol not in rest:
                    return None
                rest.remove(symbol)
            if n % factor:
                return None
            out.append((tuple(rest), n // factor))
        return _poly(out)

    def evaluate(self, values: list[int]) -> int:
        total = 0
        for monomial, n in self.terms:
            total += n * prod(values[k] for k in monomial)
        return total


def _poly(terms: Iterable[tuple[Monomial, int]]) -> Poly:
    sums: dict[Monomial, int] = {}
    for monomial, n in terms:
        sums[monomial] = sums.get(monomial, 0) + n
    return Poly(tuple(sorted((m, n) for m, n in sums.items() if n)))


def number(n: int) -> Poly:
    return Poly((((), n),)) if n else ZERO


def symbol(k: int) -> Poly:
    return Poly((((k,), 1),))


ZERO = Poly()
ONE = Poly((((), 1),))


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """kind "div": of // by, "mod": of % by. Interned: compared by identity; `serial` orders them."""

    kind: str
    of: Affine
    by: Poly
    serial: int
    level: int


Atom = Value | Split


@dataclass(frozen=True, slots=True)
class Affine:
    offset: Poly = ZERO
    terms: tuple[tuple[Atom, Poly], ...] = ()

    @property
    def constant(self) -> int | None:
        return None if self.terms else self.offset.constant

    @property
    def atom(self) -> Atom | None:
        """The atom, when the form is nothing else."""
        if len(self.terms) == 1 and not self.offset.terms and self.terms[0][1] == ONE:
            return self.terms[0][0]
        return None


START = Affine()
Index = tuple[Affine, ...]


def fixed(n: int) -> Affine:
    return Affine(number(n)) if n else START


def _order(term: tuple[Atom, Poly]) -> tuple[int, int]:
    atom = term[0]
    return (0, atom.id) if isinstance(atom, Value) else (1, atom.serial)


class Indices:
    """Makes forms. `levels` gives the scope of a Value (0: the item), `bounds` what a counter stays below."""

    def __init__(self, level_of: Any) -> None:
        self._level_of = level_of
        self._splits: dict[tuple[str, Affine, Poly], Split] = {}
        self.bounds: dict[Value, Poly] = {}

    def value(self, value: Value, bound: Poly | None = None) -> Affine:
        if bound is not None:
            self.bounds[value] = bound
        return Affine(ZERO, ((value, ONE),))

    def level(self, form: Affine) -> int:
        """The innermost scope that the form needs."""
        return max((self.atom_level(atom) for atom, _ in form.terms), default=0)

    def atom_level(self, atom: Atom) -> int:
        return atom.level if isinstance(atom, Split) else self._level_of(atom)

    def scale(self, form: Affine, factor: Poly) -> Affine:
        if factor == ONE:
            return form
        if not factor.terms:
            return START
        return Affine(form.offset * factor, tuple((atom, c * factor) for atom, c in form.terms))

    def add(self, *forms: Affine) -> Affine:
        offset = ZERO
        sums: dict[Atom, Poly] = {}
        for form in forms:
            offset = offset + form.offset
            for atom, c in form.terms:
                sums[atom] = sums[atom] + c if atom in sums else c
        if any(isinstance(atom, Split) for atom in sums):
            offset = self._simplify(sums, offset)
        return Affine(offset, tuple(sorted(((a, c) for a, c in sums.items() if c.terms), key=_order)))

    def shifted(self, form: Affine, by: Poly) -> Affine:
        return Affine(form.offset + by, form.terms)

    def dot(self, index: Iterable[Affine], strides: Iterable[Poly]) -> Affine:
        return self.add(*(self.scale(form, stride) for form, stride in zip(index, strides)))

    def _simplify(self, sums: dict[Atom, Poly], offset: Poly) -> Poly:
        """Join quotients with their remainders, in place, while any fit; gives the new offset."""
        while True:
            for atom in [a for a in sums if isinstance(a, Split)]:
                assert isinstance(atom, Split)
                joined = self._join(atom, sums)
                if joined is None:
                    continue
                low, form = joined
                c = sums.pop(low)
                del sums[atom]
                offset = offset + form.offset * c
                for inner, factor in form.terms:
                    sums[inner] = sums[inner] + factor * c if inner in sums else factor * c
                break
            else:
                return offset

    def _join(self, atom: Split, sums: dict[Atom, Poly]) -> tuple[Split, Affine] | None:
        """(f // m) * m + f % m = f, and (f // a % b) * a + f % a = f % (a b)."""
        if atom.kind == "div":
            low = self._splits.get(("mod", atom.of, atom.by))
            if low in sums and sums[atom] == sums[low] * atom.by:
                return low, atom.of
            return None
        high = atom.of.atom
        if isinstance(high, Split) and high.kind == "div":
            low = self._splits.get(("mod", high.of, high.by))
            if low in sums and sums[atom] == sums[low] * high.by:
                return low, self.mod(high.of, high.by * atom.by)
        return None

    def bound(self, form: Affine) -> Poly | None:
        """What the form stays below, where it counts in mixed radix; None where that is not known."""
        if form.offset.terms:
            known = form.constant
            return None if known is None else number(known + 1)
        left = dict(form.terms)
        reached = ONE
        while left:
            for atom, c in left.items():
                limit = self._atom_bound(atom) if c == reached else None
                if limit is not None:
                    reached = reached * limit
                    del left[atom]
                    break
            else:
                return None
        return reached

    def _atom_bound(self, atom: Atom) -> Poly | None:
        if isinstance(atom, Value):
            return self.bounds.get(atom)
        if atom.kind == "mod":
            return atom.by
        whole = self.bound(atom.of)
        return None if whole is None else whole.over(atom.by)

    def div(self, form: Affine, by: Poly) -> Affine:
        return self._divide(form, by)[0]

    def mod(self, form: Affine, by: Poly) -> Affine:
        return self._divide(form, by)[1]

    def _divide(self, form: Affine, by: Poly) -> tuple[Affine, Affine]:
        """Quotient and remainder by a positive extent."""
        if by == ONE:
            return form, START
        if form.constant is not None and by.constant is not None:
            q, r = divmod(form.constant, by.constant)
            return fixed(q), fixed(r)
        whole, rest = self._parts(form, by)
        if self._below(rest, by):
            return whole, rest
        return self._split("div", form, by), self._split("mod", form, by)

    def _below(self, form: Affine, by: Poly) -> bool:
        limit = self.bound(form)
        if limit is None:
            return False
        known, least = limit.constant, by.constant
        return limit == by or (known is not None and known <= (least if least is not None else 1))

    def _parts(self, form: Affine, by: Poly) -> tuple[Affine, Affine]:
        """form = whole * by + rest, term by term."""
        offset = form.offset.over(by) if form.offset.terms else ZERO
        whole: list[tuple[Atom, Poly]] = []
        rest: list[tuple[Atom, Poly]] = []
        for atom, c in form.terms:
            q = c.over(by)
            (rest if q is None else whole).append((atom, c if q is None else q))
        if offset is None:
            return Affine(ZERO, tuple(whole)), Affine(form.offset, tuple(rest))
        return Affine(offset, tuple(whole)), Affine(ZERO, tuple(rest))

    def _split(self, kind: str, form: Affine, by: Poly) -> Affine:
        key = (kind, form, by)
        found = self._splits.get(key)
        if found is None:
            found = self._splits[key] = Split(kind, form, by, len(self._splits), self.level(form))
        return Affine(ZERO, ((found, ONE),))

    def unravel(self, form: Affine, extents: tuple[Poly, ...]) -> Index:
        """The row-major multi-index of a linear index."""
        out: list[Affine] = []
        for extent in reversed(extents[1:]):
            form, last = self._divide(form, extent)
            out.append(last)
        if extents:
            out.append(START if extents[0] == ONE else form)
        return tuple(reversed(out))


def strides(extents: tuple[Poly, ...]) -> tuple[Poly, ...]:
    """Row-major strides in elements."""
    out = []
    reached = ONE
    for extent in reversed(extents):
        out.append(reached)
        reached = reached * extent
    return tuple(reversed(out))


def product(extents: Iterable[Poly]) -> Poly:
    total = ONE
    for extent in extents:
        total = total * extent
    return total

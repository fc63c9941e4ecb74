"""The layers of `random_layers` that are sums of products, and of neighbours of computed places."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Value:
    """A tensor that layers pass on."""

    name: str
    shape: tuple[int, ...]

    def at(self, *subscripts: str) -> str:
        return f"{self.name}({', '.join(subscripts)})" if subscripts else self.name


class Sums:
    """What a generator of layers draws them from; it gives these."""

    r: random.Random
    type: str
    chance: Callable[..., bool]
    fits: Callable[..., bool]
    input: Callable[..., Value]
    state: Callable[..., Value]

    def dense(self, x: Value) -> Value:
        n, m = x.shape
        k = self.r.choice([1, 2, 3, 16, 17, 33, 64, 81])
        if not self.fits(n, m, k):
            k = 1
        turned = self.chance(0.5)
        shape, at = ((m, k), ("j", "k")) if turned else ((k, m), ("k", "j"))
        draw = self.r.random()
        if draw < 0.1 and self.type in ("float", "double"):
            w = f"{self.type}({self.input(*shape, type_='int8').at(*at)})"
        elif draw < 0.25:
            w = f"exp({self.input(*shape).at(*at)} * 0.25)"
        elif draw < 0.35:
            w = f"({self.input(*shape).at(*at)} * {self.input(m).at('j')})"
        else:
            w = self.input(*shape).at(*at)
        factors = [x.at("i", "j"), w]
        self.r.shuffle(factors)
        body = " * ".join(factors)
        draw = self.r.random()
        if draw < 0.1:
            body = f"{self.input(n).at('i')} > 0 ? {body} : 0"
        elif draw < 0.2:
            condition = self.r.choice(["j < {}", "j >= {}", "2 * j > {}", "j > 1 && j <= {}"])
            body = f"{condition.format(self.r.randrange(m + 1))} ? {body} : 0"
        made = self.state((n, k), "ik", "+=!", body)
        draw = self.r.random()
        if draw < 0.3:
            bias = self.input(k)
            return self.state((n, k), "ik", "=", f"fmax({made.at('i', 'k')} + {bias.at('k')}, 0)")
        if draw < 0.5:
            return self.state((n, k), "ik", "=", f"tanh({made.at('i', 'k')})")
        return made

    def factors(self, x: Value) -> Value:
        """A product of three, as tensor decompositions have it."""
        n, m = x.shape
        k, rank = self.r.choice([3, 8, 16]), self.r.choice([2, 8, 16])
        if not self.fits(n, m, k, rank):
            return x
        y = self.input(n, m, k)
        a, b = self.input(m, rank), self.input(k, rank)
        made = self.state(
            (n, rank), "ir", "+=!", f"{y.at('i', 'j', 'k')} * {a.at('j', 'r')} * {b.at('k', 'r')}"
        )
        if self.chance(0.5):
            return made
        value = f"{made.at('i', 'r')} * {a.at('j', 'r')} * {x.at('i', 'j')}"
        return self.state((n, m), "ij", "+=!", value)

    def two_products(self, x: Value) -> Value:
        """A sum of two products of three, each with a long sum inside."""
        n, m = x.shape
        k = self.r.choice([24, 33, 60])
        if not self.fits(n, m, k):
            return x
        a, b, c = self.input(m, k), self.input(n, k), self.input(n, k)
        value = f"{b.at('i', 'k')} * {a.at('j', 'k')} * {x.at('i', 'j')}"
        sign = self.r.choice("+-")
        value += f" {sign} {x.at('i', 'j')} * {c.at('i', 'k')} * {a.at('j', 'k')}"
        rows = self.state((n,), "i", "+=!", value)
        return self.state((n, m), "ij", "=", f"{x.at('i', 'j')} + {rows.at('i')}")

    def common(self, x: Value) -> Value:
        """Two sums with a part in common."""
        n, m = x.shape
        k = self.r.choice([4, 16, 40])
        if not self.fits(n, m, k):
            return x
        y, a, b = self.input(n, m, k), self.input(m), self.input(n)
        rows = self.state((n,), "i", "+=!", f"{y.at('i', 'j', 'k')} * {a.at('j')}")
        columns = self.state((m,), "j", "+=!", f"{y.at('i', 'j', 'k')} * {b.at('i')}")
        return self.state(
            (n, m), "ij", "=", f"{x.at('i', 'j')} * {rows.at('i')} + {columns.at('j')}"
        )

    def shared_factors(self, x: Value) -> Value:
        """Sums that have most factors in common, each scaled by a number of its own."""
        if self.chance(0.5):
            # Of many short rows: what the sums share pays.
            x = self.input(self.r.choice([300, 1000, 2000]), self.r.choice([2, 4, 5]))
        n, m = x.shape
        if not self.fits(n, m, 4):
            return x
        y, z, w = self.input(n, m), self.input(n), self.input(n, 4)
        common = [x.at("i", "j"), f"({y.at('i', 'j')} / ({z.at('i')} * {z.at('i')} + 1))"]
        self.r.shuffle(common)
        value = x.at("i", "j")
        for k in range(self.r.choice([2, 3, 4, 4])):
            scale = self.r.choice(["-", "2 * ", "-3 * ", "0.5 * ", ""])
            factors = [f for f in common if self.chance(0.9)] + [w.at("i", str(k))]
            total = self.state((n,), "i", "+=!", scale + " * ".join(factors), f"j in 0:{m}")
            value = f"({value} {self.r.choice('+-')} {total.at('i')})"
        return self.state((n, m), "ij", "=", value)

    def spread(self, x: Value) -> Value:
        """Results that lie at the quotients and residues of an index, with a sum over the rows."""
        n, m = x.shape
        side, rows = self.r.choice([2, 3, 4]), self.r.choice([1, 2, 5])
        wide = side * m - self.r.choice([0, 0, 1])
        if not self.fits(n, rows, wide):
            return x
        w = self.input(n, rows, side)
        first = self.r.choice([0, 0, 1]) if wide < side * m else 0
        at = f"(j + {first})" if first else "j"
        body = f"{x.at('k', f'{at} / {side}')} * {w.at('k', 'i', f'{at} % {side}')}"
        if self.chance(0.3):
            body = f"j < {self.r.randrange(wide + 1)} ? {body} : 0"
        return self.state((rows, wide), "ij", "+=!", body, f"j in 0:{wide}")

    def boxed(self, x: Value) -> Value:
        """Sums that some results alone have terms of."""
        n, m = x.shape
        k = self.r.choice([2, 5, 17, 40])
        if not self.fits(n, m, k):
            return x
        conditions = [f"i < {self.r.randrange(n + 1)}", f"j >= {self.r.randrange(m)}"]
        conditions += [f"max(i, j) <= {self.r.randrange(m)}", f"2 * j < {self.r.randrange(2 * m)}"]
        chosen = self.r.sample(conditions, self.r.choice([1, 1, 2]))
        body = f"{self.input(n, k).at('i', 'k')} * {self.input(m, k).at('j', 'k')}"
        operator, other = self.r.choice([("+=!", "0"), ("+=!", "0"), ("max=!", "-1.0 / 0.0")])
        made = self.state(
            (n, m),
            "ij",
            operator,
            f"{' && '.join(chosen)} ? {body} : {other}",
            f"i in 0:{n}, j in 0:{m}",
        )
        if operator == "max=!":
            return self.state((n, m), "ij", "=", f"fmax({made.at('i', 'j')}, {x.at('i', 'j')})")
        if self.chance(0.5):
            return made
        return self.state((n, m), "ij", "=", f"{made.at('i', 'j')} + {x.at('i', 'j')}")

    def polynomial(self, x: Value) -> Value:
        """Powers of which the index of a sum is the exponent."""
        n, m = x.shape
        degree = self.r.choice([2, 3, 5, 8, 9])
        if not self.fits(n, m, degree):
            return x
        c = self.input(degree, m)
        exponent = self.r.choice(["k", "k + 1", "2 * k", "float(k)"])
        value = f"{c.at('k', 'j')} * pow({x.at('i', 'j')} * 0.25, {exponent})"
        return self.state((n, m), "ij", "+=!", value)

    def interpolated(self, x: Value) -> Value:
        """Two neighbours of places that are computed of data, kept inside by conditions or clamped;
        all of them exact, so that one more or less decides nothing."""
        n, m = x.shape
        k = self.r.choice([1, 5, 40, 130])
        if not self.fits(n, k):
            return x
        p = self.input(k).at("j")
        scaled = f"{p} * {self.r.choice(['0.5', '2', '0.25'])}"
        place = f"(int32(floor({scaled})) + {self.r.choice([0, m // 2, m - 1])})"
        clamps = self.chance(0.4)
        sides = []
        for at in (place, f"{place} + 1"):
            if clamps:
                sides.append(x.at("i", f"min(max({at}, 0), {m - 1})"))
            else:
                least, most = self.r.choice([(">=", "<"), (">", "<=")])
                inside = f"{at} {least} {0 - (least == '>')} && {at} {most} {m - (most == '<=')}"
                sides.append(f"({inside} ? {x.at('i', at)} : 0)")
        weight = f"({scaled} - floor({scaled}))"
        body = f"(1 - {weight}) * {sides[0]} + {weight} * {sides[1]}"
        ranges = f"i in 0:{n}, j in 0:{k}"
        if self.chance(0.6):
            return self.state((n, k), "ij", "=", body, ranges)
        y = self.input(n, k)
        total = self.state((k,), "j", "+=!", f"{y.at('i', 'j')} * ({body})", ranges)
        return self.state((n, k), "ij", "=", f"{y.at('i', 'j')} - {total.at('j')}")

"""Random programs of the kinds of statements that layers are made of.

`random_programs` draws expressions, in which such patterns hardly ever meet: a softmax, a window
with zeros around its image, a table in a reduction. Here a tensor passes through a few of them, one
behind the other, each with sizes, orders of indices, constants and ways to write it drawn at
random. The sizes are those from which on a pass has something to do, as far as the interpreter has
the time.
"""

from __future__ import annotations

import math
import random
from typing import ClassVar

from cases import MACHINES, Case, Tensor
from random_sums import Sums, Value

# Points of a statement.
MOST_POINTS = 60_000
ROWS = [1, 2, 3, 5, 8, 17, 32, 40]
COLUMNS = [1, 2, 4, 7, 16, 17, 33, 48, 64, 100, 200, 300]
FUNCTIONS = ["exp", "tanh", "sin", "cos", "sqrt", "log1p", "erf", "fabs", "exp2", "expm1", "log"]


class Generator(Sums):
    def __init__(self, seed: int) -> None:
        self.r = random.Random(f"layers {seed}")
        self.seed = seed
        self.type = self.r.choices(["float", "double", "half", "bfloat16"], [12, 3, 1, 1])[0]
        self.inputs: list[Tensor] = []
        self.lines: list[str] = []
        self.counter = 0
        self.deepest = 15
        self.shares_sizes = False

    def chance(self, probability: float) -> bool:
        return self.r.random() < probability

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def input(
        self, *shape: int, type_: str = "", bound: tuple[int, int] | None = None, kind: str = ""
    ) -> Value:
        name = self.fresh("A")
        kind = "index" if bound else kind or "small"
        self.inputs.append(
            Tensor(name, type_ or self.type, shape, kind, bound or (0, 0), plain=self.chance(0.6))
        )
        return Value(name, shape)

    def table(self, size: int, *shape: int) -> Value:
        """Places in a dimension of this size."""
        type_ = self.r.choice(["int32", "int32", "int64"])
        return self.input(*shape, type_=type_, bound=(0, size))

    def state(
        self,
        shape: tuple[int, ...],
        indices: str,
        operator: str,
        body: str,
        where: str = "",
    ) -> Value:
        """A statement; `indices` are one letter each."""
        made = Value(self.fresh("T"), shape)
        where = f" where {where}" if where else ""
        self.lines.append(f"{made.at(*indices)} {operator} {body}{where}")
        return made

    def fits(self, *extents: int) -> bool:
        return math.prod(extents) <= MOST_POINTS

    # ---- layers over rows and columns

    def softmax(self, x: Value) -> Value:
        n, m = x.shape
        most = self.state((n,), "i", "max=!", x.at("i", "j"))
        if self.chance(0.3):
            exp = f"exp({x.at('i', 'j')} - {most.at('i')})"
            total = self.state((n,), "i", "+=!", exp)
            return self.state((n, m), "ij", "=", f"{exp} / {total.at('i')}")
        e = self.state((n, m), "ij", "=", f"exp({x.at('i', 'j')} - {most.at('i')})")
        total = self.state((n,), "i", "+=!", e.at("i", "j"))
        draw = self.r.random()
        if draw < 0.25:
            body = f"{x.at('i', 'j')} - {most.at('i')} - log({total.at('i')})"
            return self.state((n, m), "ij", "=", body)
        if draw < 0.5:
            total = self.state((n,), "i", "=", f"1 / {total.at('i')}")
            return self.state((n, m), "ij", "=", f"{e.at('i', 'j')} * {total.at('i')}")
        return self.state((n, m), "ij", "=", f"{e.at('i', 'j')} / {total.at('i')}")

    def normalise(self, x: Value) -> Value:
        n, m = x.shape
        along = self.chance(0.8)  # over columns; else over rows
        kept, count = ("i", m) if along else ("j", n)
        size = (n,) if along else (m,)
        mean = self.state(size, kept, "+=!", f"{x.at('i', 'j')} / {count}")
        middle = f"({x.at('i', 'j')} - {mean.at(kept)})"
        if self.chance(0.5):
            variance = self.state(size, kept, "+=!", f"{middle} * {middle} / {count}")
        else:
            squares = self.state(size, kept, "+=!", f"{x.at('i', 'j')} * {x.at('i', 'j')}")
            variance = self.state(
                size, kept, "=", f"{squares.at(kept)} / {count} - {mean.at(kept)} * {mean.at(kept)}"
            )
        root = f"sqrt(fmax({variance.at(kept)}, 0) + 0.5)"
        body = self.r.choice([f"{middle} / {root}", f"{middle} * (1 / {root})"])
        if self.chance(0.5):
            body = f"{body} * {self.input(m).at('j')} + {self.input(m).at('j')}"
        return self.state((n, m), "ij", "=", body)

    def distances(self, x: Value) -> Value:
        """Sums over rows and columns with a single number between them."""
        n, m = x.shape
        total = self.state((), "", "+=!", x.at("i", "j"))
        mean = self.state((), "", "=", f"{total.name} / {n * m}")
        rows = self.state((n,), "i", "+=!", f"{x.at('i', 'j')} * {self.input(m).at('j')}")
        columns = self.state((m,), "j", "+=!", f"{x.at('i', 'j')} * {self.input(n).at('i')}")
        body = f"{x.at('i', 'j')} - {mean.name} + {rows.at('i')} * {columns.at('j')}"
        return self.state((n, m), "ij", "=", body)

    def positions(self, x: Value) -> Value:
        n, m = x.shape
        f = self.r.choice(["sin", "cos"])
        angle = f"{self.input(n).at('i')} * {self.input(m).at('j')}"
        angle = self.r.choice([angle, x.at("i", "j"), f"{x.at('i', 'j')} * 3"])
        return self.state((n, m), "ij", "=", f"{x.at('i', 'j')} + {f}({angle})")

    def roll(self, x: Value) -> Value:
        n, m = x.shape
        by = self.r.randint(1, max(1, m - 1))
        place = self.r.choice(
            [
                f"(j + {by}) % {m}",
                f"(j - {by} + {m}) % {m}",
                f"min(max(j - {by}, 0), {m - 1})",
                f"(j < {by} ? j : j - {by})",
                f"(j < {by} ? {by} - j - 1 : j - {by})",
            ]
        )
        return self.state((n, m), "ij", "=", x.at("i", place), f"i in 0:{n}, j in 0:{m}")

    def turn(self, x: Value) -> Value:
        n, m = x.shape
        if self.chance(0.4):
            return self.state((m, n), "ij", "=", x.at("j", "i"))
        if self.chance(0.5):
            return self.state((m, n), "ij", "=", x.at("j", f"{m - 1} - i"))
        return self.state((n, m), "ij", "=", x.at(f"{n - 1} - i", f"{m - 1} - j"))

    def resize(self, x: Value) -> Value:
        n, m = x.shape
        draw = self.r.random()
        if draw < 0.4:
            factor = self.r.choice([2, 3])
            if not self.fits(n, m * factor):
                return self.resize_down(x)
            return self.state(
                (n, m * factor), "ij", "=", x.at("i", f"j / {factor}"), f"j in 0:{m * factor}"
            )
        if draw < 0.7:
            return self.resize_down(x)
        wide = self.r.choice([3, m, 2 * m + 1])
        if not self.fits(n, wide):
            return self.resize_down(x)
        return self.state((n, wide), "ij", "=", x.at("i", f"j * {m} / {wide}"), f"j in 0:{wide}")

    def sampled(self, x: Value) -> Value:
        """Rows read between their elements, at quotients that are kept inside, in the text of the
        read or behind a table of them."""
        n, m = x.shape
        scale, divisor = self.r.choice([1, 2, 3]), self.r.choice([1, 2, 4, 6])
        wide = max(1, m * divisor // scale + self.r.choice([-1, 0, 0, 3]))
        if not self.fits(n, wide):
            return x
        place = f"({scale} * j + {self.r.randint(-4, 4)}) / {divisor}"
        rows = f"j in 0:{wide}"
        if self.chance(0.5):
            table = self.state((wide,), "j", "=", place, rows)
            if self.chance(0.5):
                table = self.state((wide,), "j", "=", f"max({table.at('j')}, 0)", rows)
            place = table.at("j")
        left = f"min(max({place}, 0), {m - 1})"
        right = f"min(max({place} + {self.r.choice([1, 1, 2])}, 0), {m - 1})"
        if self.chance(0.3):
            return self.state((n, wide), "ij", "=", x.at("i", left), rows)
        share = f"{self.input(wide).at('j')}"
        body = f"{x.at('i', left)} + {share} * ({x.at('i', right)} - {x.at('i', left)})"
        return self.state((n, wide), "ij", "=", body, rows)

    def smoothed(self, x: Value) -> Value:
        """A window that is a product of one along rows and one along columns."""
        n, m = x.shape
        a, b = self.r.choice([(5, 5), (7, 7), (3, 9), (9, 3), (1, 7)])
        zeros = self.chance(0.5)
        high, wide = (n, m) if zeros else (n - a + 1, m - b + 1)
        if high < 1 or wide < 1 or not self.fits(high, wide, a, b):
            return x
        y, z = (f"i + a - {a // 2}", f"j + b - {b // 2}") if zeros else ("i + a", "j + b")
        read = x.at(y, z)
        if zeros:
            inside = f"{y} >= 0 && {y} < {n} && {z} >= 0 && {z} < {m}"
            read = f"({inside} ? {read} : 0)"
        body = f"{read} * {self.input(a).at('a')} * {self.input(b).at('b')}"
        where = f"i in 0:{high}, j in 0:{wide}, a in 0:{a}, b in 0:{b}"
        return self.state((high, wide), "ij", "+=!", body, where)

    def resize_down(self, x: Value) -> Value:
        n, m = x.shape
        step = self.r.choice([2, 3])
        wide = (m + step - 1) // step
        return self.state((n, wide), "ij", "=", x.at("i", f"{step} * j"), f"j in 0:{wide}")

    def window(self, x: Value) -> Value:
        """A convolution of one channel or several, with zeros around it and a stride."""
        n, m = x.shape
        a, b = self.r.choice([(1, 3), (3, 3), (3, 1), (2, 2)])
        step, channels = self.r.choice([1, 1, 1, 2]), self.r.choice([1, 1, 2, 5])
        high, wide = (n + step - 1) // step, (m + step - 1) // step
        if not self.fits(channels, high, wide, a, b):
            return x
        w = self.input(channels, a, b)
        y = f"{step} * i + a - {a // 2}" if step > 1 else f"i + a - {a // 2}"
        z = f"{step} * j + b - {b // 2}" if step > 1 else f"j + b - {b // 2}"
        inside = f"{y} >= 0 && {y} < {n} && {z} >= 0 && {z} < {m}"
        read = f"({inside} ? {x.at(y, z)} : 0)"
        product = f"{read} * {w.at('c', 'a', 'b')}"
        if self.chance(0.3):
            product = f"({inside} ? {x.at(y, z)} * {w.at('c', 'a', 'b')} : 0)"
        made = self.state(
            (channels, high, wide), "cij", "+=!", product, f"i in 0:{high}, j in 0:{wide}"
        )
        return self.state((high, wide), "ij", "+=!", made.at("c", "i", "j"))

    def transposed_window(self, x: Value) -> Value:
        n, m = x.shape
        step, k = self.r.choice([2, 2, 3]), self.r.choice([2, 3, 4])
        wide = (m - 1) * step + k
        if not self.fits(n, wide, k):
            return x
        w = self.input(k)
        inside = f"(j - k) % {step} == 0 && j - k >= 0 && (j - k) / {step} < {m}"
        body = f"({inside} ? {x.at('i', f'(j - k) / {step}')} * {w.at('k')} : 0)"
        return self.state((n, wide), "ij", "+=!", body, f"j in 0:{wide}, k in 0:{k}")

    def strided(self, x: Value) -> Value:
        """Windows without zeros around them, whose derivative divides."""
        n, m = x.shape
        step, k = self.r.choice([2, 3]), self.r.choice([1, 2, 3])
        wide = (m - k) // step + 1
        if wide < 1:
            return x
        w = self.input(k)
        body = f"{x.at('i', f'{step} * j + k')} * {w.at('k')}"
        if self.chance(0.3):
            return self.state(
                (n, wide), "ij", "max=!", x.at("i", f"{step} * j + k"), f"j in 0:{wide}, k in 0:{k}"
            )
        return self.state((n, wide), "ij", "+=!", body, f"j in 0:{wide}")

    def digits(self, x: Value) -> Value:
        """An index that is read by its digits."""
        n, m = x.shape
        side = self.r.choice([2, 3, 4])
        if m % side:
            return x
        cut = self.state(
            (n, m // side, side),
            "ijk",
            "=",
            x.at("i", f"{side} * j + k"),
            f"j in 0:{m // side}, k in 0:{side}",
        )
        return self.state(
            (n, m), "ij", "=", cut.at("i", f"j / {side}", f"j % {side}"), f"j in 0:{m}"
        )

    def tables(self, x: Value) -> Value:
        """A reduction over places that tables say."""
        n, m = x.shape
        k = self.r.choice([1, 3, 16, 33])
        a, b = self.r.choice([(4, 5), (16, 3), (7, 8)])
        if not self.fits(n, k, a, b):
            return x
        draw = self.r.random()
        if draw < 0.4:
            depth = self.r.choice([2, 5])
            d = self.input(n, m, depth)
            t, u = self.table(m, a), self.table(depth, b)
            w = self.input(k, a, b)
            return self.state(
                (n, k), "ik", "+=!", f"{d.at('i', t.at('a'), u.at('b'))} * {w.at('k', 'a', 'b')}"
            )
        if draw > 0.85 and self.fits(n, m, k):
            # Neighbouring results have neighbours in no row of the table.
            w, t = self.input(k, m, a), self.table(a, n, m)
            body = f"{w.at('k', 'j', t.at('i', 'j'))} * {x.at('i', 'j')}"
            return self.state((n, k), "ik", "+=!", body)
        t = self.table(m, a) if draw < 0.7 else self.table(m, a, k)
        w = self.input(k, a)
        return self.state(
            (n, k),
            "ik",
            "+=!",
            f"{x.at('i', t.at('a') if draw < 0.7 else t.at('a', 'k'))} * {w.at('k', 'a')}",
        )

    def bag(self, x: Value) -> Value:
        n, m = x.shape
        bags, length = self.r.choice([1, 4, 9]), self.r.choice([1, 3, 20])
        if not self.fits(bags, length, m):
            return x
        turned = self.chance(0.4)
        t = self.table(n, length, bags) if turned else self.table(n, bags, length)
        place = t.at("l", "b") if turned else t.at("b", "l")
        weight = f" * {self.input(bags, length).at('b', 'l')}" if self.chance(0.4) else ""
        return self.state((bags, m), "bj", "+=!", f"{x.at(place, 'j')}{weight}")

    def lookups(self, x: Value) -> Value:
        """Two lookups in turns, and what reads both."""
        bags, width = self.r.choice([5, 17]), self.r.choice([19, 64])
        a, b = self.r.choice([(50, 7), (33, 2), (4, 50)])
        s, t = self.input(100, width), self.input(60, width)
        i, j = self.table(100, bags, a), self.table(60, bags, b)
        o = self.state((bags, width), "bd", "+=!", s.at(i.at("b", "l"), "d"))
        p = self.state((bags, width), "bd", "+=!", t.at(j.at("b", "l"), "d"))
        return self.state((bags, width), "bd", "=", f"{o.at('b', 'd')} * {p.at('b', 'd')}")

    def heads(self, x: Value) -> Value:
        """Attention of many heads, each of which passes through all of it in a cache."""
        b, n = self.r.choice([24, 40]), self.r.choice([5, 8, 16])
        q, k, v = (self.input(b, n, n) for _ in range(3))
        s = self.state((b, n, n), "bij", "+=!", f"{q.at('b', 'i', 'k')} * {k.at('b', 'j', 'k')}")
        if self.chance(0.5):
            most = self.state((b, n), "bi", "max=!", s.at("b", "i", "j"))
            body = f"exp({s.at('b', 'i', 'j')} - {most.at('b', 'i')})"
            e = self.state((b, n, n), "bij", "=", body)
            total = self.state((b, n), "bi", "+=!", e.at("b", "i", "j"))
            body = f"{e.at('b', 'i', 'j')} / {total.at('b', 'i')}"
            s = self.state((b, n, n), "bij", "=", body)
        o = self.state((b, n, n), "bik", "+=!", f"{s.at('b', 'i', 'j')} * {v.at('b', 'j', 'k')}")
        return self.state((b, n), "bi", "+=!", o.at("b", "i", "k"))

    def quotients(self, x: Value) -> Value:
        """Two with one divisor, which the sum of their derivatives has once."""
        divisor = self.input(x.shape[0]).at("i")
        a = self.state(x.shape, "ij", "=", f"{x.at('i', 'j')} / {divisor}")
        body = f"{x.at('i', 'j')} * {self.input(x.shape[1]).at('j')} / {divisor}"
        b = self.state(x.shape, "ij", "=", body)
        return self.state(x.shape, "ij", "=", f"{a.at('i', 'j')} * {b.at('i', 'j')}")

    def nothing(self, x: Value) -> Value:
        """A sum of deviations, whose derivative is zero whatever the data."""
        n, m = x.shape
        mean = self.state((n,), "i", "+=!", f"{x.at('i', 'j')} / {m}")
        rest = self.state((n,), "i", "+=!", f"{x.at('i', 'j')} - {mean.at('i')}")
        return self.state((n, m), "ij", "=", f"{self.input(m).at('j')} + {rest.at('i')}")

    def truncated(self, x: Value) -> Value:
        small = self.r.choice(["int32", "int8", "int16", "uint8"])
        value = x.at("i", "j")
        # What an unsigned integer makes of a negative number is not promised.
        value = f"fabs({value})" if small == "uint8" else value
        body = f"{self.type}({small}(0.7 * {self.type}({small}(1.3 * {value}))))"
        return self.state(x.shape, "ij", "=", body)

    def pick(self, x: Value) -> Value:
        n, m = x.shape
        if self.chance(0.5):
            t = self.table(m, m)
            return self.state((n, m), "ij", "=", x.at("i", t.at("j")))
        t = self.table(n, n)
        return self.state((n, m), "ij", "=", x.at(t.at("i"), "j"))

    def scan(self, x: Value) -> Value:
        n, m = x.shape
        if not self.fits(n, m, m):
            return x
        inside = self.r.choice(["k <= j", "k < j", "k >= j", "j >= k"])
        operator = self.r.choice(["+=!", "+=!", "*=!", "max=!", "min=!"])
        other = {"+": "0", "*": "1"}.get(operator[0], x.at("i", "0"))
        body = x.at("i", "k")
        if operator in ("max=!", "min=!"):
            inside = "k <= j"
        elif self.chance(0.4):
            body = f"{body} * {self.input(m).at('k')}"
        if operator == "*=!":
            body = f"(1 + {body} / 64)"
        if operator == "+=!" and self.chance(0.6):
            body = f"{body} * {self.decay(m, 'j', 'k', up_to=inside != 'k >= j')}"
        return self.state(
            (n, m), "ij", operator, f"({inside} ? {body} : {other})", f"j in 0:{m}, k in 0:{m}"
        )

    def moving_extremes(self, x: Value) -> Value:
        """Of terms that fall, or rise, with their distance, and sums of exponentials below them."""
        r = self.r
        n, m = x.shape
        if not self.fits(n, m, m):
            return x
        operator = r.choice(["max=!", "min=!"])
        inside = r.choice(["k <= j", "k >= j"])
        if operator == "min=!" and self.chance(0.5):
            inside = ""
        later, earlier = ("j", "k") if inside != "k >= j" else ("k", "j")
        rate = r.choice(["0.5", f"fabs({self.input(1).at('0')})", f"fabs({self.input(n).at('i')})"])
        level = self.input(m)
        distance = f"{self.type}({later} - {earlier}) * {rate}"
        if not inside:
            distance = f"abs(j - k) * {rate}"
        elif self.chance(0.4):
            distance = f"({level.at('j')} - {level.at('k')})"
        sign, neutral = ("-", "-1.0 / 0.0") if operator == "max=!" else ("+", "1.0 / 0.0")
        body = f"{x.at('i', 'k')} {sign} {distance}"
        extreme = f"({inside} ? {body} : {neutral})" if inside else body
        where = f"j in 0:{m}, k in 0:{m}"
        most = self.state((n, m), "ij", operator, extreme, where)
        if operator == "min=!" or self.chance(0.4):
            return most
        body = f"exp({body} - {most.at('i', 'j')}) * {self.input(m).at('k')}"
        return self.state((n, m), "ij", "+=!", f"({inside} ? {body} : 0)", where)

    def triangles(self, x: Value) -> Value:
        """Sums over pairs of places in a row."""
        n, m = x.shape
        if not self.fits(n, m, m):
            return x
        inside = self.r.choice(["k <= j", "k < j", "k >= j"])
        body = f"{x.at('i', 'k')} * {self.input(n, m).at('i', 'j')}"
        if self.chance(0.7):
            body = f"{body} * {self.decay(m, 'j', 'k', up_to=inside != 'k >= j')}"
        body = f"({inside} ? {body} : 0)"
        total = self.state((n,), "i", "+=!", body, f"j in 0:{m}, k in 0:{m}")
        return self.state((n, m), "ij", "=", f"{x.at('i', 'j')} + {total.at('i')} / {m}")

    def decay(self, m: int, result: str, term: str, up_to: bool) -> str:
        """A weight of terms by their distance."""
        r = self.r
        later, earlier = (result, term) if up_to else (term, result)
        distance = f"{self.type}({later} - {earlier})"
        rate = r.choice(["0.5", f"fabs({self.input(1).at('0')})"])
        level = self.input(m)
        weights = [
            f"pow(0.75, {distance})",
            f"pow(tanh({rate}), {distance})",
            f"exp(-{rate} * {distance})",
            f"exp2({distance} * -0.25)",
            f"exp({level.at(later)} - {level.at(earlier)})",
            f"exp({rate} * {level.at(result)} - {level.at(term)} * {rate})",
            f"(exp(-0.5 * {distance}) - exp(-{distance}))",
            f"({rate} * pow(0.5, {distance}))",
        ]
        weight = r.choice(weights)
        if self.chance(0.2):
            weight = f"{weight} * {r.choice([distance, r.choice(weights)])}"
        return weight

    def elementwise(self, x: Value) -> Value:
        n, m = x.shape
        r = self.r
        value = x.at("i", "j")
        draw = r.random()
        if draw < 0.25:
            # Deep, in ranges where nothing is infinite.
            body = value
            for _ in range(r.choice([1, 2, 4, self.deepest])):
                f = r.choice(FUNCTIONS)
                inside = f"fabs({body}) + 0.5" if f in ("sqrt", "log1p", "log") else f"tanh({body})"
                body = f"{f}({inside})"
        elif draw < 0.45:
            limit = r.choice(["0", "0.5"])
            inner = self.state((n, m), "ij", "=", f"({value} > {limit} ? {value} * 3 : -{value})")
            body = f"({value} > {limit} ? {inner.at('i', 'j')} : {inner.at('i', 'j')} * 0.5)"
        elif draw < 0.65:
            body = f"{value} / {r.choice(['0.', '(3 - 3)', '(j - j)'])}"
        elif draw < 0.75:
            body = f"{value} / {self.input(n).at('i')}"
        else:
            body = f"{value} * {self.input(m).at('j')} + {self.input(n).at('i')}"
        return self.state((n, m), "ij", "=", body)

    def pairs(self, x: Value) -> Value:
        """Vectors of two, of which each element is computed by itself."""
        n, m = x.shape
        a, b = self.input(n), self.input(n)
        made = self.state((n, 2), "ij", "=", f"(j == 0 ? {a.at('i')} : {b.at('i')})", "j in 0:2")
        return self.state((n, m), "ij", "+=!", f"{x.at('i', 'j')} * {made.at('i', 'k')}")

    def short_rows(self, x: Value) -> Value:
        """Vectors of a few numbers for each element, which an index chooses, sums or turns."""
        n, m = x.shape
        k = self.r.choice([2, 2, 3, 4, 5])
        if not self.fits(n, m, k):
            return x
        w, v = self.input(n, m, k), self.input(k, k)
        at = x.at("i", "j")
        draw = self.r.random()
        if draw < 0.3:
            first = f"{at} * {w.at('i', 'j', '0')}"
            second = f"{at} * {w.at('i', 'j', '1')}"
            a, b = w.at("i", "j", "1"), w.at("i", "j", "0")
            body = f"(c == 0 ? {first} - {a} * {a} : {second} + {a} * {b})"
        elif draw < 0.6:
            turned = w.at("i", "j", f"(c + 1) % {k}"), w.at("i", "j", f"(c + {k - 1}) % {k}")
            body = f"{turned[0]} * {at} - {turned[1]}"
        else:
            body = f"{w.at('i', 'j', 'd')} * {v.at('c', 'd')}"
        operator = "+=!" if draw >= 0.6 else "="
        made = self.state((n, m, k), "ijc", operator, body, f"c in 0:{k}")
        if self.chance(0.3):
            # As a gradient of these has it.
            terms = f"(c == 0 ? {made.at('i', 'j', 'c')} * {at} : -{made.at('i', 'j', 'c')})"
            return self.state((n, m), "ij", "+=!", terms)
        return self.state(
            (n, m * k), "ij", "=", made.at("i", f"j / {k}", f"j % {k}"), f"j in 0:{m * k}"
        )

    def many(self, x: Value) -> Value:
        """More statements than are compiled together."""
        n, m = x.shape
        if not self.fits(n, m, 66):
            return x
        first = x
        for _ in range(66):
            if self.chance(0.2):
                total = self.state((n,), "i", "+=!", x.at("i", "j"))
                x = self.state((n, m), "ij", "=", f"{first.at('i', 'j')} - {total.at('i')} / {m}")
            else:
                x = self.state((n, m), "ij", "=", f"{x.at('i', 'j')} * 0.5 + {first.at('i', 'j')}")
        return x

    LAYERS: ClassVar[dict[str, float]] = {
        "softmax": 5, "normalise": 4, "distances": 2, "positions": 2, "roll": 2, "turn": 2,
        "resize": 2, "sampled": 3, "smoothed": 2, "window": 3, "transposed_window": 2, "strided": 3,
        "digits": 2, "dense": 6, "factors": 2, "two_products": 2, "common": 1,
        "shared_factors": 2, "spread": 2, "boxed": 2, "polynomial": 1, "interpolated": 2,
        "tables": 3, "bag": 2, "pick": 4, "scan": 4, "elementwise": 5,
        "pairs": 1, "short_rows": 3, "lookups": 2, "heads": 2, "quotients": 1, "nothing": 1,
        "truncated": 9, "many": 0.4, "triangles": 3, "moving_extremes": 3,
    }  # fmt: skip

    def make(self, layers: dict[str, float] = LAYERS) -> Case:
        n, m = self.r.choice(ROWS), self.r.choice(COLUMNS)
        x = self.input(n, m)
        results = []
        for layer in self.r.choices(list(layers), layers.values(), k=self.r.choice([1, 2, 2, 3])):
            made = getattr(self, layer)(x)
            if made != x and self.chance(0.4):
                results.append(made.name)
            x = made
        if not self.lines:
            x = self.elementwise(x)
        results = list(dict.fromkeys([*results, x.name]))
        return Case(self.seed, self.text(results), "layers", tuple(self.inputs), (), self.options())

    def text(self, results: list[str]) -> str:
        parameters = []
        for t in self.inputs:
            # Sizes of one name are known to be equal, whatever they are.
            names = (
                f"N{n}" if self.shares_sizes else f"{t.name}_{d}" for d, n in enumerate(t.shape)
            )
            sizes = ", ".join(names)
            parameters.append(f"{t.type}({sizes}) {t.name}")
        head = f"def layers({', '.join(parameters)}) -> ({', '.join(results)}) {{"
        return "\n".join([head, *(f"  {line}" for line in self.lines), "}"])

    def options(self) -> tuple[str, ...]:
        machine = self.r.choice(MACHINES)
        if any(max(t.shape) >= 200 for t in self.inputs) and self.chance(0.6):
            machine = MACHINES[-1]  # whose tasks have several rows
        options = ["None" if self.chance(0.25) else f"None on {machine}"]
        if self.chance(0.1):
            options.append("identity")
        return tuple(options)


def make_layers(seed: int) -> Case:
    return Generator(seed).make()


def make_derivable(seed: int) -> Case:
    """Some of layers whose derivatives have forms that others have not."""
    generator = Generator(seed)
    # The gradient of n functions of each other has n * n; compiling that of 30 takes minutes.
    generator.deepest = 8
    if seed % 10:
        return generator.make()
    generator.shares_sizes = True
    return generator.make({"quotients": 2, "softmax": 1, "strided": 1})


def make_products(seed: int) -> Case:
    """Of layers that a library has, among others."""
    return Generator(seed).make(
        {"dense": 6, "window": 3, "softmax": 1, "turn": 1, "elementwise": 1}
    )

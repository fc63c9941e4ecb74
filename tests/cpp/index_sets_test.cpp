// What isl says of expressions of indices, compared point by point with what they are.
#include "poly/index_sets.h"

#include <cstdint>
#include <functional>
#include <random>

#include "base/error.h"
#include "check.h"

namespace {

using Halide::Internal::Call;
using tc::ir::Expr;
using tc::ir::Iterator;
using tc::ir::make_variable;

constexpr int kFirst[] = {-7, 0}, kExtent[] = {16, 11};

/// An expression and its value at (i, j): a number of 32 bits, or a truth.
struct Pair {
  Expr e;
  std::function<int64_t(int64_t, int64_t)> at;
};

class Random {
 public:
  explicit Random(unsigned seed) : random_(seed) {}

  Pair number(int depth) {
    if (depth == 0) return leaf();
    const Pair a = number(depth - 1), b = number(depth - 1);
    const int by = below(9) + 1;
    switch (below(10)) {
      case 0: return {a.e + b.e, [=](int64_t i, int64_t j) { return a.at(i, j) + b.at(i, j); }};
      case 1: return {a.e - b.e, [=](int64_t i, int64_t j) { return a.at(i, j) - b.at(i, j); }};
      case 2: return {a.e * by, [=](int64_t i, int64_t j) { return a.at(i, j) * by; }};
      case 3:
        return {Halide::Internal::Div::make(a.e, by),
                [=](int64_t i, int64_t j) { return down(a.at(i, j), by); }};
      case 4:
        return {Halide::Internal::Mod::make(a.e, by),
                [=](int64_t i, int64_t j) { return a.at(i, j) - by * down(a.at(i, j), by); }};
      case 5:
        return {rounded(Call::div_round_to_zero, a.e, by),
                [=](int64_t i, int64_t j) { return a.at(i, j) / by; }};
      case 6:
        return {rounded(Call::mod_round_to_zero, a.e, by),
                [=](int64_t i, int64_t j) { return a.at(i, j) % by; }};
      case 7:
        return {Halide::Internal::Min::make(a.e, b.e),
                [=](int64_t i, int64_t j) { return std::min(a.at(i, j), b.at(i, j)); }};
      case 8: {
        // Through numbers that only their bits give back.
        const Halide::Type bits = Halide::UInt(32);
        const uint32_t far = 4000000000u;
        const Expr up = Halide::cast(bits, a.e) + Halide::Internal::make_const(bits, far);
        return {Halide::cast(Halide::Int(32), up - Halide::Internal::make_const(bits, far)), a.at};
      }
      default: {
        const Pair c = truth(depth - 1);
        return {Halide::Internal::Select::make(c.e, a.e, b.e),
                [=](int64_t i, int64_t j) { return c.at(i, j) ? a.at(i, j) : b.at(i, j); }};
      }
    }
  }

  Pair truth(int depth) {
    if (depth == 0 || below(2)) {
      const Pair a = number(depth), b = leaf();
      switch (below(4)) {
        case 0: return {a.e < b.e, [=](int64_t i, int64_t j) { return a.at(i, j) < b.at(i, j); }};
        case 1: return {a.e >= b.e, [=](int64_t i, int64_t j) { return a.at(i, j) >= b.at(i, j); }};
        case 2: return {a.e == b.e, [=](int64_t i, int64_t j) { return a.at(i, j) == b.at(i, j); }};
        default:
          return {a.e != b.e, [=](int64_t i, int64_t j) { return a.at(i, j) != b.at(i, j); }};
      }
    }
    const Pair a = truth(depth - 1), b = truth(depth - 1);
    switch (below(4)) {
      case 0: return {a.e && b.e, [=](int64_t i, int64_t j) { return a.at(i, j) && b.at(i, j); }};
      case 1: return {a.e || b.e, [=](int64_t i, int64_t j) { return a.at(i, j) || b.at(i, j); }};
      case 2: return {!a.e, [=](int64_t i, int64_t j) { return !a.at(i, j); }};
      default:  // as `&&` whose second operand reads
        return {Call::make(Halide::Bool(), Call::if_then_else,
                           {a.e, b.e, Halide::Internal::const_false()}, Call::PureIntrinsic),
                [=](int64_t i, int64_t j) { return a.at(i, j) && b.at(i, j); }};
    }
  }

 private:
  static int64_t down(int64_t a, int64_t by) { return a >= 0 ? a / by : -((by - 1 - a) / by); }
  static Expr rounded(Call::IntrinsicOp op, const Expr& a, int by) {
    return Call::make(Halide::Int(32), op, {a, by}, Call::PureIntrinsic);
  }
  int below(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }
  Pair leaf() {
    const int number = below(30) - 10;
    switch (below(3)) {
      case 0: return {make_variable("i"), [](int64_t i, int64_t) { return i; }};
      case 1: return {make_variable("j"), [](int64_t, int64_t j) { return j; }};
      default: return {Expr(number), [=](int64_t, int64_t) { return number; }};
    }
  }

  std::mt19937 random_;
};

std::vector<Iterator> ranges() {
  std::vector<Iterator> all(2);
  all[0].name = "i";
  all[1].name = "j";
  for (int d : {0, 1}) all[d].min = kFirst[d], all[d].extent = kExtent[d];
  return all;
}

template <class Visit>
void for_each_point(const tc::poly::IndexSets& sets, Visit visit) {
  for (int64_t i = kFirst[0]; i < kFirst[0] + kExtent[0]; ++i)
    for (int64_t j = kFirst[1]; j < kFirst[1] + kExtent[1]; ++j) {
      isl_point* point = isl_point_zero(sets.points().space().release());
      isl_ctx* ctx = sets.points().ctx().get();
      point = isl_point_set_coordinate_val(point, isl_dim_set, 0, isl_val_int_from_si(ctx, i));
      point = isl_point_set_coordinate_val(point, isl_dim_set, 1, isl_val_int_from_si(ctx, j));
      visit(i, j, isl::point(isl::manage(point)));
    }
}

void test_numbers() {
  int known = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const Pair pair = Random(seed).number(static_cast<int>(seed % 4));
    tc::poly::Context context;
    const tc::poly::IndexSets sets(context.get(), ranges());
    const std::optional<isl::pw_aff> value = sets.value(pair.e);
    known += value.has_value();
    if (!value) continue;
    int wrong = 0;
    for_each_point(sets, [&](int64_t i, int64_t j, const isl::point& point) {
      wrong += tc::poly::to_integer(value->eval(point)) != pair.at(i, j);
    });
    if (wrong > 0) std::cerr << "seed " << seed << ": " << pair.e << "\n";
    CHECK_EQ(wrong, 0);
  }
  CHECK(known > 250);
}

void test_conditions() {
  int known = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const Pair pair = Random(seed).truth(static_cast<int>(seed % 4));
    tc::poly::Context context;
    const tc::poly::IndexSets sets(context.get(), ranges());
    const std::optional<isl::set> where = sets.where(pair.e);
    known += where.has_value();
    if (!where) continue;
    CHECK(where->is_subset(sets.points()));
    int wrong = 0;
    for_each_point(sets, [&](int64_t i, int64_t j, const isl::point& point) {
      wrong += point.to_set().is_subset(*where) != (pair.at(i, j) != 0);
    });
    if (wrong > 0) std::cerr << "seed " << seed << ": " << pair.e << "\n";
    CHECK_EQ(wrong, 0);
  }
  CHECK(known > 250);
}

void test_what_they_do_not_know() {
  tc::poly::Context context;
  const tc::poly::IndexSets sets(context.get(), ranges());
  const Expr i = make_variable("i"), j = make_variable("j");
  const Halide::Type bits = Halide::UInt(32);
  CHECK(!sets.value(i * j));
  CHECK(!sets.value(Halide::Internal::Div::make(j, i)));
  CHECK(!sets.value(make_variable("n")));
  Expr few = 0, many = 0;
  for (int k = 2; k < 16; ++k) (k < 7 ? few : many) += (i * k + j) % (k + 1);
  CHECK(sets.value(few).has_value() && !sets.value(many));
  // -7 as an unsigned number is no -7.
  CHECK(!sets.where(Halide::cast(bits, i) < Halide::cast(bits, j)));
  CHECK(!sets.value(Halide::cast(Halide::Int(64), Halide::cast(bits, i))));
  CHECK(!sets.value(Halide::cast(Halide::Int(8), i * 100)));
  CHECK(sets.value(Halide::cast(Halide::Int(64), Halide::cast(bits, j))).has_value());
  CHECK(sets.value(Halide::cast(Halide::Int(8), i)).has_value());
}

void test_all_integers() {
  tc::poly::Context context;
  const tc::poly::IndexSets sets(context.get(), ranges(), false);
  const Expr i = make_variable("i"), j = make_variable("j");
  CHECK(sets.where(i - j > 1000000)->is_empty() == false);
  CHECK(!sets.value(Halide::cast(Halide::Int(8), i)));
}

}  // namespace

int main() {
  test_numbers();
  test_conditions();
  test_what_they_do_not_know();
  test_all_integers();
  return check::finish();
}

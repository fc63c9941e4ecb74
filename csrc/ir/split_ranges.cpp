#include "ir/split_ranges.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"
#include "ir/accesses.h"
#include "ir/loops.h"
#include "ir/reads.h"
#include "ir/simplify.h"

namespace tc::ir {
namespace {

using namespace Halide::Internal;

// Iterations from which on gathers of a row cost more than loops of their own for its ends
// (measured: images of 7 x 7, padded by 3, take half as long).
constexpr int64_t kRow = 8;
// Choices, no measurements: pieces of a row, and those of a subscript on the way to them.
constexpr size_t kSegments = 4, kPieces = 16;

/// factor * index + offset for first <= index < end. Conditions are 0 or 1.
struct Piece {
  int64_t first, end, factor, offset;
  int64_t at(int64_t index) const { return factor * index + offset; }
};
using Pieces = std::vector<Piece>;

int64_t divide_down(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/// An expression of one index, taken apart.
class Piecewise {
 public:
  Piecewise(const std::string& index, int64_t extent) : index_(index), extent_(extent) {}

  /// Nothing where it is not made of affine pieces, or of too many.
  std::optional<Pieces> find(const Expr& e) const {
    std::optional<Pieces> found = pieces_of(e);
    if (!found) return std::nullopt;
    Pieces joined;
    for (const Piece& piece : *found) {
      // Integers of 32 bits wrap around on the way, and do not in the end.
      for (int64_t index : {piece.first, piece.end - 1})
        if (std::abs(piece.at(index)) > std::numeric_limits<int32_t>::max()) return std::nullopt;
      if (joined.empty() || !join(joined.back(), piece)) joined.push_back(piece);
    }
    return joined;
  }

 private:
  /// Makes one piece of two neighbours, if it says what both say.
  static bool join(Piece& before, const Piece& piece) {
    const auto holds = [](const Piece& a, const Piece& b) {
      return a.at(b.first) == b.at(b.first) && a.at(b.end - 1) == b.at(b.end - 1);
    };
    if (!holds(before, piece)) {
      if (!holds(piece, before)) return false;
      before.factor = piece.factor;
      before.offset = piece.offset;
    }
    before.end = piece.end;
    return true;
  }

  using Combine = std::function<void(const Piece&, const Piece&, Pieces&)>;

  static bool is_integer(const Halide::Type& type) {
    return type == Halide::Int(32) || type == Halide::UInt(32);
  }

  std::optional<Pieces> pieces_of(const Expr& e) const {
    if (auto value = as_const_int(e)) return Pieces{{0, extent_, 0, *value}};
    if (auto value = as_const_uint(e)) return Pieces{{0, extent_, 0, static_cast<int64_t>(*value)}};
    if (const auto* op = e.as<Variable>()) {
      if (op->name != index_) return std::nullopt;
      return Pieces{{0, extent_, 1, 0}};
    }
    if (const auto* op = e.as<Cast>()) {
      if (!is_integer(op->type) || !is_integer(op->value.type())) return std::nullopt;
      return pieces_of(op->value);
    }
    if (const auto* op = e.as<Add>()) return sum(op->a, op->b, 1);
    if (const auto* op = e.as<Sub>()) return sum(op->a, op->b, -1);
    if (const auto* op = e.as<Mul>())
      return is_const(op->a) ? product(op->b, op->a) : product(op->a, op->b);
    if (const auto* op = e.as<Not>())
      return combine(op->a, op->a, [](const Piece& a, const Piece&, Pieces& out) {
        out.push_back({a.first, a.end, 0, 1 - a.offset});
      });
    if (const auto* op = e.as<And>())
      return both(op->a, op->b, [](bool a, bool b) { return a && b; });
    if (const auto* op = e.as<Or>())
      return both(op->a, op->b, [](bool a, bool b) { return a || b; });
    if (const auto* op = e.as<Select>())
      return choose(op->condition, op->true_value, op->false_value);
    if (const auto* op = e.as<Call>(); op && op->is_intrinsic(Call::if_then_else))
      return op->args.size() == 3 ? choose(op->args[0], op->args[1], op->args[2]) : std::nullopt;
    return signed_pieces_of(e);
  }

  /// What wrapping around would change.
  std::optional<Pieces> signed_pieces_of(const Expr& e) const {
    auto compare = [&](const auto* op, auto holds) -> std::optional<Pieces> {
      if (op->a.type() != Halide::Int(32)) return std::nullopt;
      return combine(op->a, op->b, [&](const Piece& a, const Piece& b, Pieces& out) {
        split(
            a, b, out, [&](int64_t x, int64_t y) { return holds(x, y); },
            [](const Piece& piece, bool truth) {
              return Piece{piece.first, piece.end, 0, truth ? 1 : 0};
            });
      });
    };
    if (const auto* op = e.as<LT>()) return compare(op, std::less<int64_t>());
    if (const auto* op = e.as<LE>()) return compare(op, std::less_equal<int64_t>());
    if (const auto* op = e.as<GT>()) return compare(op, std::greater<int64_t>());
    if (const auto* op = e.as<GE>()) return compare(op, std::greater_equal<int64_t>());
    if (const auto* op = e.as<NE>())
      return pieces_of(Or::make(LT::make(op->a, op->b), LT::make(op->b, op->a)));
    if (const auto* op = e.as<EQ>())
      return pieces_of(And::make(LE::make(op->a, op->b), LE::make(op->b, op->a)));
    if (e.type() != Halide::Int(32)) return std::nullopt;
    if (const auto* op = e.as<Min>()) return extreme(op->a, op->b, std::less_equal<int64_t>());
    if (const auto* op = e.as<Max>()) return extreme(op->a, op->b, std::greater_equal<int64_t>());
    if (const auto* op = e.as<Div>()) return quotient(op->a, op->b, false);
    if (const auto* op = e.as<Mod>()) return quotient(op->a, op->b, true);
    return std::nullopt;
  }

  std::optional<Pieces> combine(const Expr& a, const Expr& b, const Combine& make) const {
    std::optional<Pieces> x = pieces_of(a), y = pieces_of(b);
    if (!x || !y) return std::nullopt;
    Pieces result;
    for (size_t i = 0, j = 0; i < x->size() && j < y->size();) {
      Piece p = (*x)[i], q = (*y)[j];
      const int64_t end = std::min(p.end, q.end);
      p.first = q.first = std::max(p.first, q.first);
      p.end = q.end = end;
      make(p, q, result);
      i += (*x)[i].end == end;
      j += (*y)[j].end == end;
    }
    if (result.size() > kPieces) return std::nullopt;
    return result;
  }

  std::optional<Pieces> sum(const Expr& a, const Expr& b, int64_t sign) const {
    return combine(a, b, [&](const Piece& x, const Piece& y, Pieces& out) {
      out.push_back({x.first, x.end, x.factor + sign * y.factor, x.offset + sign * y.offset});
    });
  }

  std::optional<Pieces> product(const Expr& e, const Expr& factor) const {
    auto by = as_const_int(factor);
    if (!by || std::abs(*by) > std::numeric_limits<int32_t>::max()) return std::nullopt;
    return combine(e, e, [&](const Piece& x, const Piece&, Pieces& out) {
      out.push_back({x.first, x.end, x.factor * *by, x.offset * *by});
    });
  }

  std::optional<Pieces> both(const Expr& a, const Expr& b, bool (*holds)(bool, bool)) const {
    return combine(a, b, [&](const Piece& x, const Piece& y, Pieces& out) {
      out.push_back({x.first, x.end, 0, holds(x.offset != 0, y.offset != 0) ? 1 : 0});
    });
  }

  std::optional<Pieces> choose(const Expr& condition, const Expr& yes, const Expr& no) const {
    std::optional<Pieces> truths = pieces_of(condition), a = pieces_of(yes), b = pieces_of(no);
    if (!truths || !a || !b) return std::nullopt;
    Pieces result;
    for (const Piece& truth : *truths)
      for (const Piece& piece : truth.offset != 0 ? *a : *b) {
        const int64_t first = std::max(piece.first, truth.first);
        const int64_t end = std::min(piece.end, truth.end);
        if (first < end) result.push_back({first, end, piece.factor, piece.offset});
      }
    if (result.size() > kPieces) return std::nullopt;
    return result;
  }

  /// Cuts two pieces of one range where an ordering of their values changes, once at most.
  template <class Holds, class Make>
  static void split(const Piece& a, const Piece& b, Pieces& out, Holds holds, Make make) {
    const bool before = holds(a.at(a.first), b.at(a.first));
    int64_t low = a.first, high = a.end;  // the last with `before`, the first without
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      (holds(a.at(middle), b.at(middle)) == before ? low : high) = middle;
    }
    Piece part = a;
    part.end = high;
    out.push_back(make(part, before));
    if (high == a.end) return;
    part.first = high;
    part.end = a.end;
    out.push_back(make(part, !before));
  }

  template <class Holds>
  std::optional<Pieces> extreme(const Expr& a, const Expr& b, Holds holds) const {
    return combine(a, b, [&](const Piece& x, const Piece& y, Pieces& out) {
      split(x, y, out, holds, [&](const Piece& part, bool first) {
        const Piece& taken = first ? x : y;
        return Piece{part.first, part.end, taken.factor, taken.offset};
      });
    });
  }

  /// By a positive number, which rounds down.
  std::optional<Pieces> quotient(const Expr& a, const Expr& b, bool remainder) const {
    std::optional<Pieces> x = pieces_of(a);
    auto divisor = as_const_int(b);
    if (!x || !divisor || *divisor <= 0) return std::nullopt;
    Pieces result;
    for (const Piece& piece : *x)
      for (int64_t first = piece.first; first < piece.end;) {
        const int64_t q = divide_down(piece.at(first), *divisor);
        int64_t end = piece.end;
        if (piece.factor > 0)
          end = std::min(end, divide_down((q + 1) * *divisor - 1 - piece.offset, piece.factor) + 1);
        if (piece.factor < 0)
          end = std::min(end, divide_down(piece.offset - q * *divisor, -piece.factor) + 1);
        if (result.size() == kPieces) return std::nullopt;
        result.push_back(remainder ? Piece{first, end, piece.factor, piece.offset - q * *divisor}
                                   : Piece{first, end, 0, q});
        first = end;
      }
    return result;
  }

  const std::string& index_;
  const int64_t extent_;
};

/// Gives reads the subscripts that they have on a piece.
class Straighten : public IRMutator {
 public:
  Straighten(const std::vector<std::pair<Expr, Pieces>>& subscripts, const std::string& index,
             int64_t first)
      : subscripts_(subscripts), index_(index), first_(first) {}

 private:
  using IRMutator::visit;
  Expr visit(const Call* op) override {
    if (read_name(op).empty()) return IRMutator::visit(op);
    std::vector<Expr> args;
    for (const Expr& arg : op->args) {
      auto found = std::find_if(subscripts_.begin(), subscripts_.end(),
                                [&](const auto& each) { return equal(each.first, arg); });
      args.push_back(found == subscripts_.end() ? mutate(arg) : straight(found->second));
    }
    return Call::make(op->type, op->name, args, op->call_type, op->func, op->value_index, op->image,
                      op->param);
  }

  Expr straight(const Pieces& pieces) const {
    for (const Piece& piece : pieces)
      if (piece.first <= first_ && first_ < piece.end)
        return simplify(make_variable(index_) * static_cast<int>(piece.factor) +
                        static_cast<int>(piece.offset));
    TC_INTERNAL_CHECK(false, "no piece of ", index_, " holds ", first_);
    return Expr();
  }

  const std::vector<std::pair<Expr, Pieces>>& subscripts_;
  const std::string& index_;
  const int64_t first_;
};

/// How to take a statement apart.
struct Cut {
  size_t iterator = 0;
  std::vector<std::pair<Expr, Pieces>> subscripts;  ///< that are affine on pieces only
  std::vector<int64_t> ends;                        ///< of the segments
};

class SplitRanges {
 public:
  SplitRanges(Program& program, const std::map<std::string, Layout>& layouts)
      : program_(program), layouts_(layouts) {}

  void run() {
    std::vector<Statement> statements;
    for (const Statement& statement : program_.statements) {
      if (std::optional<Cut> cut = find(statement))
        split(statement, *cut, statements);
      else
        statements.push_back(statement);
    }
    program_.statements = std::move(statements);
    number_statements(program_);
  }

 private:
  std::optional<Cut> find(const Statement& statement) const {
    if (statement.reduction != Reduction::None || statement.guard.defined() || statement.scans ||
        reads(statement, statement.tensor))
      return std::nullopt;
    const std::vector<MemoryAccess> accesses = ir::accesses(program_, statement);
    const MemoryAccess& write = accesses.back();
    Cut cut;
    while (cut.iterator < statement.domain.size() &&
           stride_along(write, layouts_.at(write.tensor), statement.domain[cut.iterator].name) != 1)
      ++cut.iterator;
    if (cut.iterator == statement.domain.size()) return std::nullopt;
    const Iterator& it = statement.domain[cut.iterator];
    if (extent_of(it) < kRow) return std::nullopt;
    std::set<int64_t> ends = {extent_of(it)};
    for (size_t a = 0; a + 1 < accesses.size(); ++a)
      if (!add_subscripts(statement, accesses[a], it, cut, ends)) return std::nullopt;
    if (cut.subscripts.empty() || ends.size() > kSegments) return std::nullopt;
    cut.ends.assign(ends.begin(), ends.end());
    return reads_neighbours(accesses, it, cut) ? std::optional<Cut>(cut) : std::nullopt;
  }

  /// The subscripts of a read that are not affine in the index; false where they are not made of
  /// affine pieces of it alone.
  static bool add_subscripts(const Statement& statement, const MemoryAccess& read,
                             const Iterator& it, Cut& cut, std::set<int64_t>& ends) {
    for (const Expr& subscript : read.subscripts) {
      if (!expr_uses_var(subscript, it.name) || ir::step_along(subscript, it.name)) continue;
      if (std::any_of(statement.domain.begin(), statement.domain.end(), [&](const Iterator& other) {
            return other.name != it.name && expr_uses_var(subscript, other.name);
          }))
        return false;
      std::optional<Pieces> pieces = Piecewise(it.name, extent_of(it)).find(subscript);
      if (!pieces) return false;
      for (const Piece& piece : *pieces) ends.insert(piece.end);
      cut.subscripts.emplace_back(subscript, *pieces);
    }
    return true;
  }

  /// Whether what was no neighbour is one on the longest segment.
  bool reads_neighbours(const std::vector<MemoryAccess>& accesses, const Iterator& it,
                        const Cut& cut) const {
    int64_t first = 0, longest = 0, begin = 0;
    for (int64_t end : cut.ends) {
      if (end - begin > longest) first = begin, longest = end - begin;
      begin = end;
    }
    return std::any_of(accesses.begin(), accesses.end() - 1, [&](const MemoryAccess& read) {
      MemoryAccess straight = read;
      Straighten straighten(cut.subscripts, it.name, first);
      const Expr value = straighten.mutate(ir::read(program_.tensor(read.tensor), read.subscripts));
      straight.subscripts = value.as<Call>()->args;
      auto before = stride_along(read, layouts_.at(read.tensor), it.name);
      auto after = stride_along(straight, layouts_.at(read.tensor), it.name);
      return !before && after && std::abs(*after) <= 1;
    });
  }

  static void split(const Statement& statement, const Cut& cut,
                    std::vector<Statement>& statements) {
    const std::string& index = statement.domain[cut.iterator].name;
    int64_t first = 0;
    for (int64_t end : cut.ends) {
      Statement part = statement;
      part.domain[cut.iterator].extent = static_cast<int>(end - first);
      const Expr shifted = make_variable(index) + static_cast<int>(first);
      part.value = Straighten(cut.subscripts, index, first).mutate(part.value);
      part.value = simplify_integers(substitute(index, shifted, part.value), {});
      for (Expr& subscript : part.subscripts)
        subscript = simplify(substitute(index, shifted, subscript));
      statements.push_back(std::move(part));
      first = end;
    }
  }

  Program& program_;
  const std::map<std::string, Layout>& layouts_;
};

}  // namespace

void split_ranges(Program& program, const std::map<std::string, Layout>& layouts) {
  SplitRanges(program, layouts).run();
}

}  // namespace tc::ir

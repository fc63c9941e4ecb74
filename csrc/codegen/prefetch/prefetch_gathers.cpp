#include "codegen/prefetch/prefetch_gathers.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/memory.h"
#include "base/numbers.h"
#include "ir/loops.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::ForType;
using ir::Stmt;

// Rows that are prefetched ahead of their use, and the most requests, into the second cache: it
// waits for more lines at once than the first one (measured with a Zen 4: 6400 rows of 256 bytes
// from a table of 256 MB in 205 us as the first cache alone gets them, in 71 with all lines of a
// row prefetched 24 to 48 ahead; in 57 and 61 with 32 and 48 ahead where the same rows are read
// again). Of lines that the processor brings together (host_target) the first is prefetched.
constexpr int64_t kAhead = 32, kAheadRequests = 128;
// Short rows are prefetched again shortly before their use, into the first cache, which then has
// not to wait long (measured with the same core, in a loop in C++: rows of 64, 128 and 256 bytes
// that are read again and again in 0.93 to 0.95, 0.95 and 0.91 of the time, new ones in 0.95 to 1;
// longer new ones take 1.1 times as long, and with requests 4 to 8 rows ahead little differs).
constexpr int64_t kShortlyAhead = 8, kShortBytes = 256;
// More rows than that in one iteration keep the memory busy by themselves.
constexpr size_t kMostRows = 48;
// Elements so near to each other mostly lie in one line, or in two with one prefetched in each.
// Vectors so near to each other lie in one row, of which all lines are prefetched.
constexpr int64_t kNearBytes = 32, kRowBytes = 512;

/// Whether an index reads data at a place that depends on the loop; of which buffers, and whether
/// always.
class FindData : public IRVisitor {
 public:
  explicit FindData(const std::string& loop) : loop_(loop) {}
  bool found = false, always = true;
  std::set<std::string> buffers;

 private:
  using IRVisitor::visit;
  void visit(const Load* op) override {
    found = found || expr_uses_var(op->index, loop_);
    always = always && is_const_one(op->predicate);
    buffers.insert(op->name);
    IRVisitor::visit(op);
  }
  const std::string& loop_;
};

/// The buffers whose reads are prefetched, and the lines that come with one request.
struct Sought {
  const std::set<std::string>& buffers;
  int lines_of_a_request;
};

/// Neighbours in a buffer.
struct Row {
  const Load* load;
  Expr index;                  ///< of an element
  int64_t first = 0, end = 1;  ///< elements from there on

  int64_t bytes() const { return (end - first) * load->type.element_of().bytes(); }
  int64_t lines() const { return divide_up(bytes(), kLineBytes); }
  int64_t requests(int lines_of_a_request) const { return divide_up(lines(), lines_of_a_request); }
};

/// What every iteration reads of the buffers at such places, each row once. Reads under a condition
/// are left out: the data that says where may lie outside of its buffer in other iterations.
class FindRows : public IRVisitor {
 public:
  FindRows(const std::string& loop, const std::set<std::string>& buffers)
      : loop_(loop), buffers_(buffers) {}
  std::vector<Row> rows;
  bool innermost = true;

 private:
  using IRVisitor::visit;
  void visit(const For*) override { innermost = false; }
  void visit(const LetStmt* op) override {
    ++lets_;
    IRVisitor::visit(op);
    --lets_;
  }
  void visit(const Let* op) override {
    ++lets_;
    IRVisitor::visit(op);
    --lets_;
  }
  void visit(const IfThenElse* op) override {
    ++conditions_;
    IRVisitor::visit(op);
    --conditions_;
  }
  void visit(const Select*) override {}
  void visit(const Call* op) override {
    if (!op->is_intrinsic(Call::if_then_else)) IRVisitor::visit(op);
  }
  void visit(const Allocate* op) override {
    inside_.insert(op->name);
    IRVisitor::visit(op);
  }
  void visit(const Load* op) override {
    if (!is_const_one(op->predicate)) return;
    IRVisitor::visit(op);
    const auto* ramp = op->index.as<Ramp>();
    Expr index = ramp ? ramp->base : op->index;
    // Names that are bound in the loop mean something else in another iteration.
    if (lets_ > 0 || conditions_ > 0 || !index.type().is_scalar() || !buffers_.count(op->name))
      return;
    FindData data(loop_);
    index.accept(&data);
    if (!data.found || !data.always) return;
    for (const std::string& name : data.buffers)
      if (inside_.count(name)) return;
    const int64_t lanes = op->type.lanes();
    const int64_t near = (lanes > 1 ? kRowBytes : kNearBytes) / op->type.bytes();
    for (Row& row : rows) {
      if (row.load->name != op->name) continue;
      auto distance = as_const_int(simplify(index - row.index));
      if (!distance || std::max(*distance + lanes, row.end) - std::min(*distance, row.first) > near)
        continue;
      row.first = std::min(row.first, *distance);
      row.end = std::max(row.end, *distance + lanes);
      return;
    }
    rows.push_back({op, index, 0, lanes});
  }
  const std::string& loop_;
  const std::set<std::string>& buffers_;
  std::set<std::string> inside_;  ///< buffers that the loop body makes
  int lets_ = 0, conditions_ = 0;
};

/// A loop whose rows are prefetched ahead of their use.
struct Gathers {
  const For* loop = nullptr;
  std::vector<Row> rows;
  int lines_of_a_request = 1;
  int ahead = 0;    ///< iterations
  int shortly = 0;  ///< the same of requests into the first cache; 0: there are none

  /// Asks for what an iteration reads.
  Stmt ask(const Expr& iteration, int cache) const {
    std::vector<Stmt> stmts;
    for (const Row& row : rows) {
      const ir::Type type = row.load->type.element_of();
      // Of one address, other lines are displacements of an instruction.
      Expr first = Halide::cast(Halide::Int(64), substitute(loop->name, iteration, row.index));
      const int64_t elements = lines_of_a_request * kLineBytes / type.bytes();
      for (int64_t k = 0; k < row.requests(lines_of_a_request); ++k) {
        Expr place = first + make_const(Halide::Int(64), row.first + k * elements);
        stmts.push_back(ir::make_prefetch(type, row.load->name, place, cache));
      }
    }
    return Block::make(stmts);
  }
};

/// Nothing where a loop has no such reads, or other loops inside.
std::optional<Gathers> find_gathers(const For* loop, const Sought& sought) {
  if (loop->for_type != ForType::Serial) return std::nullopt;
  FindRows find(loop->name, sought.buffers);
  loop->body.accept(&find);
  if (!find.innermost || find.rows.empty() || find.rows.size() > kMostRows) return std::nullopt;
  const auto rows = static_cast<int64_t>(find.rows.size());
  int64_t requests = 0;
  for (const Row& row : find.rows) requests += row.requests(sought.lines_of_a_request);
  const int64_t ahead = std::min(divide_up(kAhead, rows), divide_up(kAheadRequests, requests));
  const bool brief = sought.lines_of_a_request == 1 &&
                     std::all_of(find.rows.begin(), find.rows.end(),
                                 [](const Row& row) { return row.bytes() <= kShortBytes; });
  const int64_t shortly = brief ? divide_up(kShortlyAhead, rows) : 0;
  return Gathers{loop, std::move(find.rows), sought.lines_of_a_request, static_cast<int>(ahead),
                 static_cast<int>(shortly < ahead ? shortly : 0)};
}

/// A loop that runs next, if the guard holds.
struct Next {
  Gathers gathers;
  Expr guard = const_true();
  /// Where it is the first of the next iteration of a loop around it, whatever that is: so many
  /// follow.
  Expr repeats = Expr();
};

/// The first of a statement's loops whose reads can be prefetched in front of the statement, for
/// every branch that it may take.
std::vector<Next> find_first(const Stmt& stmt, const Sought& sought) {
  if (!stmt.defined()) return {};
  if (const auto* block = stmt.as<Block>()) {
    std::vector<Next> first = find_first(block->first, sought);
    return first.empty() ? find_first(block->rest, sought) : first;
  }
  if (const auto* branch = stmt.as<IfThenElse>()) {
    if (ir::has_load(branch->condition)) return {};
    std::vector<Next> then = find_first(branch->then_case, sought);
    std::vector<Next> otherwise = find_first(branch->else_case, sought);
    for (Next& next : then) next.guard = next.guard && branch->condition;
    for (Next& next : otherwise) next.guard = next.guard && !branch->condition;
    then.insert(then.end(), otherwise.begin(), otherwise.end());
    return then;
  }
  if (const auto* allocate = stmt.as<Allocate>()) {
    std::vector<Next> first = find_first(allocate->body, sought);
    // What a buffer that is not there yet says of places is not known.
    auto unknown = [&](const Next& next) {
      return std::any_of(next.gathers.rows.begin(), next.gathers.rows.end(), [&](const Row& r) {
        FindData data(next.gathers.loop->name);
        r.index.accept(&data);
        return r.load->name == allocate->name || data.buffers.count(allocate->name);
      });
    };
    first.erase(std::remove_if(first.begin(), first.end(), unknown), first.end());
    return first;
  }
  if (const auto* loop = stmt.as<For>()) {
    auto gathers = find_gathers(loop, sought);
    auto extent = as_const_int(loop->extent);
    if (gathers && extent && *extent > 0 && is_const(loop->min)) return {Next{*gathers}};
  }
  return {};
}

class PrefetchGathers : public IRMutator {
 public:
  explicit PrefetchGathers(const Sought& sought) : sought_(sought) {}

 private:
  using IRMutator::visit;
  Stmt visit(const For* op) override {
    if (auto gathers = find_gathers(op, sought_)) return prefetch(*gathers);
    // Behind the last statement of the body runs the first one, an iteration later.
    std::vector<Next> behind = std::move(next_);
    next_.clear();
    if (op->for_type == ForType::Serial) next_ = find_first(op->body, sought_);
    Expr now = ir::make_variable(op->name), later = now + 1;
    for (Next& next : next_) {
      if (is_const_one(next.guard)) next.repeats = op->min + op->extent - 1 - now;
      next.guard =
          simplify(now < op->min + op->extent - 1 && substitute(op->name, later, next.guard));
      for (Row& row : next.gathers.rows) row.index = substitute(op->name, later, row.index);
    }
    Stmt result = IRMutator::visit(op);
    next_ = std::move(behind);
    return result;
  }
  Stmt visit(const Block* op) override {
    std::vector<Stmt> stmts = {op->first};
    Stmt rest = op->rest;
    for (const Block* block; (block = rest.as<Block>()); rest = block->rest)
      stmts.push_back(block->first);
    stmts.push_back(rest);
    std::vector<Next> behind = next_;
    for (auto stmt = stmts.rbegin(); stmt != stmts.rend(); ++stmt) {
      std::vector<Next> first = find_first(*stmt, sought_);
      *stmt = mutate(*stmt);
      if (!first.empty()) next_ = first;
    }
    next_ = std::move(behind);
    return Block::make(stmts);
  }
  Stmt visit(const Store* op) override { return op; }
  Stmt visit(const Evaluate* op) override { return op; }
  Stmt visit(const LetStmt* op) override {
    // The name means something else elsewhere.
    std::vector<Next> behind = std::move(next_);
    next_.clear();
    Stmt result = IRMutator::visit(op);
    next_ = std::move(behind);
    return result;
  }

  /// Iterations prefetch what those some places behind them read, the last ones for what the next
  /// loop reads first: else the memory would have nothing to do at every change of loops.
  Stmt prefetch(const Gathers& gathers) const {
    std::vector<Stmt> prefetches = {prefetch_ahead(gathers, &Gathers::ahead, 2)};
    if (gathers.shortly > 0) prefetches.push_back(prefetch_ahead(gathers, &Gathers::shortly, 1));
    return ir::prepend(gathers.loop, prefetches);
  }

  /// Whether the loop itself runs next, and what says where it reads lies behind what says it now:
  /// no branch is needed then, which the processor would guess wrong at the end of every bag.
  bool goes_on(const Gathers& gathers) const {
    if (next_.size() != 1 || next_[0].gathers.loop != gathers.loop || !next_[0].repeats.defined())
      return false;
    const For* op = gathers.loop;
    const std::vector<Row>& behind = next_[0].gathers.rows;
    for (size_t r = 0; r < gathers.rows.size(); ++r) {
      Expr beyond =
          substitute(op->name, ir::make_variable(op->name) + op->extent, gathers.rows[r].index);
      if (!equal(simplify(beyond), simplify(behind[r].index))) return false;
    }
    return true;
  }

  Stmt prefetch_ahead(const Gathers& gathers, int Gathers::*ahead_of, int cache) const {
    const For* op = gathers.loop;
    const int ahead = gathers.*ahead_of;
    Expr now = ir::make_variable(op->name), end = op->min + op->extent, later = now + ahead;
    if (next_.empty()) return gathers.ask(min(later, end - 1), cache);
    if (goes_on(gathers))
      return gathers.ask(min(later, end - 1 + next_[0].repeats * op->extent), cache);
    Stmt beyond;
    for (auto next = next_.rbegin(); next != next_.rend(); ++next) {
      const Gathers& behind = next->gathers;
      if (behind.*ahead_of == 0) continue;
      Expr distance = min(std::min(ahead, behind.*ahead_of), op->extent);
      Expr iteration = clamp(now + distance - end, 0, behind.loop->extent - 1);
      beyond =
          IfThenElse::make(next->guard, behind.ask(behind.loop->min + iteration, cache), beyond);
    }
    return IfThenElse::make(later < end, gathers.ask(later, cache), beyond);
  }

  const Sought sought_;
  std::vector<Next> next_;  ///< what may run behind the visited statement
};

/// Branch hints for the choices that PrefetchGathers makes between a loop and what follows it.
class HintPrefetches : public IRMutator {
 private:
  using IRMutator::visit;
  Stmt visit(const IfThenElse* op) override {
    const bool chooses = ir::is_prefetch(op->then_case) && op->else_case.defined();
    if (!chooses || !op->condition.type().is_scalar()) return IRMutator::visit(op);
    return IfThenElse::make(ir::likely_branch(op->condition), op->then_case, mutate(op->else_case));
  }
};

}  // namespace

Stmt hint_prefetches(const Stmt& stmt) { return HintPrefetches().mutate(stmt); }

Stmt prefetch_gathers(const Stmt& stmt, const std::set<std::string>& buffers,
                      int lines_of_a_request) {
  return buffers.empty() ? stmt : PrefetchGathers({buffers, lines_of_a_request}).mutate(stmt);
}

}  // namespace tc::codegen

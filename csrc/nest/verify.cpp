#include "base/error.h"
#include "ir/visit.h"
#include "isa/instructions.h"
#include "nest/nest.h"

namespace tc::nest {
namespace {

using namespace Halide::Internal;

class Verify {
 public:
  Verify(const std::set<std::string>& buffers, const std::set<std::string>& names)
      : buffers_(buffers), bound_(names) {}

  void node(const Nest& nest) {
    for_each_own_expression(nest, [&](const Expr& e) { check_expression(e); });
    if (const auto* loop = as<Loop>(nest)) {
      if (loop->point) check_point(*loop);
      return bind(loop->name, loop->body);
    }
    if (const auto* binding = as<Binding>(nest)) return bind(binding->name, binding->body);
    if (const auto* guard = as<Guard>(nest))
      TC_INTERNAL_CHECK(guard->condition.type().is_bool(), "a guard's condition is no bool");
    if (const auto* intrinsic = as<Intrinsic>(nest)) check_intrinsic(*intrinsic);
    if (const auto* compute = as<Compute>(nest)) check_compute(*compute);
    if (const auto* prefetch = as<Prefetch>(nest))
      TC_INTERNAL_CHECK(prefetch->cache >= 1 && prefetch->cache <= 3, "there is no cache ",
                        prefetch->cache);
    const auto* buffer = as<Buffer>(nest);
    if (buffer) {
      TC_INTERNAL_CHECK(buffer->elements > 0, "the buffer ", buffer->name, " has ",
                        buffer->elements, " elements");
      TC_INTERNAL_CHECK(buffers_.insert(buffer->name).second, "the buffer ", buffer->name,
                        " hides another of its name");
    }
    const auto* tile = as<Tile>(nest);
    if (tile) {
      TC_INTERNAL_CHECK(!tile_, "a register tile lies in another one");
      tile_ = tile;
    }
    for_each_child(nest, [&](const Nest& child) { node(child); });
    if (buffer) buffers_.erase(buffer->name);
    if (tile) tile_ = nullptr;
  }

 private:
  void check_access(const std::string& buffer, const Expr& index) const {
    TC_INTERNAL_CHECK(buffers_.count(buffer), "the buffer ", buffer, " does not exist");
    const Type type = index.type();
    TC_INTERNAL_CHECK(type.is_int() && (type.bits() == 32 || type.bits() == 64), "the index of ",
                      buffer, " is no 32- or 64-bit integer");
  }

  /// Every variable and access against what exists around it.
  void check_expression(const Expr& e) const {
    std::set<std::string> inner;  // bound in it
    ir::visit(
        e,
        [&](const Variable* op, ir::Visitor&) {
          // Where a buffer lies.
          if (op->type.is_handle() && buffers_.count(op->name)) return;
          TC_INTERNAL_CHECK(bound_.count(op->name) || inner.count(op->name), "the variable ",
                            op->name, " is used outside its loop");
        },
        [&](const Let* op, ir::Visitor& self) {
          op->value.accept(&self);
          inner.insert(op->name);
          op->body.accept(&self);
          inner.erase(op->name);
        },
        [&](const Load* op, ir::Visitor& self) {
          check_access(op->name, op->index);
          self.inside(op);
        },
        [&](const Call* op, ir::Visitor& self) {
          TC_INTERNAL_CHECK(ir::read_name(op).empty(), "a read of ", ir::read_name(op),
                            " was not lowered");
          self.inside(op);
        });
  }

  void check_compute(const Compute& compute) const {
    check_access(compute.buffer, compute.index);
    TC_INTERNAL_CHECK(compute.value.type() == compute.type, "a ", compute.value.type().bits(),
                      "-bit value goes to ", compute.buffer, " of elements of ",
                      compute.type.bits(), " bits, or is of another kind");
    if (!compute.scan) return;
    const ir::Scan& scan = *compute.scan;
    TC_INTERNAL_CHECK(compute.reduction == ir::Reduction::None, "a scan of ", compute.buffer,
                      " reduces");
    const auto* neighbour = scan.neighbour.as<Load>();
    TC_INTERNAL_CHECK(neighbour && neighbour->name == compute.buffer, "a scan of ", compute.buffer,
                      " goes on from what is none of its elements");
    const bool is_extreme =
        scan.reduction == ir::Reduction::Min || scan.reduction == ir::Reduction::Max;
    TC_INTERNAL_CHECK(
        !scan.scale.defined() || is_extreme || (scan.reduction == ir::Reduction::Sum && !scan.adds),
        "a scan of ", compute.buffer, " scales what is before it in another way");
  }

  static void check_intrinsic(const Intrinsic& intrinsic) {
    const isa::Instruction* instruction = isa::find_instruction(intrinsic.instruction);
    TC_INTERNAL_CHECK(instruction, "there is no instruction ", intrinsic.instruction);
    int64_t terms = 1;
    Nest inner = intrinsic.body;
    for (; const auto* loop = as<Loop>(inner); inner = loop->body) {
      if (loop->role == Role::Vector) continue;
      const auto extent = as_const_int(loop->extent);
      TC_INTERNAL_CHECK(loop->role == Role::Unrolled && extent, "the loop ", loop->name,
                        " over terms of ", instruction->name, " is not unrolled");
      terms *= *extent;
    }
    TC_INTERNAL_CHECK(terms <= instruction->terms, instruction->name, " adds up ",
                      instruction->terms, " terms, not ", terms);
    const auto* compute = as<Compute>(inner);
    TC_INTERNAL_CHECK(compute && compute->reduction == ir::Reduction::Sum &&
                          isa::match_value(*instruction, compute->value),
                      "a part of the nest is not what ", instruction->name, " computes");
  }

  void check_point(const Loop& loop) const {
    TC_INTERNAL_CHECK(tile_ && *loop.point < tile_->dimensions.size(), "the loop ", loop.name,
                      " is over points of no register tile around it");
    TC_INTERNAL_CHECK(is_const_zero(loop.min), "the points of ", loop.name,
                      " begin at another "
                      "place than 0");
    TC_INTERNAL_CHECK(loop.role == Role::Unrolled || loop.role == Role::Vector, "the points of ",
                      loop.name, " are not unrolled");
  }

  void bind(const std::string& name, const Nest& body) {
    TC_INTERNAL_CHECK(bound_.insert(name).second, "the loop or name ", name,
                      " hides another of its name");
    node(body);
    bound_.erase(name);
  }

  std::set<std::string> buffers_, bound_;
  const Tile* tile_ = nullptr;
};

}  // namespace

void verify(const Nest& nest, const std::set<std::string>& buffers,
            const std::set<std::string>& names) {
  Verify(buffers, names).node(nest);
}

}  // namespace tc::nest

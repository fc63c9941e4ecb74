#include "explain.h"

#include <cmath>
#include <iomanip>
#include <set>
#include <sstream>

namespace tc {
namespace {

using namespace Halide::Internal;

/// Operations on floats, and the tensors that are read.
class Count : public IRVisitor {
 public:
  int operations = 0;
  std::set<std::string> tensors;

 private:
  using IRVisitor::visit;
  void visit(const Add* op) override { count(op); }
  void visit(const Sub* op) override { count(op); }
  void visit(const Mul* op) override { count(op); }
  void visit(const Div* op) override { count(op); }
  void visit(const Min* op) override { count(op); }
  void visit(const Max* op) override { count(op); }
  void visit(const Call* op) override {
    if (!ir::math_name(op).empty()) ++operations;
    if (!ir::read_name(op).empty()) tensors.insert(ir::read_name(op));
    IRVisitor::visit(op);
  }
  template <class Node>
  void count(const Node* op) {
    if (op->type.is_float()) ++operations;
    IRVisitor::visit(op);
  }
};

/// 2.68e+08 as "268 M".
std::string with_prefix(double value) {
  const char* prefixes[] = {"", " k", " M", " G", " T"};
  size_t k = 0;
  for (; value >= 1000 && k + 1 < std::size(prefixes); ++k) value /= 1000;
  std::ostringstream out;
  out << std::setprecision(3) << value << prefixes[k];
  return out.str();
}

}  // namespace

std::string explain(const ir::Program& program, const std::map<std::string, Layout>& layouts,
                    const std::vector<std::vector<std::string>>& groups) {
  std::ostringstream out;
  out << program.name << "\n";
  for (size_t g = 0; g < groups.size(); ++g) {
    out << "group " << g + 1 << "\n";
    for (const std::string& note : groups[g]) out << "  " << note << "\n";
  }
  double operations = 0, bytes = 0;
  std::map<std::string, int> moves;
  for (const ir::Statement& statement : program.statements) {
    Count count;
    statement.value.accept(&count);
    double instances = 1;
    for (const ir::Iterator& iterator : statement.domain)
      instances *= static_cast<double>(*as_const_int(iterator.extent));
    bool combines = statement.reduction != ir::Reduction::None && statement.value.type().is_float();
    operations += instances * (count.operations + (combines ? 1 : 0));
    for (const std::string& name : count.tensors)
      if (program.tensors.count(name)) moves[name];
  }
  for (const auto& [name, tensor] : program.tensors) {
    bool read = tensor.role == ir::TensorRole::Input && moves.count(name);
    bool written = tensor.role == ir::TensorRole::Output;
    bool both = tensor.role == ir::TensorRole::InOut;
    double elements = 1;
    for (int64_t size : layouts.at(name).sizes) elements *= static_cast<double>(size);
    bytes += elements * tensor.type.bytes() * (both ? 2 : read || written ? 1 : 0);
  }
  out << with_prefix(operations) << " floating-point operations, " << with_prefix(bytes)
      << " bytes of inputs and outputs";
  if (bytes > 0) out << ": " << std::setprecision(3) << operations / bytes << " operations a byte";
  out << "\n";
  return out.str();
}

}  // namespace tc

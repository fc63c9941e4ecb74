#include "lang/syntax/printer.h"

#include <map>

#include "base/text_stream.h"
#include "lang/sema/types.h"
#include "lang/syntax/parser.h"

namespace tc::lang {
namespace {

class Printer {
 public:
  explicit Printer(bool anonymous) : anonymous_(anonymous) {}

  std::string run(const Function& function) {
    out_ << "def " << (anonymous_ ? "f" : function.name.name) << "(";
    print_declarations(function.parameters);
    out_ << ") -> (";
    print_declarations(function.returns);
    out_ << ") {\n";
    for (const TreeStatement& statement : function.statements) print_statement(statement);
    out_ << "}\n";
    return out_.str();
  }

 private:
  // Sizes, tensors and what lives in one statement are numbered apart: a size and a tensor may
  // share a name, and an index means nothing outside its statement.
  std::string name_of(std::map<std::string, std::string>* names, const char* prefix,
                      const std::string& name) {
    if (!anonymous_) return name;
    auto [at, inserted] = names->emplace(name, "");
    if (inserted) at->second = prefix + std::to_string(names->size() - 1);
    return at->second;
  }
  std::string size(const std::string& name) { return name_of(&sizes_, "s", name); }
  std::string tensor(const std::string& name) { return name_of(&tensors_, "t", name); }
  std::string local(const std::string& name) { return name_of(&locals_, "i", name); }

  /// The elements with commas between them, behind `begin` if there are any.
  template <class Element, class Print>
  void print_list(const char* begin, const std::vector<Element>& elements, const Print& print) {
    const char* separator = begin;
    for (const Element& element : elements) {
      out_ << separator;
      print(element);
      separator = ", ";
    }
  }

  void print_declarations(const std::vector<Declaration>& declarations) {
    print_list("", declarations, [&](const Declaration& declaration) {
      if (declaration.typed) {
        out_ << type_name(declaration.type);
        print_list("(", declaration.dimensions, [&](const DimensionSize& dimension) {
          out_ << (dimension.name.empty() ? std::to_string(dimension.constant)
                                          : size(dimension.name));
        });
        out_ << (declaration.dimensions.empty() ? " " : ") ");
      }
      out_ << tensor(declaration.name);
    });
  }

  void print_statement(const TreeStatement& statement) {
    locals_.clear();
    out_ << "  ";
    if (statement.is_call) return print_call(statement);
    out_ << tensor(statement.target.name);
    const char* separator = "(";
    for (size_t d = 0; d < statement.indices.size(); ++d) {
      out_ << separator;
      separator = ", ";
      if (const Expression* place = statement.scattered(d)) {
        // A name alone would be that of an index.
        const bool is_name =
            place->kind == ExpressionKind::Name &&
            (place->binding == Binding::Index || place->binding == Binding::Tensor);
        if (is_name)
          print_arguments({statement.subscripts[d]});
        else
          print_expression(*place, 0);
      } else {
        out_ << local(statement.indices[d].name);
      }
    }
    if (!statement.indices.empty()) out_ << ")";
    out_ << " " << ir::spelling(statement.reduction) << (statement.initializes ? "! " : " ");
    print_expression(*statement.value, 0);
    print_list(" where ", statement.clauses, [&](const WhereClause& c) { print_clause(c); });
    out_ << "\n";
  }

  void print_call(const TreeStatement& statement) {
    print_list("(", statement.targets, [&](const Identifier& id) { out_ << tensor(id.name); });
    out_ << ") = " << statement.callee.name;
    print_arguments(statement.arguments);
    out_ << "\n";
  }

  void print_clause(const WhereClause& clause) {
    if (clause.kind == ClauseKind::Exists) {
      out_ << "exists ";
      if (starts_with_in(*clause.first)) return print_arguments({clause.first});
    } else {
      out_ << local(clause.name.name) << (clause.kind == ClauseKind::Let ? " = " : " in ");
    }
    print_expression(*clause.first, 0);
    if (clause.kind == ClauseKind::Range) {
      out_ << ":";
      print_expression(*clause.last, 0);
    }
  }

  /// `exists in` would be the range of an index called `exists`.
  static bool starts_with_in(const Expression& e) {
    bool call = e.op == Operator::Min || e.op == Operator::Max;
    bool infix = e.kind == ExpressionKind::Ternary || (e.kind == ExpressionKind::Binary && !call);
    return infix ? starts_with_in(*e.operands[0]) : e.name == "in";
  }

  std::string bound_name(const Expression& e) {
    switch (e.binding) {
      case Binding::Index:
      case Binding::Let: return local(e.name);
      case Binding::Size: return size(e.name);
      case Binding::Scalar:
      case Binding::Tensor: return tensor(e.name);
      case Binding::None:
      case Binding::Builtin:
      case Binding::Truth: break;
    }
    return e.name;
  }

  void print_arguments(const std::vector<ExpressionPtr>& arguments) {
    out_ << "(";
    print_list("", arguments, [&](const ExpressionPtr& e) { print_expression(*e, 0); });
    out_ << ")";
  }

  /// In parentheses when it binds less tightly than `level`.
  void print_expression(const Expression& e, int level) {
    switch (e.kind) {
      case ExpressionKind::Number: out_ << e.name; return;
      case ExpressionKind::Name: out_ << bound_name(e); return;
      case ExpressionKind::Dimension: out_ << bound_name(e) << "." << e.dimension; return;
      case ExpressionKind::Apply:
        out_ << bound_name(e);
        print_arguments(e.operands);
        return;
      case ExpressionKind::Cast:
        out_ << type_name(e.cast_type);
        print_arguments(e.operands);
        return;
      case ExpressionKind::Unary:
        out_ << spelling(e.op);
        print_expression(*e.operands[0], precedence(e.op));
        return;
      case ExpressionKind::Binary: return print_binary(e, level);
      case ExpressionKind::Ternary: break;
    }
    bool parentheses = level > 1;
    out_ << (parentheses ? "(" : "");
    print_expression(*e.operands[0], 2);
    out_ << " ? ";
    print_expression(*e.operands[1], 0);
    out_ << " : ";
    print_expression(*e.operands[2], 0);
    out_ << (parentheses ? ")" : "");
  }

  void print_binary(const Expression& e, int level) {
    if (e.op == Operator::Min || e.op == Operator::Max) {
      out_ << spelling(e.op);
      return print_arguments(e.operands);
    }
    bool parentheses = precedence(e.op) < level;
    out_ << (parentheses ? "(" : "");
    print_expression(*e.operands[0], precedence(e.op));
    out_ << " " << spelling(e.op) << " ";
    print_expression(*e.operands[1], precedence(e.op) + 1);
    out_ << (parentheses ? ")" : "");
  }

  bool anonymous_;
  TextStream out_;
  std::map<std::string, std::string> sizes_, tensors_, locals_;
};

}  // namespace

std::string print(const Function& function) { return Printer(false).run(function); }
std::string print_key(const Function& function) { return Printer(true).run(function); }

}  // namespace tc::lang

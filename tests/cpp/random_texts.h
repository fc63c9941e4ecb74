// Random texts for the tests of the frontend: some that only the grammar takes, some that are taken
// as a whole.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace tc_test {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  /// 0 to count - 1.
  size_t below(size_t count) { return static_cast<size_t>(engine_() % count); }
  bool one_in(size_t count) { return below(count) == 0; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }

 private:
  std::mt19937_64 engine_;
};

inline const std::vector<std::string>& type_names() {
  static const std::vector<std::string> names = {
      "bool", "uint8", "uint16",   "uint32", "uint64", "int8", "int16",   "int32",   "int64",
      "half", "float", "bfloat16", "double", "byte",   "int",  "float16", "float32", "float64"};
  return names;
}

/// Everything that docs/language.md derives from `text`, without regard to names and types.
class RandomSyntax {
 public:
  explicit RandomSyntax(Random* random) : random_(*random) {}

  std::string text() {
    out_.clear();
    for (size_t i = 0, count = 1 + random_.below(3); i < count; ++i) definition();
    return out_;
  }

 private:
  // Words and symbols are put after blanks, line breaks or comments, or none where none is needed.
  void put(const std::string& token) {
    bool touches = out_.empty() || std::string("(),{}").find(token[0]) != std::string::npos ||
                   std::string("(),{}\n").find(out_.back()) != std::string::npos;
    switch (random_.below(24)) {
      case 0: out_ += "\n"; break;
      case 1: out_ += " # " + token + " ü\n"; break;
      case 2: out_ += "\n\n  \t"; break;
      case 3: out_ += "\\\n"; break;
      default: out_ += touches && !random_.one_in(3) ? "" : " ";
    }
    out_ += token;
  }
  /// What stands right after a name: on a line of its own it could begin a statement.
  void open() { out_ += random_.one_in(4) ? " (" : "("; }

  std::string name() {
    static const std::vector<std::string> names = {"A",  "B",   "i",     "j",      "2LUT", "x_1",
                                                   "in", "min", "where", "exists", "def",  "max",
                                                   "_",  "exp", "float", "true",   "5e",   "fmaxf"};
    return random_.pick(names);
  }
  std::string integer() {
    static const std::vector<std::string> all = {"0", "1", "007", "0x1F", "9223372036854775807"};
    return random_.pick(all);
  }
  std::string number() {
    static const std::vector<std::string> all = {"2.", ".5f", "1e-5", "3.25e+2F", "1e300", "0.0"};
    return random_.one_in(2) ? integer() : random_.pick(all);
  }

  template <class Element>
  void list(size_t most, Element element) {
    for (size_t i = 0, count = random_.below(most + 1); i < count; ++i) {
      if (i > 0) put(",");
      element();
    }
    put(")");
  }

  void declaration() {
    put(random_.pick(type_names()));
    if (random_.one_in(4)) {
      put(name());
      return;
    }
    put("(");
    list(3, [&] { put(random_.one_in(4) ? integer() : name()); });
    put(name());
  }

  void annotation() {
    if (!random_.one_in(8)) return;
    put("<=>");
    put(name());
    put("(");
    list(2, [&] { expression(2); });
  }

  void definition() {
    put("def");
    put(name());
    put("(");
    list(3, [&] { declaration(); });
    put("->");
    put("(");
    put(name());
    for (size_t more = random_.below(3); more > 0; --more) {
      put(",");
      if (random_.one_in(2)) {
        declaration();
      } else {
        put(name());
      }
    }
    put(")");
    annotation();
    put("{");
    for (size_t i = 0, count = random_.below(5); i < count; ++i) {
      out_ += "\n";
      statement();
    }
    put("}");
  }

  void statement() {
    if (random_.one_in(6)) {
      out_ += "(" + name();
      for (size_t more = random_.below(3); more > 0; --more) {
        put(",");
        put(name());
      }
      put(")");
      put("=");
      put(name());
      put("(");
      list(3, [&] { expression(2); });
      annotation();
      return;
    }
    static const std::vector<std::string> operators = {
        "=", "+=", "*=", "min=", "max=", "+=!", "*=!", "min=!", "max=!"};
    out_ += name();
    if (!random_.one_in(4)) {
      open();
      list(3, [&] { put(name()); });
    }
    put(random_.pick(operators));
    expression(4);
    annotation();
    if (random_.one_in(3)) {
      put("where");
      clause();
      for (size_t more = random_.below(3); more > 0; --more) {
        put(",");
        clause();
      }
    }
    annotation();
  }

  void clause() {
    switch (random_.below(3)) {
      case 0:
        put(name());
        put("in");
        expression(2);
        put(":");
        return expression(2);
      case 1:
        put(name());
        put("=");
        return expression(2);
      default:
        put("exists");
        // A name `in` right after `exists` would make that the name of a range.
        put("(");
        expression(2);
        put(")");
    }
  }

  void expression(int depth) {
    static const std::vector<std::string> binary = {"||", "&&", "==", "!=", "<", "<=", ">",
                                                    ">=", "+",  "-",  "*",  "/", "%"};
    switch (depth <= 0 ? random_.below(3) : random_.below(10)) {
      case 0: return put(number());
      case 1: return put(name());
      case 2: return put(name() + "." + std::to_string(random_.below(4)));
      case 3:
        put(name_of_function());
        open();
        return list(3, [&] { expression(depth - 1); });
      case 4:
        put(random_.one_in(2) ? "min" : "max");
        open();
        expression(depth - 1);
        put(",");
        expression(depth - 1);
        return put(")");
      case 5:
        put(random_.pick(type_names()));
        open();
        expression(depth - 1);
        return put(")");
      case 6: put(random_.one_in(2) ? "-" : "!"); return primary(depth - 1);
      case 7:
        put("(");
        expression(depth - 1);
        return put(")");
      case 8:
        primary(depth - 1);
        put("?");
        expression(depth - 1);
        put(":");
        return expression(depth - 1);
      default:
        primary(depth - 1);
        put(random_.pick(binary));
        return primary(depth - 1);
    }
  }

  /// Mostly what needs no parentheses, to come to all precedences.
  void primary(int depth) {
    static const std::vector<std::string> chains = {" * ", " + ", " - ", " < ", " && ", " || "};
    if (random_.one_in(3)) {
      put(name());
      out_ += random_.pick(chains);
    }
    bool wraps = random_.one_in(2);
    if (wraps) put("(");
    expression(wraps ? depth : 0);
    if (wraps) put(")");
  }

  std::string name_of_function() {
    std::string result = name();
    for (const char* taken : {"min", "max", "float"}) {
      if (result == taken) return "A";
    }
    return result;
  }

  Random& random_;
  std::string out_;
};

/// A definition whose names, types and ranges are right: every index has a where range, and every
/// value is cast to the type of what it is stored in.
class RandomDefinition {
 public:
  explicit RandomDefinition(Random* random) : random_(*random) {}

  std::string text() {
    tensors_.clear();
    std::string parameters, statements, returns;
    for (size_t i = 0, count = 1 + random_.below(3); i < count; ++i) {
      Tensor tensor{"in" + std::to_string(i), random_.pick(type_names()), 1 + random_.below(3)};
      parameters += (i ? ", " : "") + tensor.type + "(" + sizes(tensor.rank) + ") " + tensor.name;
      tensors_.push_back(tensor);
    }
    bool scalar = random_.one_in(2);
    if (scalar) parameters += ", int32 scale";
    for (size_t i = 0, count = 1 + random_.below(4); i < count; ++i) {
      bool again = i > 0 && random_.one_in(4);
      Tensor target =
          again ? tensors_.back()
                : Tensor{"out" + std::to_string(i), random_.pick(type_names()), random_.below(3)};
      indices_ = {"i", "j", "k"};
      statements += "  " + statement(target, scalar, again) + "\n";
      if (again) continue;
      tensors_.push_back(target);
      returns += (returns.empty() ? "" : ", ") + target.name;
    }
    return "def random(" + parameters + ") -> (" + returns + ") {\n" + statements + "}\n";
  }

 private:
  struct Tensor {
    std::string name, type;
    size_t rank;
  };

  std::string sizes(size_t rank) {
    static const std::vector<std::string> names = {"M", "N", "K", "in0", "16"};
    std::string text;
    for (size_t d = 0; d < rank; ++d) text += (d ? ", " : "") + random_.pick(names);
    return text;
  }

  std::string subscripts(const Tensor& tensor) {
    if (tensor.rank == 0) return "";
    std::string text = "(";
    for (size_t d = 0; d < tensor.rank; ++d) {
      static const std::vector<std::string> forms = {"",     " + 1", " * 2", " - i",
                                                     " / 2", " % 3", " + j", " + in0.0"};
      text += (d ? ", " : "") + random_.pick(indices_) + random_.pick(forms);
    }
    return text + ")";
  }

  std::string statement(const Tensor& target, bool scalar, bool again) {
    static const std::vector<std::string> operators = {"+=!", "*=!", "min=!", "max=!"};
    std::string left = target.name, where;
    for (size_t d = 0; d < target.rank; ++d) left += (d ? ", " : "(") + indices_[d];
    if (target.rank > 0) left += ")";
    for (const std::string& index : indices_) {
      where +=
          (where.empty() ? "" : ", ") + index + " in " + bound(false) + ":" + bound(true) + " + 5";
    }
    std::string op = random_.pick(operators);
    if (again && random_.one_in(2)) op.pop_back();
    if (random_.one_in(4)) where += ", let = " + number(1, scalar);
    bool let = where.find("let") != std::string::npos;
    if (random_.one_in(6)) where += ", exists in0" + subscripts(tensors_[0]);
    return left + " " + op + " " + target.type + "(" + number(3, scalar) + (let ? " + let" : "") +
           ") where " + where;
  }

  std::string bound(bool last) {
    static const std::vector<std::string> bounds = {"0", "1", "2", "-1", "in0.0"};
    return bounds[random_.below(last ? 5 : 4)];
  }

  std::string number(int depth, bool scalar) {
    static const std::vector<std::string> literals = {"1", "2.5", "0x3", "1e-3", "7"};
    static const std::vector<std::string> arithmetic = {" + ", " - ", " * ", " / ", " % "};
    switch (depth <= 0 ? random_.below(4) : random_.below(9)) {
      case 0: return random_.pick(literals);
      case 1: return scalar ? "scale" : "in0.0";
      case 2: return random_.pick(indices_);
      case 3: {
        const Tensor& tensor = random_.pick(tensors_);
        return "float(" + tensor.name + subscripts(tensor) + ")";
      }
      case 4:
        return "(" + condition(depth - 1, scalar) + " ? " + number(depth - 1, scalar) + " : " +
               number(depth - 1, scalar) + ")";
      case 5:
        return (random_.one_in(2) ? "min(" : "max(") + number(depth - 1, scalar) + ", " +
               number(depth - 1, scalar) + ")";
      case 6: return (random_.one_in(2) ? "exp(" : "fabs(") + number(depth - 1, scalar) + ")";
      case 7: return "-(" + number(depth - 1, scalar) + ")";
      default:
        return "(float(" + number(depth - 1, scalar) + ")" + random_.pick(arithmetic) +
               number(depth - 1, scalar) + ")";
    }
  }

  std::string condition(int depth, bool scalar) {
    static const std::vector<std::string> comparisons = {" < ",  " <= ", " > ",
                                                         " >= ", " == ", " != "};
    switch (depth <= 0 ? 0 : random_.below(4)) {
      case 1: return "!(" + condition(depth - 1, scalar) + ")";
      case 2:
        return condition(depth - 1, scalar) + (random_.one_in(2) ? " && " : " || ") +
               condition(depth - 1, scalar);
      case 3: return "true == (" + condition(depth - 1, scalar) + ")";
      default:
        return number(depth - 1, scalar) + random_.pick(comparisons) + number(depth - 1, scalar);
    }
  }

  Random& random_;
  std::vector<Tensor> tensors_;
  std::vector<std::string> indices_;
};

}  // namespace tc_test

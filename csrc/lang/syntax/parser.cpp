#include "lang/syntax/parser.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <set>

#include "base/error.h"
#include "base/notes.h"
#include "base/suggest.h"
#include "base/text_stream.h"
#include "lang/sema/expansion.h"
#include "lang/sema/types.h"
#include "lang/syntax/instead.h"

namespace tc::lang {
namespace {

struct OperatorText {
  const char* text;
  Operator op;
  int precedence;
};
constexpr OperatorText kOperators[] = {
    {"||", Operator::Or, 2},       {"&&", Operator::And, 3},
    {"==", Operator::Equal, 4},    {"!=", Operator::NotEqual, 4},
    {"<", Operator::Less, 5},      {"<=", Operator::LessEqual, 5},
    {">", Operator::Greater, 5},   {">=", Operator::GreaterEqual, 5},
    {"+", Operator::Add, 6},       {"-", Operator::Subtract, 6},
    {"*", Operator::Multiply, 7},  {"/", Operator::Divide, 7},
    {"%", Operator::Remainder, 7}, {"-", Operator::Negate, 8},
    {"!", Operator::Not, 8},       {"min", Operator::Min, 9},
    {"max", Operator::Max, 9},
};
constexpr char kConditionInstead[] =
    "; a condition stands in the value: O(i) +=! j < i ? A(j) : 0 where i in 0:N";
/// Those with less stand between their operands.
constexpr int kUnaryPrecedence = 8;

const OperatorText& find_operator(Operator op) {
  return *std::find_if(std::begin(kOperators), std::end(kOperators),
                       [&](const OperatorText& candidate) { return candidate.op == op; });
}

constexpr ir::Reduction kReductions[] = {
    ir::Reduction::None, ir::Reduction::Sum,    ir::Reduction::Product,
    ir::Reduction::Min,  ir::Reduction::Max,    ir::Reduction::And,
    ir::Reduction::Or,   ir::Reduction::ArgMin, ir::Reduction::ArgMax,
};

class Parser {
 public:
  explicit Parser(const std::string& text)
      : tokens_(tokenize(std::make_shared<const std::string>(text))) {}

  std::vector<Function> run() {
    std::vector<Function> functions;
    while (current().kind != TokenKind::End) functions.push_back(parse_function());
    if (functions.empty()) {
      throw LanguageError(
          current().where,
          "the text holds no definition; one looks like def f(float(N) A) -> (B) { B(i) = A(i) }");
    }
    return functions;
  }

 private:
  const Token& current() const { return tokens_[at_]; }
  const Token& ahead(size_t count) const {
    return tokens_[std::min(at_ + count, tokens_.size() - 1)];
  }
  Token next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  SourceRange last_where() const { return tokens_[at_ ? at_ - 1 : 0].where; }
  bool next_if(const char* symbol) {
    if (!current().is(symbol)) return false;
    next();
    return true;
  }

  /// (float)A(i), which ends an expression where A(i) seems to begin a statement.
  void refuse_cast_of_c() const {
    for (size_t at : {statement_, at_}) {
      if (at < 3 || !tokens_[at - 3].is("(") || !tokens_[at - 1].is(")")) continue;
      const Token& type = tokens_[at - 2];
      if (type.kind != TokenKind::Identifier || !find_type(type.text)) continue;
      size_t end = at;  // of the operand
      if (tokens_[at].is("(")) {
        for (int depth = 0; tokens_[end].kind != TokenKind::End; ++end) {
          depth += tokens_[end].is("(") - tokens_[end].is(")");
          if (depth == 0) break;
        }
      } else if (at < at_) {
        end = at_ - 1;
      }
      std::string operand(tokens_[at].where.to(tokens_[end].where).str());
      const bool wrapped = tokens_[at].is("(") && tokens_[end].is(")");
      if (!wrapped) operand = "(" + (tokens_[end].text.empty() ? "x" : operand) + ")";
      throw LanguageError(tokens_[at - 3].where.to(tokens_[at - 1].where),
                          "a cast is written as a function; write ", type.text, operand);
    }
  }

  /// Symbols without blanks between them, from a token on.
  std::string symbols_at(size_t at) const {
    std::string joined;
    for (; at < tokens_.size() && tokens_[at].kind == TokenKind::Symbol; ++at) {
      if (!joined.empty() && tokens_[at - 1].where.end() != tokens_[at].where.begin()) break;
      joined += tokens_[at].text;
    }
    return joined;
  }

  [[noreturn]] void fail(const std::string& expected, const std::string& hint = "") const {
    refuse_cast_of_c();
    const Token& token = current();
    throw LanguageError(
        token.where, "expected ", expected, " but found ",
        token.kind == TokenKind::End ? "the end of the text" : "'" + token.text + "'", hint);
  }
  Token expect(const char* symbol, const char* place) {
    if (!current().is(symbol)) fail(concat("'", symbol, "' ", place));
    return next();
  }
  Identifier expect_identifier(const std::string& what) {
    if (current().kind != TokenKind::Identifier) fail(what);
    Token token = next();
    return {token.text, token.where};
  }

  /// ( element, element, ... ), possibly empty.
  void parse_list(const char* place, const std::function<void()>& element) {
    expect("(", place);
    if (next_if(")")) return;
    do {
      element();
    } while (next_if(","));
    expect(")", "or ',' in a list");
  }

  // ---- definitions

  Function parse_function() {
    if (!current().is_word("def")) fail("'def'");
    next();
    Function function;
    function.name = expect_identifier("the name of the definition");
    parse_list("before the parameters",
               [&] { function.parameters.push_back(parse_declaration(true)); });
    expect("->", "after the parameters");
    parse_list("before the returned tensors", [&] {
      // `o` alone, `float o` or `float(M, N) o`.
      bool typed =
          current().kind == TokenKind::Identifier && !ahead(1).is(",") && !ahead(1).is(")");
      function.returns.push_back(parse_declaration(typed));
    });
    if (function.returns.empty()) {
      throw LanguageError(function.name.where, function.name.name,
                          " returns nothing; name at least one tensor after '->'");
    }
    skip_annotation();
    expect("{", "before the statements");
    while (!current().is("}")) {
      if (current().kind == TokenKind::End) fail("a statement or '}'");
      function.statements.push_back(parse_statement());
      scatter_values(function, &function.statements.back());
      refuse_scatter(function.statements.back());
    }
    next();
    return function;
  }

  Type parse_type() {
    if (current().kind != TokenKind::Identifier) fail("a type");
    std::optional<Type> type = find_type(current().text);
    if (!type) {
      throw LanguageError(current().where, "'", current().text, "' is not a type",
                          did_you_mean(current().text, type_spellings()));
    }
    next();
    return *type;
  }

  DimensionSize parse_dimension() {
    DimensionSize size;
    size.where = current().where;
    if (current().kind == TokenKind::Integer) {
      size.constant = integer_value(next());
    } else {
      size.name = expect_identifier("a size: a name or an integer").name;
    }
    if (!current().is(",") && !current().is(")")) {
      throw LanguageError(current().where, "expected ',' or ')' but found '", current().text,
                          "': a declared size is a name or an integer; what follows from other "
                          "sizes is found by range inference or given by a where clause");
    }
    return size;
  }

  Declaration parse_declaration(bool typed) {
    Declaration declaration;
    SourceRange begin = current().where;
    declaration.typed = typed;
    if (typed) declaration.type = parse_type();
    if (typed && current().is("("))
      parse_list("before the sizes", [&] { declaration.dimensions.push_back(parse_dimension()); });
    Identifier name =
        expect_identifier(typed ? "the name of the parameter" : "the name of a returned tensor");
    declaration.name = name.name;
    declaration.name_where = name.where;
    declaration.where = begin.to(name.where);
    return declaration;
  }

  /// `<=> name(args)` says that something else computes the same; it is read and dropped.
  void skip_annotation() {
    if (!next_if("<=>")) return;
    expect_identifier("a name after '<=>'");
    parse_list("after the name", [&] { parse_expression(); });
  }

  // ---- statements

  /// Whether the tokens from here on read `(a, b) = ` at the start of a line, which begins a call
  /// of a definition and does not continue the expression before.
  bool at_call_statement() const {
    if (!current().is("(") || !current().first_on_line) return false;
    for (size_t i = 1;; i += 2) {
      if (ahead(i).kind != TokenKind::Identifier) return false;
      if (ahead(i + 1).is(")")) return ahead(i + 2).is("=");
      if (!ahead(i + 1).is(",")) return false;
    }
  }

  TreeStatement parse_statement() {
    TreeStatement statement;
    statement_ = at_;
    SourceRange begin = current().where;
    if (current().is("(")) {
      parse_list("",
                 [&] { statement.targets.push_back(expect_identifier("the name of a tensor")); });
      if (statement.targets.empty())
        throw LanguageError(begin, "a call assigns at least one tensor: (a, b) = f(x)");
      if (!current().is("=")) fail("'=' after a list of tensors");
      statement.operator_where = next().where;
      parse_call(&statement);
    } else {
      if (current().is(".") && ahead(1).kind == TokenKind::Identifier)
        fail("a statement", member_instead(ahead(1).text));
      statement.target = expect_identifier("a statement");
      bool parenthesised = current().is("(");
      if (parenthesised) parse_indices(&statement);
      parse_assignment(&statement);
      statement.value = parse_expression();
      // Whether `a = f(x)` calls a definition depends on what f is: sema turns it into a call.
      if (!parenthesised) statement.targets = {statement.target};
    }
    skip_annotation();
    if (!statement.is_call) parse_clauses(&statement);
    skip_annotation();
    statement.where = begin.to(last_where());
    return statement;
  }

  void parse_call(TreeStatement* statement) {
    statement->is_call = true;
    statement->target = statement->targets.front();
    statement->callee = expect_identifier("the name of a definition");
    parse_list("after the name of a definition",
               [&] { statement->arguments.push_back(parse_expression()); });
  }

  void parse_indices(TreeStatement* statement) {
    parse_list("", [&] {
      bool plain =
          current().kind == TokenKind::Identifier && (ahead(1).is(",") || ahead(1).is(")"));
      ExpressionPtr subscript = parse_expression();
      statement->indices.push_back({plain ? subscript->name : "", subscript->where});
      statement->subscripts.push_back(plain ? nullptr : subscript);
    });
  }

  /// Only a reduction says what happens where two points meet in one place; positions are counted
  /// along the indices that the left-hand side leaves out.
  static void refuse_scatter(const TreeStatement& statement) {
    const bool position = ir::is_position(statement.reduction);
    if (!(position || statement.reduction == ir::Reduction::None) || !statement.scatters()) return;
    std::string left = statement.target.name;
    SourceRange where;
    for (size_t d = 0; d < statement.indices.size(); ++d) {
      left += concat(d ? ", " : "(", statement.indices[d].where.str());
      if (statement.subscripts[d] && !where.valid()) where = statement.subscripts[d]->where;
    }
    const std::string found =
        concat("the left-hand side of '", position ? statement.operator_where.str() : "=",
               "' has plain indices, but found '", where.str(), "': ");
    if (position)
      throw LanguageError(where, found,
                          "a position counts along the indices that are not on the left, and those "
                          "of an expression are among them. Find the positions in a tensor with "
                          "plain indices and combine these in a statement of their own, as in ",
                          left, ") max=! ...");
    throw LanguageError(where, found,
                        "two points may meet in one place, and '=' does not say which of them "
                        "counts. Reduce them, as in ",
                        left,
                        ") +=! ..., or move the arithmetic to the right-hand side and give a plain "
                        "index its range in a where clause");
  }

  /// The name of a let or of a scalar stands for its value on the left too.
  void scatter_values(const Function& function, TreeStatement* statement) {
    if (statement->reduction == ir::Reduction::None) return;
    std::set<std::string> values;
    for (const WhereClause& clause : statement->clauses)
      if (clause.kind == ClauseKind::Let) values.insert(clause.name.name);
    for (const Declaration& parameter : function.parameters)
      if (parameter.dimensions.empty()) values.insert(parameter.name);
    for (size_t d = 0; d < statement->indices.size(); ++d) {
      Identifier& index = statement->indices[d];
      if (!values.count(index.name) || statement->scattered(d)) continue;
      statement->subscripts[d] = make(ExpressionKind::Name, index.where);
      statement->subscripts[d]->name = index.name;
      index.name.clear();
    }
  }

  void parse_assignment(TreeStatement* statement) {
    for (const ir::Reduction reduction : kReductions) {
      const std::string plain = ir::spelling(reduction);
      const bool afresh = current().is((plain + "!").c_str());
      if (!afresh && !current().is(plain.c_str())) continue;
      statement->reduction = reduction;
      // A position cannot be compared with what another tensor held: these always start afresh.
      statement->initializes = afresh || ir::is_position(reduction);
      statement->operator_where = next().where;
      return;
    }
    // The word may have ended the expression before, or begun a statement.
    for (const size_t at : {statement_ ? statement_ - 1 : 0, statement_}) {
      const Token& token = tokens_[at];
      const std::string words = token.kind == TokenKind::Identifier ? word_instead(token.text) : "";
      const bool alone = at != statement_ || statement->indices.empty();
      if (!words.empty() && alone) throw LanguageError(token.where, words);
    }
    const std::string& word = statement->target.name;
    if (word == "where" && statement->indices.empty())
      fail("a name, 'in' or '=' in a where clause", kConditionInstead);
    fail(
        "'=', '+=', '*=', 'min=', 'max=', '&&=', '||=', 'argmin=', 'argmax=' or one of them "
        "followed by '!'",
        current().kind != TokenKind::Identifier ? symbol_instead(symbols_at(at_))
        : find_type(word) && statement->indices.empty()
            ? "; types stand in the signature, and an assignment has none: s = A(0)"
        : ahead(1).is("=") ? reduction_instead(current().text)
                           : "");
  }

  void parse_clauses(TreeStatement* statement) {
    // `where` is only a keyword in front of a clause; a tensor may have that name.
    if (!current().is_word("where") || ahead(1).kind != TokenKind::Identifier) return;
    next();
    do {
      statement->clauses.push_back(parse_clause());
    } while (next_if(","));
  }

  WhereClause parse_clause() {
    WhereClause clause;
    bool let = ahead(1).is("="), range = ahead(1).is_word("in");
    if (current().is_word("exists") && !let && !range) {
      next();
      clause.kind = ClauseKind::Exists;
      clause.first = parse_expression();
    } else if (let || range) {
      clause.name = expect_identifier("a name");
      clause.kind = let ? ClauseKind::Let : ClauseKind::Range;
      next();
      clause.first = parse_expression();
      if (range) {
        if (!current().is(":")) fail("':' between the bounds of a range, as in i in 0:N");
        next();
        clause.last = parse_expression();
        if (current().is(":")) {
          throw LanguageError(current().where,
                              "a range has no step, only two bounds; take every second element "
                              "through a subscript such as A(2 * i)");
        }
      }
    } else {
      if (current().kind == TokenKind::Identifier) next();
      const std::optional<Operator> op = binary_operator(current());
      fail("'in' or '=' in a where clause (i in 0:N, x = a(i), exists a(i))",
           op && *op >= Operator::Less && *op <= Operator::Or ? kConditionInstead : "");
    }
    return clause;
  }

  // ---- expressions

  ExpressionPtr make(ExpressionKind kind, SourceRange where,
                     std::vector<ExpressionPtr> operands = {}) {
    auto node = std::make_shared<Expression>();
    node->kind = kind;
    for (const ExpressionPtr& operand : operands)
      node->depth = std::max(node->depth, operand->depth + 1);
    check_depth(node->depth, where);
    node->where = std::move(where);
    node->operands = std::move(operands);
    return node;
  }

  static void check_depth(int depth, const SourceRange& where) {
    if (depth > kMaximumDepth) {
      throw LanguageError(where, "this expression is nested more than ", kMaximumDepth,
                          " levels deep; split it over several statements");
    }
  }

  ExpressionPtr parse_expression() {
    check_depth(++nesting_, current().where);
    ExpressionPtr condition = parse_binary(2);
    if (next_if("?")) {
      ExpressionPtr yes = parse_expression();
      expect(":", "between the branches of '?'");
      ExpressionPtr no = parse_expression();
      SourceRange where = condition->where.to(no->where);
      condition = make(ExpressionKind::Ternary, where, {condition, yes, no});
    }
    --nesting_;
    return condition;
  }

  /// Binary operators that bind at least as tightly as `level`; all are left-associative.
  ExpressionPtr parse_binary(int level) {
    ExpressionPtr left = parse_unary();
    for (;;) {
      const std::optional<Operator> op = binary_operator(current());
      if (!op || precedence(*op) < level) return left;
      next();
      ExpressionPtr right = parse_binary(precedence(*op) + 1);
      SourceRange where = left->where.to(right->where);
      left = make(ExpressionKind::Binary, where, {left, right});
      left->op = *op;
    }
  }

  ExpressionPtr parse_unary() {
    bool minus = current().is("-"), negation = current().is("!");
    if (!minus && !negation) return parse_primary();
    SourceRange begin = next().where;
    check_depth(++nesting_, begin);
    ExpressionPtr operand = parse_unary();
    --nesting_;
    ExpressionPtr node = make(ExpressionKind::Unary, begin.to(operand->where), {operand});
    node->op = minus ? Operator::Negate : Operator::Not;
    return node;
  }

  ExpressionPtr parse_primary() {
    const Token& token = current();
    if (token.kind == TokenKind::Integer || token.kind == TokenKind::Float) return parse_number();
    if (token.is("(")) {
      SourceRange begin = next().where;
      ExpressionPtr inner = parse_expression();
      SourceRange end = expect(")", "after an expression in parentheses").where;
      inner->where = begin.to(end);
      return inner;
    }
    if (token.is("*") && at_ > 0 && tokens_[at_ - 1].is("*"))
      throw LanguageError(token.where, "there is no operator '**'; a power is pow(x, y)");
    if (token.is("/") && at_ > 0 && tokens_[at_ - 1].is("/")) {
      throw LanguageError(token.where,
                          "there is no operator '//'; x / y of integers rounds towards zero, and "
                          "floor(x / y) of floating-point numbers rounds down. A comment begins "
                          "with #");
    }
    if (token.kind != TokenKind::Identifier) {
      const bool all =
          token.is(":") && at_ > 0 && (tokens_[at_ - 1].is("(") || tokens_[at_ - 1].is(","));
      std::string hint = all ? "; all elements are those of an index: X(i, j)" : "";
      for (size_t at = at_ - std::min<size_t>(at_, 2); hint.empty() && at < at_; ++at)
        hint = symbol_instead(symbols_at(at));
      fail("an expression", hint);
    }
    Token name = next();
    if (current().is(".")) {
      next();
      if (current().kind != TokenKind::Integer)
        fail("the number of a dimension after '.'",
             current().kind == TokenKind::Identifier ? member_instead(current().text) : "");
      Token number = next();
      ExpressionPtr node = make(ExpressionKind::Dimension, name.where.to(number.where));
      node->name = name.text;
      node->dimension = static_cast<int>(std::min<int64_t>(integer_value(number), 1 << 20));
      return node;
    }
    if (current().is("(") && !at_call_statement()) return parse_apply(name);
    ExpressionPtr node = make(ExpressionKind::Name, name.where);
    node->name = name.text;
    return node;
  }

  ExpressionPtr parse_apply(const Token& name) {
    std::vector<ExpressionPtr> arguments;
    parse_list("", [&] { arguments.push_back(parse_expression()); });
    SourceRange where = name.where.to(last_where());
    std::optional<Type> type = find_type(name.text);
    bool is_min = name.text == "min", is_max = name.text == "max";
    size_t wanted = type ? 1 : is_min || is_max ? 2 : arguments.size();
    if (arguments.size() != wanted) {
      throw LanguageError(where, type ? "a cast to " : "", name.text, " takes ",
                          plural(wanted, "argument"), ", not ", arguments.size());
    }
    ExpressionKind kind = type               ? ExpressionKind::Cast
                          : is_min || is_max ? ExpressionKind::Binary
                                             : ExpressionKind::Apply;
    ExpressionPtr node = make(kind, where, arguments);
    node->name = name.text;
    if (type) node->cast_type = *type;
    if (is_min || is_max) node->op = is_min ? Operator::Min : Operator::Max;
    return node;
  }

  ExpressionPtr parse_number() {
    Token token = next();
    ExpressionPtr node = make(ExpressionKind::Number, token.where);
    node->name = token.text;
    Constant constant;
    constant.is_float = token.kind == TokenKind::Float;
    if (constant.is_float) {
      const InCLocale numbers;
      constant.real = std::strtod(token.text.c_str(), nullptr);
      if (std::isinf(constant.real))
        throw LanguageError(token.where, token.text,
                            " does not fit double; write infinity as 1.0 / 0.0");
    } else {
      constant.integer = integer_value(token);
    }
    node->constant = constant;
    return node;
  }

  static int64_t integer_value(const Token& token) {
    bool hexadecimal = token.text.size() > 1 && (token.text[1] == 'x' || token.text[1] == 'X');
    errno = 0;
    int64_t value = std::strtoll(token.text.c_str(), nullptr, hexadecimal ? 16 : 10);
    if (errno == ERANGE) {
      errno = 0;
      const uint64_t large = std::strtoull(token.text.c_str(), nullptr, hexadecimal ? 16 : 10);
      throw LanguageError(
          token.where, token.text, " does not fit 64 bits; write it as a floating-point number",
          errno == ERANGE ? ""
          : large == uint64_t{1} << 63
              ? ", or the least int64 as -9223372036854775807 - 1"
              : concat(", or a uint64 as uint64(", static_cast<int64_t>(large), ")"));
    }
    return value;
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  size_t statement_ = 0;  ///< where the last statement began
  int nesting_ = 0;
};

}  // namespace

std::vector<Function> parse_text(const std::string& text) { return Parser(text).run(); }

const char* spelling(Operator op) { return find_operator(op).text; }
int precedence(Operator op) { return find_operator(op).precedence; }

std::optional<Operator> binary_operator(const Token& token) {
  for (const OperatorText& candidate : kOperators)
    if (candidate.precedence < kUnaryPrecedence && token.is(candidate.text)) return candidate.op;
  return std::nullopt;
}

ExpressionPtr clone(const ExpressionPtr& expression) {
  if (!expression) return nullptr;
  auto copy = std::make_shared<Expression>(*expression);
  for (ExpressionPtr& operand : copy->operands) operand = clone(operand);
  copy->let = clone(copy->let);
  return copy;
}

}  // namespace tc::lang

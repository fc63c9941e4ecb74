#include "lang/gradient/gradient.h"

#include <algorithm>
#include <cctype>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/passes.h"
#include "lang/gradient/function_gradients.h"
#include "lang/gradient/joined_reads.h"
#include "lang/gradient/read_gradients.h"
#include "lang/gradient/recompute.h"
#include "lang/gradient/shared_weights.h"
#include "lang/gradient/sums/adjoint_sum.h"
#include "lang/gradient/sums/divided_exponentials.h"
#include "lang/gradient/sums/running_extremes.h"
#include "lang/gradient/sums/stepped_extremes.h"
#include "lang/gradient/sums/term_reads.h"
#include "lang/gradient/sums/zero_sums.h"
#include "lang/gradient/versions.h"
#include "lang/lowering/redundant_ranges.h"
#include "lang/syntax/expressions.h"
#include "lang/syntax/printer.h"

namespace tc::lang {

using namespace Halide::Internal;

namespace {

const Pass kDividedExponential("derivative", "divided_exponential");
const Pass kDifferentiateProduct("derivative", "differentiate_product");
const Pass kDifferentiateExtreme("derivative", "differentiate_extreme");
const Pass kRunningExtreme("derivative", "running_extreme");
const Pass kSteppedExtreme("derivative", "stepped_extreme");
const Pass kJoinReads("derivative", "join_reads");
const Pass kPassOn("derivative", "pass_on");
const Pass kDropUnread("derivative", "drop_unread");
const Pass kRecompute("derivative", "recompute");
const Pass kDropRedundantRanges("derivative", "drop_redundant_ranges");

std::vector<ExpressionPtr> names_of(const std::vector<std::string>& indices) {
  std::vector<ExpressionPtr> expressions;
  for (const std::string& index : indices) expressions.push_back(name(index));
  return expressions;
}

bool is_one(const Expression& e) { return e.constant && e.constant->as_double() == 1; }

class GradientBuilder {
 public:
  GradientBuilder(const Definition& definition, const GradientRequest& request)
      : function_(*definition.tree),
        signature_(definition.signature),
        request_(request),
        versions_(number_versions(definition, request.scalars)),
        names_(function_) {
    for (const ir::Parameter& parameter : signature_.parameters)
      if (!parameter.scalar) shapes_[parameter.name] = shape_of(parameter);
    for (const Step& step : versions_.steps) shapes_[step.target] = step.shape;
  }

  std::string run() {
    std::vector<std::string> results = build();
    return results.empty() ? "" : assemble(results);
  }

  std::set<std::string> recomputed() {
    build();
    return recompute(versions_, statements_, saved(), &names_).versions;
  }

 private:
  /// The statements; returns the gradients that are results.
  std::vector<std::string> build() {
    for (const std::string& output : signature_.outputs) {
      const ir::Tensor& tensor = signature_.tensor(output);
      if (tensor.role != ir::TensorRole::InOut) continue;
      throw LanguageError(tensor.where, output,
                          " starts from what the caller passes, which has no place for a gradient; "
                          "begin from an input, as in ",
                          output, "(i) = A(i), or write +=! to begin from zero");
    }
    find_active();
    name_results();
    for (const std::string& output : signature_.outputs) seed(output);
    for (auto step = versions_.steps.rbegin(); step != versions_.steps.rend(); ++step)
      differentiate(*step);
    std::vector<std::string> results;
    for (const ir::Parameter& parameter : signature_.parameters) {
      auto found = contributions_.find(parameter.name);
      if (parameter.scalar || found == contributions_.end()) continue;
      results.push_back(result_names_.at(parameter.name));
      const ir::Tensor& tensor = signature_.tensor(parameter.name);
      const std::vector<Range> shape = shape_of(parameter);
      if (add_up(results.back(), tensor.type, shape, found->second)) continue;
      GradientStatement zero{
          results.back(), {}, ir::Reduction::None, true, cast(tensor.type, real(0)), {}};
      for (size_t d = 0; d < shape.size(); ++d) {
        zero.places.push_back(name(names_.index("i" + std::to_string(d))));
        zero.ranges.emplace_back(zero.places.back()->name, shape[d]);
      }
      emit(std::move(zero));
    }
    run_pass(kDropUnread, [&] { return drop_unread(results); });
    return results;
  }

  std::vector<Range> shape_of(const ir::Parameter& parameter) const {
    std::vector<Range> shape;
    for (const Expr& size : signature_.tensor(parameter.name).sizes)
      shape.push_back({Expr(0), simplify_size(size - 1, signature_)});
    return shape;
  }

  void find_active() {
    for (const std::string& input : request_.inputs) {
      auto found = signature_.tensors.find(input);
      if (found != signature_.tensors.end() && found->second.type.is_float()) active_.insert(input);
    }
    for (const Step& step : versions_.steps) {
      bool kept = (!step.covers || !step.initializes) && active_.count(step.previous);
      bool made = step.type.is_float() && is_active(*step.value, active_);
      if (kept || made) active_.insert(step.target);
    }
  }

  /// Gradients of inputs are called d_X, and d_X_1 where the text has a d_X. Those that may be
  /// plain are taken first, so that d_X_1 belongs to the input X_1 where there is one.
  void name_results() {
    for (const bool plain : {true, false})
      for (const ir::Parameter& parameter : signature_.parameters) {
        const std::string wanted = "d_" + parameter.name;
        if (result_names_.count(parameter.name) || (plain && names_.index(wanted) != wanted))
          continue;
        result_names_[parameter.name] = names_.fresh(wanted);
      }
  }

  /// The gradient that the caller gives for a result.
  void seed(const std::string& output) {
    std::string version = version_name(output, versions_.last.at(output));
    if (!request_.outputs.count(output)) return;
    std::string parameter = names_.fresh("d_" + output);
    given_.push_back({output, parameter});
    if (!active_.count(version)) return;
    const Step& step = step_of(version);
    Contribution contribution = of_all_elements(step, parameter);
    contribution.copies = true;
    contributions_[version].push_back(contribution);
  }

  /// Every element of the step's tensor receives that of `gradient`.
  static Contribution of_all_elements(const Step& step, const std::string& gradient) {
    Contribution contribution;
    contribution.indices = contribution.left = step.elements;
    for (size_t d = 0; d < step.places.size(); ++d)
      contribution.ranges[step.elements[d]] = step.shape[d];
    contribution.subscripts = contribution.source_places = names_of(step.elements);
    contribution.source = gradient;
    contribution.weight = read(gradient, contribution.source_places, step.type);
    return contribution;
  }

  const Step& step_of(const std::string& version) const {
    if (const Step* step = versions_.find(version)) return *step;
    const auto made = std::find_if(term_steps_.begin(), term_steps_.end(),
                                   [&](const Step& step) { return step.target == version; });
    TC_INTERNAL_CHECK(made != term_steps_.end(), "no statement makes ", version);
    return *made;
  }

  void differentiate(const Step& step) {
    auto found = contributions_.find(step.target);
    if (found == contributions_.end()) return;
    refuse_kept_scatter(step);
    ExpressionPtr result;
    if (const auto divided =
            run_pass(kDividedExponential, [&] { return find_divided(step, found->second); })) {
      found->second = divided->contributions;
      result = divided->result;
    }
    std::string gradient;
    if (found->second.size() == 1 && found->second[0].copies) {
      gradient = found->second[0].source;
    } else {
      gradient = names_.fresh("d_" + names_.plain(step.target) + (result ? "_scaled" : ""));
      if (!add_up(gradient, step.type, step.shape, found->second)) return;
    }
    ExpressionPtr seed = read(gradient, step.places, step.type);
    shapes_[gradient] = step.shape;
    if (is_active(*step.value, active_)) {
      const ir::Reduction reduction = step.reduction;
      if (reduction == ir::Reduction::Product || reduction == ir::Reduction::Min ||
          reduction == ir::Reduction::Max) {
        differentiate_terms(step, seed, gradient);
      } else if (reduction == ir::Reduction::None || reduction == ir::Reduction::Sum) {
        bool whole =
            reduction == ir::Reduction::None && step.covers && step.value->type == step.type;
        if (!result && whole &&
            (prefers_result(*step.value) || (is_result(step) && is_quotient(step))))
          result = read(step.target, step.places, step.type);
        reach(step, step.value, seed, result, gradient);
      }
    }
    if (active_.count(step.previous)) run_pass(kPassOn, [&] { return pass_on(step, gradient); });
  }

  /// Whether the caller has what the step makes.
  bool is_result(const Step& step) const { return saved().count(step.target) != 0; }

  std::optional<DividedExponential> find_divided(
      const Step& step, const std::vector<Contribution>& contributions) const {
    for (const Step& other : versions_.steps) {
      if (!is_result(other)) continue;
      if (auto divided = divided_exponential(step, other, contributions, statements_, signature_))
        return divided;
    }
    return std::nullopt;
  }

  /// What a scatter keeps of the version before is known for sums only.
  void refuse_kept_scatter(const Step& step) const {
    if (!step.scatters() || step.initializes || step.reduction == ir::Reduction::Sum) return;
    throw LanguageError(
        step.where,
        "a scatter that goes on from earlier values has a derivative only where it adds; start "
        "afresh with '!' in a tensor of its own, and combine both in a second statement");
  }

  /// Where a statement adds to a tensor or leaves elements alone, the gradient goes on to the
  /// version before.
  bool pass_on(const Step& step, const std::string& gradient) {
    if (step.covers && step.initializes) return false;
    Contribution contribution = of_all_elements(step, gradient);
    contribution.copies = !step.initializes;
    if (step.initializes) {
      std::vector<ExpressionPtr> inside;
      for (size_t d = 0; d < step.places.size(); ++d) {
        const auto found = step.ranges.find(step.elements[d]);
        if (step.places[d]->kind != ExpressionKind::Name || found == step.ranges.end()) continue;
        const Range& range = found->second;
        ExpressionPtr index = name(step.elements[d]);
        if (!always_equal(range.first, step.shape[d].first, signature_))
          inside.push_back(binary(Operator::GreaterEqual, index, from_halide(range.first)));
        if (!always_equal(range.last, step.shape[d].last, signature_))
          inside.push_back(binary(Operator::LessEqual, index, from_halide(range.last)));
      }
      contribution.guards.push_back(logical_not(all_of(inside)));
    }
    contributions_[step.previous].push_back(contribution);
    return true;
  }

  /// What the reads of `value` receive when it receives `gradient`, where the conditions hold.
  void reach(const Step& step, const ExpressionPtr& value, const ExpressionPtr& gradient,
             const ExpressionPtr& result, const std::string& source,
             const std::vector<ExpressionPtr>& conditions = {}) {
    ExpressionPtr seed = gradient;
    if (value->type != step.type) seed = cast(value->type, seed);
    std::vector<Contribution> made;
    for (ReadGradient& part : read_gradients(value, seed, result, active_)) {
      const bool joined = run_pass(kJoinReads, [&] {
        return std::any_of(made.begin(), made.end(),
                           [&](Contribution& other) { return join(part, &other); });
      });
      if (joined) continue;
      Contribution contribution;
      contribution.to = part.read->name;
      contribution.left = step.left;
      contribution.indices = step.indices();
      contribution.ranges = step.ranges;
      contribution.subscripts = part.read->operands;
      contribution.guards = part.guards;
      contribution.guards.insert(contribution.guards.end(), conditions.begin(), conditions.end());
      contribution.weight = part.weight;
      contribution.source = source;
      contribution.source_places = step.places;
      made.push_back(contribution);
    }
    const auto type = [&](const std::string& tensor) { return type_of(tensor); };
    for (GradientStatement& each : share_weights(step, &made, type, &names_)) {
      for (const auto& range : each.ranges) shapes_[each.target].push_back(range.second);
      emit(std::move(each));
    }
    for (Contribution& contribution : made) {
      contribution.copies = is_copy(step, contribution);
      contributions_[contribution.to].push_back(contribution);
    }
  }

  Type type_of(const std::string& tensor) const {
    const auto input = signature_.tensors.find(tensor);
    return input == signature_.tensors.end() ? step_of(tensor).type : input->second.type;
  }

  /// Whether the tensor read receives the gradient as it is, element by element.
  bool is_copy(const Step& step, const Contribution& c) const {
    if (!c.guards.empty() || !step.covers || !step.reduced.empty() || step.scatters()) return false;
    if (!equal(*c.weight, *read(c.source, step.places, step.type))) return false;
    if (signature_.tensors.count(c.to) || !equal(c.subscripts, names_of(step.left))) return false;
    const std::vector<Range>& shape = step_of(c.to).shape;
    const auto same = [&](const Range& a, const Range& b) {
      return always_equal(a, b, signature_);
    };
    return std::equal(shape.begin(), shape.end(), step.shape.begin(), step.shape.end(), same);
  }

  /// A statement over the step's points.
  static GradientStatement statement(const std::string& target, const Step& step,
                                     const std::vector<ExpressionPtr>& places,
                                     ir::Reduction reduction, const ExpressionPtr& value) {
    return {target, places, reduction, true, value, ranges_of(step.indices(), step.ranges)};
  }

  /// The same for a reduction to the step's elements, in a tensor of its own, which is read there.
  ExpressionPtr reduce(const char* suffix, const Step& step, ir::Reduction reduction,
                       const ExpressionPtr& value, Type type) {
    const std::string target = names_.fresh(names_.plain(step.target) + suffix);
    if (step.scatters()) emit(all_zeros(target, step));
    emit(statement(target, step, step.places, reduction, value));
    return read(target, step.places, type);
  }

  /// Those of a product or an extreme, as reads; what they compute receives a gradient of its own.
  void differentiate_terms(const Step& step, const ExpressionPtr& seed,
                           const std::string& gradient) {
    if (step.reduction != ir::Reduction::Product && differentiate_stepped(step, gradient)) return;
    const std::optional<TermReads> terms = read_terms(step, shapes_, signature_, &names_);
    Step own = step;
    ExpressionPtr value = terms ? own.value = terms->value : all_terms(step);
    const bool again =
        value != step.value || (is_result(step) && reads_any(*step.value, rounded_again()));
    const size_t before = term_steps_.size();
    if (terms) {
      for (const Step& each : terms->steps) {
        if (is_active(*each.value, active_)) active_.insert(each.target);
        shapes_[each.target] = each.shape;
        emit(statement(each.target, each, each.places, ir::Reduction::None, each.value));
        term_steps_.push_back(each);
      }
    }
    if (step.reduction == ir::Reduction::Product) {
      run_always(kDifferentiateProduct, [&] { differentiate_product(own, value, seed, gradient); });
    } else {
      run_always(kDifferentiateExtreme,
                 [&] { differentiate_extreme(own, value, again, seed, gradient); });
    }
    for (size_t k = term_steps_.size(); k-- > before;) differentiate(term_steps_[k]);
  }

  /// Of an extreme whose terms move with their distance; whether it is one.
  bool differentiate_stepped(const Step& step, const std::string& gradient) {
    const auto stepped = run_pass(
        kSteppedExtreme, [&] { return stepped_extreme(step, gradient, signature_, &names_); });
    if (!stepped) return false;
    for (const GradientStatement& each : stepped->statements) {
      shapes_[each.target] = step.shape;
      emit(each);
    }
    for (const Receiver& each : stepped->receivers)
      reach(each.step, each.step.value, each.weight, nullptr, each.source, each.conditions);
    return true;
  }

  static bool reads_any(const Expression& value, const std::set<std::string>& versions) {
    return any(value, [&](const Expression& e) {
      return e.binding == Binding::Tensor && versions.count(e.name);
    });
  }

  /// The versions that are computed again and may be rounded in another way than they were for a
  /// result that is read. What only selects and copies is the same each time.
  std::set<std::string> rounded_again() const {
    std::set<std::string> versions;
    const auto read = saved();
    for (const Step& step : versions_.steps) {
      if (read.count(step.target)) continue;
      const bool adds =
          step.reduction == ir::Reduction::Sum || step.reduction == ir::Reduction::Product;
      if ((adds && step.type.is_float()) || versions.count(step.previous) ||
          any(*step.value, rounds) || reads_any(*step.value, versions))
        versions.insert(step.target);
    }
    return versions;
  }

  static bool rounds(const Expression& e) {
    if (!e.type.is_float() || e.constant) return false;
    if (e.kind == ExpressionKind::Binary) return e.op != Operator::Min && e.op != Operator::Max;
    return e.kind == ExpressionKind::Apply && e.binding == Binding::Builtin;
  }

  /// A read of a tensor that is made of the value at all points.
  ExpressionPtr all_terms(const Step& step) {
    std::string target = names_.fresh(names_.plain(step.target) + "_value");
    std::vector<ExpressionPtr> points = names_of(step.indices());
    emit(statement(target, step, points, ir::Reduction::None, step.value));
    return read(target, points, step.value->type);
  }

  /// Every factor receives the product of the others, zeros among them included: with one zero it
  /// alone receives something, with two none does.
  void differentiate_product(const Step& step, ExpressionPtr factor, const ExpressionPtr& seed,
                             const std::string& gradient) {
    ExpressionPtr counts;
    if (factor->kind == ExpressionKind::Ternary && is_one(*factor->operands[2])) {
      counts = factor->operands[0];
      factor = factor->operands[1];
    }
    auto where_it_counts = [&](const ExpressionPtr& e, const ExpressionPtr& elsewhere) {
      return counts ? choose(counts, e, elsewhere) : e;
    };
    ExpressionPtr is_zero = binary(Operator::Equal, factor, integer(0));
    ExpressionPtr count =
        reduce("_zeros", step, ir::Reduction::Sum,
               where_it_counts(choose(is_zero, real(1), real(0)), real(0)), Halide::Float(32));
    ExpressionPtr rest =
        reduce("_rest", step, ir::Reduction::Product,
               where_it_counts(choose(is_zero, real(1), factor), real(1)), step.value->type);
    ExpressionPtr others = binary(Operator::Multiply, seed, rest);
    // Two sums, in which all that depends on the factor stands in front of what depends on the
    // result: a scan has to add up the latter alone.
    const ExpressionPtr divisor = choose(is_zero, real(1), factor);
    reach(step, step.value, binary(Operator::Divide, others, divisor), nullptr, gradient,
          {binary(Operator::Equal, count, integer(0))});
    reach(step, step.value, others, nullptr, gradient,
          {binary(Operator::Equal, count, integer(1)), is_zero});
  }

  /// The values that are the extreme share the gradient evenly, as those of torch.amax.
  /// That of terms that are `computed` again is theirs.
  void differentiate_extreme(const Step& step, const ExpressionPtr& value, bool computed,
                             const ExpressionPtr& seed, const std::string& gradient) {
    ExpressionPtr extreme = read(step.target, step.places, step.type);
    if (computed) extreme = reduce("_extreme", step, step.reduction, value, step.type);
    if (auto running = run_pass(kRunningExtreme, [&] {
          return running_extreme(step, extreme, gradient, signature_, &names_);
        })) {
      for (GradientStatement& each : running->statements) emit(std::move(each));
      shapes_[running->source] = step.shape;
      reach(running->terms, running->terms.value, running->weight, nullptr, running->source);
      return;
    }
    ExpressionPtr is_extreme = binary(Operator::Equal, value, extreme);
    ExpressionPtr ties = reduce("_ties", step, ir::Reduction::Sum,
                                choose(is_extreme, real(1), real(0)), Halide::Float(32));
    ExpressionPtr share = binary(Operator::Divide, seed, ties);
    if (step.type.bits() < 32) share = cast(step.type, share);
    std::string source = gradient;
    if (!step.scatters()) {
      // Divided once for a result, not for every term.
      source = names_.fresh(gradient + "_share");
      emit({source, step.places, ir::Reduction::None, true, share,
            ranges_of(step.left, step.ranges)});
      shapes_[source] = step.shape;
      share = read(source, step.places, step.type);
    }
    reach(step, step.value, choose(is_extreme, share, real(0)), nullptr, source);
  }

  void emit(GradientStatement statement) { statements_.push_back(std::move(statement)); }

  /// False, without a statement, where the gradient is zero.
  bool add_up(const std::string& target, Type type, const std::vector<Range>& shape,
              const std::vector<Contribution>& contributions) {
    shapes_[target] = shape;
    std::vector<GradientStatement> sums = sum_contributions(target, type, shape, contributions,
                                                            shapes_, signature_, &zeros_, &names_);
    for (GradientStatement& statement : sums) emit(std::move(statement));
    return !sums.empty();
  }

  /// Leaves out what no result is made of: others may have looked through it. Whether there was
  /// any.
  bool drop_unread(const std::vector<std::string>& results) {
    std::set<std::string> needed(results.begin(), results.end());
    std::vector<GradientStatement> kept;
    for (auto statement = statements_.rbegin(); statement != statements_.rend(); ++statement) {
      if (!needed.count(statement->target)) continue;
      const auto note = [&](const Expression& node) {
        if (is_access(node)) needed.insert(node.name);
      };
      walk(*statement->value, note);
      for (const ExpressionPtr& place : statement->places) walk(*place, note);
      kept.push_back(std::move(*statement));
    }
    const bool all = kept.size() == statements_.size();
    statements_.assign(kept.rbegin(), kept.rend());
    return !all;
  }

  // ---- the text

  std::string assemble(const std::vector<std::string>& results) {
    Function function;
    function.name.name = function_.name.name + "_grad";
    function.parameters = function_.parameters;
    Recomputed forward = run_pass(
        kRecompute, [&] { return recompute(versions_, statements_, saved(), &names_); },
        [](const Recomputed& made) { return !made.versions.empty(); });
    for (const std::string& output : signature_.outputs) {
      if (forward.saved.count(output)) function.parameters.push_back(declare(output, output));
    }
    for (const auto& [output, parameter] : given_)
      function.parameters.push_back(declare(output, parameter));
    for (const std::string& result : results)
      function.returns.push_back({result, /*typed=*/false, {}, {}, {}, {}});
    for (const GradientStatement& statement : forward.statements)
      function.statements.push_back(to_tree(statement));
    run_pass(kDropRedundantRanges, [&] { return drop_redundant_ranges(&function); });
    return print(function);
  }

  /// Versions that the caller can pass: the final ones of results.
  std::map<std::string, std::string> saved() const {
    std::map<std::string, std::string> versions;
    for (const std::string& output : signature_.outputs)
      versions[version_name(output, versions_.last.at(output))] = output;
    return versions;
  }

  Declaration declare(const std::string& output, const std::string& name) {
    const Step& step = step_of(version_name(output, versions_.last.at(output)));
    Declaration declaration;
    declaration.name = name;
    declaration.type = signature_.tensor(output).type;
    std::vector<DimensionSize>& sizes = sizes_[output];
    if (sizes.empty()) {
      for (size_t d = 0; d < step.shape.size(); ++d) {
        Expr extent = simplify_size(step.shape[d].last - step.shape[d].first + 1, signature_);
        DimensionSize& size = sizes.emplace_back();
        if (const auto* variable = extent.as<Variable>()) {
          size.name = variable->name;
        } else if (auto constant = as_const_int(extent)) {
          size.constant = *constant;
        } else {
          std::string base = step.elements[d];
          for (char& c : base) c = static_cast<char>(std::toupper(c));
          size.name = names_.fresh(base + "_" + output);
        }
      }
      if (sizes.empty()) sizes.push_back({"", 1, {}});
    }
    declaration.dimensions = sizes;
    return declaration;
  }

  TreeStatement to_tree(const GradientStatement& statement) {
    TreeStatement tree;
    tree.target.name = statement.target;
    std::set<std::string> used;
    for (const ExpressionPtr& place : statement.places) {
      const bool is_name = place->kind == ExpressionKind::Name;
      const bool is_index =
          is_name && std::any_of(statement.ranges.begin(), statement.ranges.end(),
                                 [&](const auto& each) { return each.first == place->name; });
      // A second dimension at the same place, and one that data says, are scattered.
      const bool plain = is_index && used.insert(place->name).second;
      tree.indices.push_back({plain ? place->name : "", {}});
      if (plain) {
        tree.subscripts.push_back(nullptr);
        continue;
      }
      tree.subscripts.push_back(in_storage(place));
      if (!is_name) continue;
      auto scattered = std::make_shared<Expression>(*tree.subscripts.back());
      scattered->binding = is_index ? Binding::Index : Binding::Tensor;
      tree.subscripts.back() = scattered;
    }
    tree.reduction = statement.reduction;
    tree.initializes = statement.initializes && statement.reduction != ir::Reduction::None;
    tree.value = in_storage(statement.value);
    for (const auto& [index, range] : statement.ranges)
      tree.clauses.push_back({ClauseKind::Range,
                              {index, {}},
                              from_halide(range.first),
                              from_halide(simplify_size(range.last + 1, signature_))});
    return tree;
  }

  /// Reads of parameters that are results of the forward definition begin at 0, wherever its
  /// indices begin; those without dimensions have one element.
  ExpressionPtr in_storage(const ExpressionPtr& e) {
    return rewrite(e, [&](const Expression& node) -> ExpressionPtr {
      if (!is_access(node)) return nullptr;
      const std::string* output = nullptr;
      for (const auto& [given, parameter] : given_) {
        if (node.name == parameter) output = &given;
      }
      for (const std::string& name : signature_.outputs) {
        if (node.name == name) output = &name;
      }
      if (!output) return nullptr;
      const Step& step = step_of(version_name(*output, versions_.last.at(*output)));
      std::vector<ExpressionPtr> subscripts;
      for (size_t d = 0; d < node.operands.size(); ++d) {
        subscripts.push_back(binary(Operator::Subtract, in_storage(node.operands[d]),
                                    from_halide(step.shape[d].first)));
      }
      if (subscripts.empty()) subscripts.push_back(integer(0));
      return access(node.name, subscripts);
    });
  }

  const Function& function_;
  const ir::Program& signature_;
  const GradientRequest& request_;
  Versions versions_;
  FreshNames names_;
  std::map<std::string, std::string> result_names_;  ///< by input
  std::set<std::string> active_;  ///< inputs and versions that a wanted input decides
  std::map<std::string, std::vector<Contribution>> contributions_;
  std::vector<std::pair<std::string, std::string>> given_;   ///< outputs, parameters
  std::map<std::string, std::vector<Range>> shapes_;         ///< of inputs, versions and gradients
  std::map<std::string, std::vector<DimensionSize>> sizes_;  ///< of results as parameters
  std::vector<GradientStatement> statements_;
  std::deque<Step> term_steps_;  ///< those that terms of reductions are reads of
  ZeroSums zeros_{versions_, signature_, statements_};
};

}  // namespace

std::string gradient_text(const Definition& definition, const GradientRequest& request) {
  return GradientBuilder(definition, request).run();
}

std::set<std::string> recomputed_versions(const Definition& definition,
                                          const GradientRequest& request) {
  return GradientBuilder(definition, request).recomputed();
}

}  // namespace tc::lang

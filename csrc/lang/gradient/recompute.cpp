#include "lang/gradient/recompute.h"

#include "lang/syntax/expressions.h"

namespace tc::lang {
namespace {

bool is_version(const std::string& name) { return name.find('#') != std::string::npos; }
bool exists(const std::string& version) { return version.substr(version.find('#')) != "#0"; }

class Planning {
 public:
  Planning(const Versions& versions, const std::map<std::string, std::string>& saved,
           FreshNames* names)
      : versions_(versions), saved_(saved), names_(*names) {}

  Recomputed run(const std::vector<GradientStatement>& statements) {
    for (const GradientStatement& statement : statements) note_reads(statement);
    // A version that is needed needs those before it.
    for (auto step = versions_.steps.rbegin(); step != versions_.steps.rend(); ++step) {
      if (!needed_.count(step->target) || saved_.count(step->target)) continue;
      note_reads(*step);
      if (continues(*step)) needed_.insert(step->previous);
    }
    for (const Step& step : versions_.steps) {
      if (!needed_.count(step.target) || saved_.count(step.target)) continue;
      add(step);
      result_.versions.insert(step.target);
    }
    for (const std::string& version : needed_) {
      auto found = saved_.find(version);
      if (found == saved_.end()) continue;
      text_names_[version] = found->second;
      result_.saved.insert(found->second);
    }
    result_.statements.insert(result_.statements.end(), statements.begin(), statements.end());
    for (GradientStatement& statement : result_.statements) {
      statement.value = named(statement.value);
      for (ExpressionPtr& place : statement.places) place = named(place);
    }
    return std::move(result_);
  }

 private:
  /// Whether the version is what the one before holds, changed.
  static bool continues(const Step& step) {
    return (!step.covers || !step.initializes) && exists(step.previous);
  }

  /// Of a statement of the derivative, or a step.
  template <class Statement>
  void note_reads(const Statement& statement) {
    const auto note = [&](const Expression& node) {
      if (node.binding != Binding::Tensor || !is_version(node.name)) return;
      needed_.insert(node.name);
      read_.insert(node.name);
    };
    walk(*statement.value, note);
    for (const ExpressionPtr& place : statement.places) walk(*place, note);
  }

  void add(const Step& step) {
    std::string& target = text_names_[step.target];
    if (continues(step) && !read_.count(step.previous)) {
      target = text_names_.at(step.previous);
    } else {
      target = names_.fresh(FreshNames::plain(step.target) + "_again");
      if (continues(step)) {
        GradientStatement& copy = result_.statements.emplace_back(all_zeros(target, step));
        copy.value = read(step.previous, copy.places);
      }
    }
    ExpressionPtr value = step.value;
    // A type that another statement or the return list decided.
    bool decided = value->type != step.type || value->adaptable;
    if (decided && !ir::is_position(step.reduction)) value = cast(step.type, value);
    // Later statements may read, and write, what this one leaves out.
    if ((step.scatters() || !step.covers) && !continues(step))
      result_.statements.push_back(all_zeros(target, step));
    result_.statements.push_back({target, step.places, step.reduction, step.initializes, value,
                                  ranges_of(step.indices(), step.ranges)});
  }

  ExpressionPtr named(const ExpressionPtr& e) const {
    return rewrite(e, [&](const Expression& node) -> ExpressionPtr {
      if (node.binding != Binding::Tensor || !is_version(node.name)) return nullptr;
      auto copy = std::make_shared<Expression>(node);
      copy->name = text_names_.at(node.name);
      for (ExpressionPtr& operand : copy->operands) operand = named(operand);
      return copy;
    });
  }

  const Versions& versions_;
  const std::map<std::string, std::string>& saved_;
  FreshNames& names_;
  std::set<std::string> needed_, read_;
  std::map<std::string, std::string> text_names_;
  Recomputed result_;
};

}  // namespace

GradientStatement all_zeros(const std::string& target, const Step& step) {
  GradientStatement zeros{target, {}, ir::Reduction::None, true, cast(step.type, integer(0)), {}};
  for (size_t d = 0; d < step.places.size(); ++d) {
    zeros.places.push_back(name(step.elements[d]));
    zeros.ranges.emplace_back(step.elements[d], step.shape[d]);
  }
  return zeros;
}

Recomputed recompute(const Versions& versions, const std::vector<GradientStatement>& statements,
                     const std::map<std::string, std::string>& saved, FreshNames* names) {
  return Planning(versions, saved, names).run(statements);
}

}  // namespace tc::lang

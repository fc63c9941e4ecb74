#include "store/rename.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "lang/syntax/lexer.h"

namespace tc::store {
namespace {

std::vector<lang::Token> tokens_of(const std::string& text) {
  try {
    return lang::tokenize(std::make_shared<const std::string>(text));
  } catch (const LanguageError& error) {
    throw UsageError("a Plan of a definition that this version cannot read: ", error.what());
  }
}

/// Names in some place of a Plan, as the scopes that it is in say, nearest first.
class Scopes {
 public:
  using Names = std::map<std::string, std::string>;

  void add(const Names* names) {
    if (names) scopes_.push_back(names);
  }

  std::string one(const std::string& name) const {
    if (const std::string* found = find(name)) return *found;
    for (size_t end = name.rfind('_'); end != std::string::npos && end > 0;
         end = name.rfind('_', end - 1))
      if (const std::string* base = find(name.substr(0, end))) return *base + name.substr(end);
    return name;
  }

  void tiles(std::optional<std::vector<plan::Tile>>& tiles) const {
    if (!tiles) return;
    for (plan::Tile& tile : *tiles) tile.index = one(tile.index);
  }
  void words(std::vector<std::string>& words) const {
    for (std::string& word : words) word = one(word);
  }
  void words(std::optional<std::vector<std::string>>& given) const {
    if (given) words(*given);
  }
  /// "B(k, n)".
  std::string access(const std::string& text) const {
    std::string result;
    for (size_t at = 0; at < text.size();) {
      size_t end = at;
      while (end < text.size() &&
             (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_'))
        ++end;
      result += end == at ? std::string(1, text[at]) : one(text.substr(at, end - at));
      at = std::max(end, at + 1);
    }
    return result;
  }

 private:
  const std::string* find(const std::string& name) const {
    for (const Names* names : scopes_)
      if (const auto found = names->find(name); found != names->end()) return &found->second;
    return nullptr;
  }

  std::vector<const Names*> scopes_;
};

}  // namespace

Renamer::Renamer(const std::string& from, const std::string& to) : differs_(from != to) {
  if (!differs_) return;
  const std::vector<lang::Token> before = tokens_of(from), after = tokens_of(to);
  const bool same = std::equal(before.begin(), before.end(), after.begin(), after.end(),
                               [](const lang::Token& a, const lang::Token& b) {
                                 return a.kind == b.kind &&
                                        (a.kind == lang::TokenKind::Identifier || a.text == b.text);
                               });
  if (!same)
    throw UsageError("a Plan of a definition that differs from this one in more than names");
  for (size_t k = 0; k < before.size(); ++k) {
    if (lines_.empty() || before[k].first_on_line) lines_.emplace_back();
    if (before[k].kind != lang::TokenKind::Identifier) continue;
    lines_.back().emplace(before[k].text, after[k].text);
    all_.emplace(before[k].text, after[k].text);
  }
}

const Renamer::Names* Renamer::names_of(const std::string& statement) const {
  // An index means nothing outside its statement, and another one's may have its name. Where passes
  // have made statements, numbers are not those of the text; then most names are those of all.
  if (statement.size() < 2 || statement[0] != 'S' ||
      !std::isdigit(static_cast<unsigned char>(statement[1])))
    return nullptr;
  const size_t line = std::strtoul(statement.c_str() + 1, nullptr, 10) + 1;
  return line < lines_.size() ? &lines_[line] : nullptr;
}

MappingOptions Renamer::operator()(const MappingOptions& options) const {
  if (!differs_) return options;
  MappingOptions renamed = options;
  for (plan::ClusterOptions& cluster : renamed.clusters) {
    // Shared loops have the names of the last statement.
    Scopes shared;
    for (auto it = cluster.statements.rbegin(); it != cluster.statements.rend(); ++it)
      shared.add(names_of(*it));
    shared.add(&all_);
    auto inside = [&](const std::string& statement) {
      Scopes scopes;
      scopes.add(names_of(statement));
      scopes.add(&all_);
      return scopes;
    };
    shared.words(cluster.outer);
    shared.words(cluster.order);
    shared.tiles(cluster.tasks);
    shared.tiles(cluster.reductions);
    shared.tiles(cluster.registers);
    if (cluster.nests)
      for (plan::NestPlan& nest : *cluster.nests)
        for (size_t k = 0; k < nest.loops.size() && k < nest.statements.size(); ++k)
          inside(nest.statements[k]).words(nest.loops[k]);
    if (cluster.copies)
      for (plan::CopyPlan& copy : *cluster.copies)
        copy.read = inside(copy.statement).access(copy.read);
  }
  return renamed;
}

std::optional<std::string> Renamer::operator()(const std::string& options) const {
  if (!differs_) return options;
  try {
    return to_string((*this)(parse_options(options)));
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

MappingOptions rename(const MappingOptions& options, const std::string& from,
                      const std::string& to) {
  return options.clusters.empty() ? options : Renamer(from, to)(options);
}

}  // namespace tc::store

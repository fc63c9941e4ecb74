#include "store/rename.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <vector>

#include "base/error.h"
#include "lang/syntax/lexer.h"

namespace tc::store {
namespace {

std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> names;
  for (const lang::Token& token : lang::tokenize(std::make_shared<const std::string>(text)))
    if (token.kind == lang::TokenKind::Identifier) names.push_back(token.text);
  return names;
}

class Renamer {
 public:
  Renamer(const std::string& from, const std::string& to) {
    const std::vector<std::string> before = names_in(from), after = names_in(to);
    if (before.size() != after.size())
      throw UsageError("a Plan of a definition that differs from this one in more than names");
    for (size_t k = 0; k < before.size(); ++k) names_.emplace(before[k], after[k]);
  }

  std::string one(const std::string& name) const {
    const auto found = names_.find(name);
    if (found != names_.end()) return found->second;
    for (size_t end = name.rfind('_'); end != std::string::npos && end > 0;
         end = name.rfind('_', end - 1)) {
      const auto base = names_.find(name.substr(0, end));
      if (base != names_.end()) return base->second + name.substr(end);
    }
    return name;
  }

  void tiles(std::optional<std::vector<plan::Tile>>& tiles) const {
    if (!tiles) return;
    for (plan::Tile& tile : *tiles) tile.index = one(tile.index);
  }
  void words(std::optional<std::vector<std::string>>& words) const {
    if (!words) return;
    for (std::string& word : *words) word = one(word);
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
  std::map<std::string, std::string> names_;
};

}  // namespace

MappingOptions rename(const MappingOptions& options, const std::string& from,
                      const std::string& to) {
  const Renamer renamer(from, to);
  MappingOptions renamed = options;
  for (plan::ClusterOptions& cluster : renamed.clusters) {
    renamer.words(cluster.outer);
    renamer.words(cluster.order);
    renamer.tiles(cluster.tasks);
    renamer.tiles(cluster.reductions);
    renamer.tiles(cluster.registers);
    if (cluster.nests)
      for (plan::NestPlan& nest : *cluster.nests)
        for (auto& loops : nest.loops)
          for (std::string& loop : loops) loop = renamer.one(loop);
    if (cluster.copies)
      for (plan::CopyPlan& copy : *cluster.copies) copy.read = renamer.access(copy.read);
  }
  return renamed;
}

}  // namespace tc::store

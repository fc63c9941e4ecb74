// What is saved next to a model: texts with their options, the names that graphs hold their
// operators by, and what tuning found. The form on disk is store.proto; file.h has the files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lang/lowering/definition.h"
#include "plan/options/options.h"
#include "store/tuning.h"

namespace tc::store {

struct StoredDefinition {
  std::string name;           ///< as the text says
  std::string operator_name;  ///< f__ and 16 digits, without the namespace
  std::string key;            ///< the text with every name replaced
  MappingOptions options;
  bool derived = false;            ///< saved as a function whose derivative the compiler finds
  std::string backward;            ///< namespace::operator_name of a derivative that a user gave
  std::vector<std::string> pairs;  ///< all backwards that it was saved with, this one among them

  void add_pair(const std::string& backward);
};

struct StoredText {
  std::string ns;
  std::string source;
  bool by_user = true;  ///< else the compiler wrote it, and it has no plain name in torch.ops
  std::vector<StoredDefinition> definitions;
};

/// A text to be stored, `module` parsed, with one of `options` and `operator_names` for each
/// definition. UsageError.
StoredText make_text(const std::string& ns, const std::string& source, const lang::Module& module,
                     bool by_user, const std::vector<MappingOptions>& options,
                     const std::vector<std::string>& operator_names);

struct Contents {
  std::vector<StoredText> texts;
  std::vector<Tuning> tunings;
};

/// What the bytes of a file hold. CacheError, naming `file`, where they are damaged, another
/// program's, of a newer version, or hold options that this version does not have. Texts are not
/// parsed.
Contents decode(const std::string& bytes, const std::string& file);

/// The bytes of a file with this added to what it holds; the same bytes where it holds all of it.
/// Empty bytes hold nothing. What a newer version recorded beside it stays.
std::string add(const std::string& bytes, const Contents& contents, const std::string& file);

/// What `prune` leaves.
struct Kept {
  size_t plans = 1, trials = 0;  ///< of each key, the fastest
  std::string machine;           ///< where not empty, tunings for this one alone
};
/// The bytes of a file with fewer tunings.
std::string prune(const std::string& bytes, const Kept& kept, const std::string& file);

struct Place {
  size_t text = 0, definition = 0;
};
/// The definition with this key that was stored last. With `by_user`, texts of the compiler do not
/// count: nobody has chosen options for these.
std::optional<Place> find_last(const std::vector<StoredText>& texts, const std::string& key,
                               bool by_user);

}  // namespace tc::store

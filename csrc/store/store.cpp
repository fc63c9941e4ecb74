#include "store/store.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <set>

#include "base/checksum.h"
#include "base/error.h"
#include "base/source.h"
#include "lang/lowering/definition.h"
#include "store.pb.h"
#include "store/messages.h"

namespace tc::store {
namespace {

namespace pb = ::tensor_comprehensions::store;

const char kFormat[] = "tensor_comprehensions";
constexpr uint32_t kVersion = 1;
// The tag of a 32-bit field, and the value.
constexpr char kChecksumTag = static_cast<char>(pb::File::kCrc32FieldNumber << 3 | 5);
constexpr size_t kTrailer = 5;

std::string hexadecimal(uint32_t value) {
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", value);
  return digits;
}

uint32_t stored_checksum(const std::string& bytes) {
  uint32_t value = 0;
  for (size_t k = 0; k < 4; ++k)
    value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[bytes.size() - 4 + k]))
             << 8 * k;
  return value;
}

std::string with_checksum(std::string bytes) {
  uint32_t value = crc32(bytes.data(), bytes.size());
  bytes += kChecksumTag;
  for (int k = 0; k < 4; ++k) bytes += static_cast<char>(value >> 8 * k & 0xff);
  return bytes;
}

/// A message that was read as a whole, of a version that we know.
pb::File parse(const std::string& bytes, const std::string& file) {
  auto fail = [&](const std::string& what) { throw CacheError("'", file, "' ", what); };
  // Field 1, a string, and its length: what every store begins with.
  const std::string begin = concat("\n", static_cast<char>(sizeof kFormat - 1), kFormat);
  if (bytes.compare(0, begin.size(), begin) != 0)
    fail(begin.compare(0, bytes.size(), bytes) == 0
             ? concat("is cut short: it has ", bytes.size(),
                      " bytes; save the operators again, or take another copy")
             : "is no file that tensor_comprehensions.save wrote");
  size_t size = bytes.size() - kTrailer;
  uint32_t wanted = stored_checksum(bytes), found = crc32(bytes.data(), size);
  if (bytes[size] != kChecksumTag || wanted != found)
    fail(concat("is damaged or cut short: its last bytes say checksum ", hexadecimal(wanted),
                ", its contents have ", hexadecimal(found),
                "; save the operators again, or take another copy"));
  pb::File result;
  if (!result.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
      result.format() != kFormat)
    fail("has the right checksum but is no message of store.proto");
  if (result.version() == 0 || result.version() > kVersion)
    fail(concat("has version ", result.version(), " of the form of stores; this version of ",
                "tensor_comprehensions reads up to ", kVersion,
                ": install the one that saved it, or a newer one"));
  return result;
}

bool is_identifier(const std::string& word) {
  auto letter = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  return !word.empty() && !std::isdigit(static_cast<unsigned char>(word[0])) &&
         std::all_of(word.begin(), word.end(), letter);
}

/// f__0123456789abcdef, and perhaps _2: so that no stored name takes one that somebody chose.
bool is_operator_name(const std::string& word) {
  size_t at = word.rfind("__");
  if (!is_identifier(word) || at == std::string::npos || at == 0) return false;
  std::string digits = word.substr(at + 2), count;
  if (size_t end = digits.find('_'); end != std::string::npos) {
    count = digits.substr(end + 1);
    digits.resize(end);
    if (count.empty()) return false;
  }
  return digits.size() == 16 && digits.find_first_not_of("0123456789abcdef") == std::string::npos &&
         count.find_first_not_of("0123456789") == std::string::npos;
}

/// Strings of a store leave through the C interface, where they end with the first NUL, and stand
/// in messages.
void check_characters(const char* what, const std::string& word) {
  for (size_t at = 0; at < word.size();) {
    Character character = character_at(word, at);
    if (!character.valid || character.code == 0)
      throw UsageError("a byte ", static_cast<int>(static_cast<unsigned char>(word[at])),
                       " in the ", what, " that is no character of UTF-8, at ", at);
    at += character.length;
  }
}

void check_words(const StoredText& text) {
  check_characters("namespace", text.ns);
  check_characters("text", text.source);
  if (!is_identifier(text.ns))
    throw UsageError("the namespace '", text.ns, "', which is no identifier");
  if (text.definitions.empty()) throw UsageError("a text without definitions");
  for (const StoredDefinition& definition : text.definitions) {
    check_characters("name", definition.name);
    check_characters("key", definition.key);
    check_characters("name of an operator", definition.operator_name);
    check_characters("name of a backward", definition.backward);
    for (const std::string& backward : definition.pairs)
      check_characters("name of a backward", backward);
    if (definition.name.empty()) throw UsageError("a definition without a name");
    if (!is_operator_name(definition.operator_name))
      throw UsageError("the operator '", definition.operator_name, "' for ", definition.name,
                       "; such names end in __ and 16 digits");
  }
}

void check_words(const Tuning& tuning) {
  check_characters("key", tuning.key.definition);
  check_characters("text", tuning.key.text);
  check_characters("target", tuning.key.target);
  check_characters("machine", tuning.key.machine);
  for (const TunedPlan& plan : tuning.plans) {
    check_characters("processor", plan.processor);
    check_characters("version", plan.version);
    check_characters("log", plan.code.log);
  }
  for (const Trial& trial : tuning.trials) check_characters("options", trial.options);
}

StoredDefinition from_message(const pb::Definition& message) {
  StoredDefinition result;
  result.name = message.name();
  result.operator_name = message.operator_name();
  result.key = message.key();
  check_characters("preset", message.options().preset());
  result.options = options_from_message(message.options());
  switch (message.derivative().kind_case()) {
    case pb::Derivative::kDerived: result.derived = true; break;
    case pb::Derivative::kBackward: result.backward = message.derivative().backward(); break;
    case pb::Derivative::KIND_NOT_SET: break;
  }
  for (const std::string& backward : message.pairs()) result.add_pair(backward);
  if (!result.backward.empty()) result.add_pair(result.backward);
  return result;
}

StoredText from_message(const pb::Text& message) {
  StoredText result;
  result.ns = message.namespace_();
  result.source = message.source();
  if (message.origin() != pb::ORIGIN_USER && message.origin() != pb::ORIGIN_COMPILER)
    throw UsageError("an origin that this version does not have");
  result.by_user = message.origin() == pb::ORIGIN_USER;
  for (const pb::Definition& definition : message.definitions())
    result.definitions.push_back(from_message(definition));
  check_words(result);
  return result;
}

pb::Text to_message(const StoredText& text) {
  pb::Text result;
  result.set_namespace_(text.ns);
  result.set_source(text.source);
  result.set_origin(text.by_user ? pb::ORIGIN_USER : pb::ORIGIN_COMPILER);
  for (const StoredDefinition& definition : text.definitions) {
    pb::Definition& added = *result.add_definitions();
    added.set_name(definition.name);
    added.set_operator_name(definition.operator_name);
    added.set_key(definition.key);
    options_to_message(definition.options, *added.mutable_options());
    if (!definition.backward.empty())
      added.mutable_derivative()->set_backward(definition.backward);
    else if (definition.derived)
      added.mutable_derivative()->set_derived(true);
    for (const std::string& backward : definition.pairs) added.add_pairs(backward);
  }
  return result;
}

pb::Definition* find(pb::Text& text, const std::string& operator_name) {
  for (pb::Definition& definition : *text.mutable_definitions())
    if (definition.operator_name() == operator_name) return &definition;
  return nullptr;
}

/// Whether a text has all operators of another.
bool covers(pb::Text& text, pb::Text& other) {
  const auto& needed = *other.mutable_definitions();
  return text.origin() == other.origin() && text.namespace_() == other.namespace_() &&
         std::all_of(needed.begin(), needed.end(), [&](const pb::Definition& definition) {
           return find(text, definition.operator_name()) != nullptr;
         });
}

/// What is said of a derivative in `from` holds in `text`, too.
void take_derivatives(const pb::Text& from, pb::Text& text) {
  for (const pb::Definition& definition : from.definitions()) {
    pb::Definition* known = find(text, definition.operator_name());
    if (!known) continue;
    if (definition.has_derivative()) *known->mutable_derivative() = definition.derivative();
    for (const std::string& backward : definition.pairs())
      if (std::find(known->pairs().begin(), known->pairs().end(), backward) == known->pairs().end())
        known->add_pairs(backward);
  }
}

/// Adds a text, unless another has its operators; it replaces those whose operators it has.
void add(pb::Text added, pb::File& file) {
  auto& texts = *file.mutable_texts();
  for (pb::Text& known : texts)
    if (covers(known, added)) return take_derivatives(added, known);
  int place = texts.size();
  for (int k = texts.size() - 1; k >= 0; --k) {
    if (!covers(added, texts[k])) continue;
    pb::Text newer = added;
    take_derivatives(texts[k], added);
    take_derivatives(newer, added);
    texts.DeleteSubrange(k, 1);
    place = k;
  }
  *texts.Add() = std::move(added);
  for (int k = texts.size() - 1; k > place; --k) texts.SwapElements(k, k - 1);
}

/// Adds what was found to what is known of the same key; that stays as it is where it has all of
/// it.
void add(const Tuning& added, pb::File& file) {
  for (pb::Tuning& known : *file.mutable_tunings()) {
    if (known.key().definition() != added.key.definition) continue;
    Tuning merged = tuning_from_message(known);
    if (!(merged.key == added.key)) continue;
    if (merge(added, merged)) tuning_to_message(merged, known);
    return;
  }
  Tuning merged{added.key, {}, {}, 0};
  merge(added, merged);
  tuning_to_message(merged, *file.add_tunings());
}

std::string finish(pb::File message, const std::string& file) {
  message.clear_crc32();
  std::string result = with_checksum(message.SerializeAsString());
  decode(result, file);  // nothing is written that cannot be read
  return result;
}

}  // namespace

void StoredDefinition::add_pair(const std::string& added) {
  if (std::find(pairs.begin(), pairs.end(), added) == pairs.end()) pairs.push_back(added);
}

StoredText make_text(const std::string& ns, const std::string& source, const lang::Module& module,
                     bool by_user, const std::vector<MappingOptions>& options,
                     const std::vector<std::string>& operator_names) {
  StoredText result{ns, source, by_user, {}};
  for (size_t k = 0; k < module.definitions.size(); ++k) {
    const lang::Definition& definition = *module.definitions[k];
    StoredDefinition added;
    added.name = definition.name;
    added.operator_name = operator_names[k];
    added.key = definition.key;
    added.options = options[k];
    result.definitions.push_back(std::move(added));
  }
  check_words(result);
  return result;
}

Contents decode(const std::string& bytes, const std::string& file) {
  Contents result;
  if (bytes.empty()) return result;
  pb::File message = parse(bytes, file);
  auto take_each = [&](const char* what, const auto& messages, const auto& take) {
    for (int k = 0; k < messages.size(); ++k) {
      try {
        take(messages[k]);
      } catch (const UsageError& error) {
        throw CacheError(what, " ", k + 1, " of ", messages.size(), " in '", file, "' has ",
                         error.what(),
                         "; another version of tensor_comprehensions saved it, or no version did");
      }
    }
  };
  take_each("text", message.texts(),
            [&](const pb::Text& text) { result.texts.push_back(from_message(text)); });
  take_each("tuning", message.tunings(), [&](const pb::Tuning& given) {
    Tuning tuning = tuning_from_message(given);
    check_words(tuning);
    result.tunings.push_back(std::move(tuning));
  });
  std::set<std::string> names;
  for (const StoredText& text : result.texts)
    for (const StoredDefinition& definition : text.definitions)
      names.insert(text.ns + "::" + definition.operator_name);
  for (const StoredText& text : result.texts)
    for (const StoredDefinition& definition : text.definitions)
      for (const std::string& backward : definition.pairs)
        if (names.count(backward) == 0)
          throw CacheError("the backward of ", definition.name, " in '", file, "' is ", backward,
                           ", which is not among its ", names.size(),
                           " operators; save both together");
  return result;
}

std::string add(const std::string& bytes, const Contents& contents, const std::string& file) {
  pb::File message;
  if (!bytes.empty()) message = parse(bytes, file);
  message.set_format(kFormat);
  message.set_version(kVersion);
  for (const StoredText& text : contents.texts) add(to_message(text), message);
  for (const Tuning& tuning : contents.tunings) add(tuning, message);
  return finish(std::move(message), file);
}

std::string prune(const std::string& bytes, const Kept& kept, const std::string& file) {
  if (bytes.empty()) return bytes;
  pb::File message = parse(bytes, file);
  auto& tunings = *message.mutable_tunings();
  for (int k = tunings.size() - 1; k >= 0; --k) {
    // Of GPUs, the target says what they are.
    const std::string& machine = tunings[k].key().machine();
    const bool other = !kept.machine.empty() && !machine.empty() && machine != kept.machine;
    Tuning tuning = tuning_from_message(tunings[k]);
    merge({tuning.key, {}, {}, 0}, tuning, kept.plans, kept.trials);
    if (other || (tuning.plans.empty() && tuning.trials.empty()))
      tunings.DeleteSubrange(k, 1);
    else
      tuning_to_message(tuning, tunings[k]);
  }
  return finish(std::move(message), file);
}

std::optional<Place> find_last(const std::vector<StoredText>& texts, const std::string& key,
                               bool by_user) {
  for (size_t text = texts.size(); text-- > 0;) {
    if (by_user && !texts[text].by_user) continue;
    const std::vector<StoredDefinition>& all = texts[text].definitions;
    for (size_t k = 0; k < all.size(); ++k)
      if (all[k].key == key) return Place{text, k};
  }
  return std::nullopt;
}

}  // namespace tc::store

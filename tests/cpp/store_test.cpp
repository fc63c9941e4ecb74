// Stores as bytes: what is written is read, and whatever else comes is refused. Under the
// sanitizers this also shows that no bytes make the reader leave its memory.
#include "store/store.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/error.h"
#include "check.h"
#include "store/file.h"
#include "tc/tc.hpp"

using namespace tc;
using namespace tc::store;

namespace {

const char kText[] =
    "def f(float(N) a) -> (b) { b(i) = a(i) + 1 }\ndef g(float(N) a) -> (b) "
    "{ b(i) = 2 * a(i) }";

StoredText make_text(const std::string& ns, const std::string& source, bool by_user,
                     const std::vector<MappingOptions>& options,
                     const std::vector<std::string>& names) {
  return store::make_text(ns, source, lang::parse(source), by_user, options, names);
}

std::vector<StoredText> texts() {
  StoredText first = make_text("tc", kText, true, {make_options("naive"), make_options("default")},
                               {"f__0123456789abcdef", "g__0123456789abcdef"});
  first.definitions[0].backward = "tc_grad::h__fedcba9876543210_2";
  first.definitions[1].derived = true;
  StoredText second =
      make_text("tc_grad", "def h(float(N) a) -> (b) { b(i) = -a(i) }", false,
                {parse_options("tc.MappingOptions(\"mlp\").tile(4, 0, 8).matchLibraryCalls(True)")},
                {"h__fedcba9876543210_2"});
  return {first, second};
}

std::string add_texts(const std::string& bytes, const std::vector<StoredText>& added,
                      const std::string& file) {
  return add(bytes, Contents{added, {}}, file);
}

std::vector<StoredText> decode_texts(const std::string& bytes, const std::string& file) {
  return decode(bytes, file).texts;
}

std::string with_checksum(std::string bytes) {
  if (bytes.size() < 5) return bytes;
  size_t size = bytes.size() - 5;
  uint32_t value = crc32(bytes.data(), size);
  for (size_t k = 0; k < 4; ++k) bytes[size + 1 + k] = static_cast<char>(value >> 8 * k & 0xff);
  return bytes;
}

std::string error_of(const std::string& bytes) {
  try {
    decode(bytes, "file");
    return "";
  } catch (const CacheError& error) {
    return error.what();
  }
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void test_checksum() {
  CHECK(crc32("123456789", 9) == 0xcbf43926u);  // the value that CRC-32 is known by
}

void test_round_trip() {
  std::string bytes = add_texts("", texts(), "file");
  std::vector<StoredText> read = decode_texts(bytes, "file");
  std::vector<StoredText> wanted = texts();
  CHECK(read.size() == 2);
  for (size_t k = 0; k < read.size(); ++k) {
    CHECK(read[k].ns == wanted[k].ns);
    CHECK(read[k].source == wanted[k].source);
    CHECK(read[k].by_user == wanted[k].by_user);
    CHECK(read[k].definitions.size() == wanted[k].definitions.size());
    for (size_t i = 0; i < read[k].definitions.size(); ++i) {
      const StoredDefinition &a = read[k].definitions[i], &b = wanted[k].definitions[i];
      CHECK(a.name == b.name);
      CHECK(a.operator_name == b.operator_name);
      CHECK(a.key == b.key);
      CHECK(a.options == b.options);
      CHECK(a.derived == b.derived);
      CHECK(a.backward == b.backward);
    }
  }
  CHECK(decode_texts("", "file").empty());
  CHECK(add_texts(bytes, texts(), "file") == bytes);
  CHECK(add_texts(bytes, {}, "file") == bytes);
}

/// Every setter of every preset, alone.
void test_all_options() {
  struct Change {
    const char* name;
    std::vector<int64_t> values;
  };
  const Change changes[] = {{"tile", {0, 7}},
                            {"mapToThreads", {3, 2, 1}},
                            {"mapToBlocks", {5}},
                            {"unroll", {16}},
                            {"tileImperfectlyNested", {1}},
                            {"useSharedMemory", {1}},
                            {"useSharedMemory", {0}},
                            {"usePrivateMemory", {1}},
                            {"unrollCopyShared", {1}},
                            {"maxSharedMemory", {1 << 16}},
                            {"useReadOnlyCache", {1}},
                            {"matchLibraryCalls", {1}},
                            {"matchLibraryCalls", {0}},
                            {"fixParametersBeforeScheduling", {0}},
                            {"vectorize", {0}},
                            {"parallel", {0}}};
  for (const char* preset : {"default", "naive", "identity", "unmapped", "single_thread",
                             "pointwise", "mlp", "convolution", "group_convolution"}) {
    std::vector<MappingOptions> all = {make_options(preset)};
    for (const Change& change : changes) {
      all.push_back(make_options(preset));
      set_option(all.back(), change.name, change.values);
    }
    for (const char* word : {"Max", "Min", "Preserve3Coincident"})
      for (const char* name : {"outerScheduleFusionStrategy", "intraTileScheduleFusionStrategy"}) {
        all.push_back(make_options(preset));
        set_option(all.back(), name, std::string(word));
      }
    for (const MappingOptions& options : all) {
      StoredText text = make_text("tc", "def f(float(N) a) -> (b) { b(i) = a(i) }", true, {options},
                                  {"f__0123456789abcdef"});
      MappingOptions read =
          decode_texts(add_texts("", {text}, "file"), "file")[0].definitions[0].options;
      CHECK(read == options);
      CHECK(read.identity == options.identity);
    }
  }
}

void test_merging() {
  StoredText f = make_text("tc", "def f(float(N) a) -> (b) { b(i) = a(i) + 1 }", true,
                           {make_options("naive")}, {"f__0123456789abcdef"});
  std::string bytes = add_texts("", texts(), "file");
  CHECK(add_texts(bytes, {f}, "file") == bytes);  // one of two operators that are there
  f.ns = "other";
  std::string two = add_texts(bytes, {f}, "file");
  CHECK(decode_texts(two, "file").size() == 3);
  CHECK(decode_texts(two, "file")[2].ns == "other");
  f.definitions[0].derived = true;  // known later
  CHECK(decode_texts(add_texts(two, {f}, "file"), "file")[2].definitions[0].derived);
  CHECK(decode_texts(add_texts(two, {f}, "file"), "file").size() == 3);
}

/// A definition has one derivative, and is part of every pair that was saved.
void test_pairs() {
  std::vector<StoredText> first = texts(), second = texts();
  const std::string one = "tc_grad::h__fedcba9876543210_2", other = "tc::g__0123456789abcdef";
  first[0].definitions[0].add_pair(one);
  CHECK(first[0].definitions[0].backward == one);
  second[0].definitions[0].backward = other;
  second[0].definitions[0].add_pair(other);
  std::string bytes = add_texts(add_texts("", first, "file"), second, "file");
  StoredDefinition read = decode_texts(bytes, "file")[0].definitions[0];
  CHECK(read.backward == other);
  CHECK(read.pairs == (std::vector<std::string>{one, other}));
  CHECK(add_texts(bytes, second, "file") == bytes);
  // Files of before name one backward, which is a pair as well.
  CHECK(decode_texts(add_texts("", texts(), "file"), "file")[0].definitions[0].pairs ==
        std::vector<std::string>{one});
  second[0].definitions[0].add_pair("tc::missing");
  try {
    add_texts("", second, "file");
    CHECK(false);
  } catch (const CacheError& error) {
    CHECK(contains(error.what(), "backward of f in 'file' is tc::missing"));
  }
}

/// A whole text takes the place of its parts.
void test_parts_and_the_whole() {
  auto part = [](const std::string& name, const std::string& text) {
    return make_text("tc", "def " + name + text, true, {make_options("naive")},
                     {name + "__0123456789abcdef"});
  };
  StoredText f = part("f", "(float(N) a) -> (b) { b(i) = a(i) + 1 }");
  StoredText g = part("g", "(float(N) a) -> (b) { b(i) = 2 * a(i) }");
  StoredText other = part("h", "(float(N) a) -> (b) { b(i) = 3 * a(i) }");
  f.definitions[0].derived = true;
  std::string bytes = add_texts("", {f, other, g}, "file");
  StoredText whole = make_text("tc", kText, true, {make_options("naive"), make_options("naive")},
                               {"f__0123456789abcdef", "g__0123456789abcdef"});
  std::vector<StoredText> read = decode_texts(add_texts(bytes, {whole}, "file"), "file");
  CHECK(read.size() == 2);
  CHECK(read[0].source == kText);
  CHECK(read[0].definitions[0].derived);
  CHECK(!read[0].definitions[1].derived);
  CHECK(read[1].definitions[0].name == "h");
}

/// A field that this version does not know stays when others are added.
void test_additions_of_a_newer_version_stay() {
  std::string bytes = add_texts("", texts(), "file");
  std::string unknown = "\x72\x05hello";  // field 14, five bytes
  bytes.insert(bytes.size() - 5, unknown);
  bytes = with_checksum(bytes);
  CHECK(decode_texts(bytes, "file").size() == 2);
  StoredText other = make_text("other", "def f(float(N) a) -> (b) { b(i) = a(i) }", true,
                               {make_options("naive")}, {"f__0123456789abcdef"});
  std::string more = add_texts(bytes, {other}, "file");
  CHECK(decode_texts(more, "file").size() == 3);
  CHECK(contains(more, unknown));
}

void test_errors() {
  const std::string bytes = add_texts("", texts(), "file");
  CHECK(contains(error_of("hello"), "'file' is no file that tensor_comprehensions.save wrote"));
  CHECK(contains(error_of(bytes.substr(0, 10)), "is cut short: it has 10 bytes"));
  CHECK(contains(error_of(bytes.substr(0, bytes.size() - 1)), "is damaged or cut short"));
  std::string newer = bytes;
  size_t version = newer.find("tensor_comprehensions") + 21;
  CHECK(newer.compare(version, 2, "\x10\x01") == 0);
  newer[version + 1] = 7;
  CHECK(contains(error_of(newer), "checksum"));
  CHECK(contains(error_of(with_checksum(newer)), "version 7"));
  CHECK(contains(error_of(with_checksum(newer)), "reads up to 1"));

  std::vector<StoredText> wrong = texts();
  wrong[0].definitions[0].backward = "tc::missing";
  auto added = [&](const std::vector<StoredText>& what) {
    try {
      add_texts("", what, "file");
      return std::string();
    } catch (const CacheError& error) {
      return std::string(error.what());
    }
  };
  CHECK(contains(added(wrong), "backward of f in 'file' is tc::missing"));
  CHECK(added(texts()).empty());
  wrong = texts();
  wrong[0].definitions[0].operator_name = "relu";
  CHECK(contains(added(wrong), "the operator 'relu' for f"));
  wrong = texts();
  wrong[0].definitions[0].options.tile = {-1};
  CHECK(contains(added(wrong), "tile(-1)"));
  wrong = texts();
  wrong[1].ns = "no name";
  CHECK(contains(added(wrong), "'no name', which is no identifier"));
  wrong = texts();
  wrong[1].source += '\0';
  CHECK(contains(added(wrong), "a byte 0 in the text"));
  wrong[1].source.back() = '\xff';
  CHECK(contains(added(wrong), "a byte 255 in the text that is no character of UTF-8"));
  wrong = texts();
  wrong[0].definitions[0].options.outer_fusion = static_cast<FusionStrategy>(9);
  bool refused = false;
  try {
    add_texts("", wrong, "file");
  } catch (const InternalError&) {
    refused = true;
  }
  CHECK(refused);
}

/// Mutated messages with the checksum that they need to be looked at: CacheError, or a store whose
/// texts are then parsed as those of a store are.
void test_mutations(int count) {
  std::mt19937 random(7);
  auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  const std::string valid = add_texts("", texts(), "file");
  int refused = 0, read = 0;
  for (int k = 0; k < count; ++k) {
    std::string bytes = valid;
    for (size_t changes = 1 + below(4); changes > 0; --changes) {
      size_t at = below(bytes.size() - 5), length = std::min(below(12), bytes.size() - 5 - at);
      switch (below(5)) {
        case 0: bytes[at] = static_cast<char>(below(256)); break;
        case 1: bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8)); break;
        case 2: bytes.erase(at, length); break;
        case 3: bytes.insert(at, valid.substr(below(valid.size()), length)); break;
        case 4: bytes.replace(at, std::min<size_t>(5, length), "\xff\xff\xff\xff\x07"); break;
      }
      if (bytes.size() < 10) bytes = valid;
    }
    try {
      for (const StoredText& text : decode_texts(with_checksum(bytes), "file")) {
        tc_module* module = nullptr;
        tc_module_parse(text.source.c_str(), &module);
        tc_module_free(module);
      }
      ++read;
    } catch (const CacheError& error) {
      ++refused;
    }
  }
  CHECK(refused > count / 4);
  CHECK(read > 0);
}

/// A process that was forked meanwhile has the descriptor of the lock as long as it lives.
void test_a_child_of_the_holder_keeps_nobody_waiting() {
  std::string folder = (std::filesystem::temp_directory_path() / "tc_lock_XXXXXX").string();
  CHECK(mkdtemp(folder.data()) != nullptr);
  const std::string path = folder + "/file";
  pid_t idle = 0, next = 0;
  update_file(path, [&](const std::string&) {
    if ((idle = fork()) == 0) {
      pause();
      _exit(0);
    }
    if ((next = fork()) == 0) {
      update_file(path, [](const std::string& bytes) { return bytes + "second"; });
      _exit(0);
    }
    usleep(200000);  // until it waits
    return std::string("first ");
  });
  int status = 0;
  pid_t ended = 0;
  for (int k = 0; k < 1000 && ended == 0; ++k) {
    usleep(10000);
    ended = waitpid(next, &status, WNOHANG);
  }
  CHECK_EQ(ended, next);
  CHECK_EQ(status, 0);
  CHECK_EQ(tc::store::read_file(path, tc::store::Missing::Error), std::string("first second"));
  if (ended == 0) kill(next, SIGKILL);
  kill(idle, SIGKILL);
  waitpid(idle, &status, 0);
  std::filesystem::remove_all(folder);
}

/// One that is killed leaves the lock, and others have to be able to take it.
void test_all_users_may_take_the_lock() {
  std::string folder = (std::filesystem::temp_directory_path() / "tc_lock_XXXXXX").string();
  CHECK(mkdtemp(folder.data()) != nullptr);
  const std::string path = folder + "/file";
  const mode_t before = umask(077);
  struct stat lock = {}, file = {};
  update_file(path, [&](const std::string&) {
    CHECK_EQ(stat((path + ".lock").c_str(), &lock), 0);
    return std::string("contents");
  });
  umask(before);
  CHECK_EQ(lock.st_mode & 0777, mode_t{0644});
  CHECK_EQ(stat(path.c_str(), &file), 0);
  CHECK_EQ(file.st_mode & 0777, mode_t{0600});
  std::filesystem::remove_all(folder);
}

}  // namespace

int main(int argc, char** argv) {
  test_checksum();
  test_round_trip();
  test_all_options();
  test_merging();
  test_pairs();
  test_parts_and_the_whole();
  test_additions_of_a_newer_version_stay();
  test_errors();
  test_a_child_of_the_holder_keeps_nobody_waiting();
  test_all_users_may_take_the_lock();
  test_mutations(argc > 1 ? std::atoi(argv[1]) : 5000);
  return check::finish();
}

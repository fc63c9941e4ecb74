// Mutated texts through the frontend: parser, checks, canonical text, formatter, size inference.
//
//   fuzz_parser [count] [seed] [seconds]     until one of the two is reached
//   fuzz_parser --text FILE                  one text, in this process
//
// Every text must be taken or refused with a message, within seconds and without memory kept. The
// texts run in child processes, so that a crash, a hang or a leak is known by its text, which is
// shrunk and printed. Built with AddressSanitizer (make asan) it sees more.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "api/error.h"
#include "equal_trees.h"
#include "fuzz_seeds.h"
#include "lang/lowering/definition.h"
#include "lang/syntax/formatter.h"
#include "lang/syntax/parser.h"
#include "random_texts.h"
#include "tc/tc.h"

extern "C" const char* __asan_default_options() {
  return "detect_leaks=1:detect_stack_use_after_return=0:hard_rss_limit_mb=3072:"
         "max_allocation_size_mb=1024:quarantine_size_mb=32";
}

extern "C" const char* __ubsan_default_options() { return "halt_on_error=1:print_stacktrace=1"; }

namespace {

using tc_test::Random;

constexpr unsigned kSecondsForOne = 20;
constexpr long kMegabytesForOne = 512;
constexpr size_t kLongestText = 1 << 16;
constexpr size_t kBatch = 2000;

// ---- one text

/// What is wrong with a status; empty for the three that a text may give.
std::string problem_of(tc_status status, const char* stage) {
  std::string message = tc_error_message();
  if (status == TC_OK || status == TC_SHAPE_ERROR) return "";
  if (status != TC_LANGUAGE_ERROR) {
    return std::string(stage) + ": status " + std::to_string(status) + ": " + message;
  }
  if (tc_error_line() >= 1 && tc_error_column() >= 1) return "";
  return std::string(stage) + ": an error without a place: " + message;
}

/// Sizes for inputs with random small sizes, and for scalars small values.
std::string infer_sizes(const tc_definition* definition, Random* random) {
  int32_t count = tc_definition_input_count(definition);
  std::vector<DLTensor> tensors(count);
  std::vector<std::vector<int64_t>> shapes(count);
  std::vector<int64_t> values(count);
  std::vector<const DLTensor*> inputs;
  std::map<std::string, int64_t> sizes;
  for (int32_t i = 0; i < count; ++i) {
    tc_argument argument;
    if (tc_definition_input(definition, i, &argument) != TC_OK) return "no input";
    for (int32_t d = 0; d < argument.ndim; ++d) {
      const char* text = nullptr;
      if (tc_definition_input_dimension(definition, i, d, &text) != TC_OK) return "no dimension";
      // A name may begin with digits too, so some sizes are large.
      bool constant = text[0] == '-' || (text[0] >= '0' && text[0] <= '9');
      int64_t size = constant ? std::strtoll(text, nullptr, 10) : random->below(10);
      shapes[i].push_back(sizes.emplace(text, size).first->second);
    }
    values[i] = static_cast<int64_t>(random->below(6)) - 1;
    tensors[i].data = argument.is_scalar ? &values[i] : nullptr;
    tensors[i].device = {kDLCPU, 0};
    tensors[i].ndim = argument.ndim;
    tensors[i].dtype = argument.dtype;
    tensors[i].shape = shapes[i].data();
    inputs.push_back(&tensors[i]);
  }
  std::vector<int32_t> ranks;
  int32_t total = 0;
  for (int32_t i = 0; i < tc_definition_output_count(definition); ++i) {
    tc_argument argument;
    if (tc_definition_output(definition, i, &argument) != TC_OK) return "no output";
    ranks.push_back(argument.ndim);
    total += argument.ndim;
  }
  std::vector<int64_t> results(total + 1);
  std::string problem = problem_of(
      tc_infer_sizes(definition, inputs.data(), count, results.data(), total), "infer_sizes");
  for (size_t i = 0; i < ranks.size() && problem.empty(); ++i) {
    for (int32_t d = 0; d < ranks[i] && problem.empty(); ++d) {
      const char* text = nullptr;
      problem = problem_of(tc_output_size_expression(definition, inputs.data(), count,
                                                     static_cast<int32_t>(i), d, &text),
                           "output_size_expression");
    }
  }
  return problem;
}

/// The canonical text of a definition must be taken, and be its own canonical text.
std::string check_canonical(const tc_definition* definition) {
  tc_module* module = nullptr;
  std::string text = tc_definition_text(definition);
  if (tc_module_parse(text.c_str(), &module) != TC_OK) {
    return "the canonical text is refused: " + std::string(tc_error_message()) + "\n" + text;
  }
  const tc_definition* again = tc_module_definition(module, 0);
  std::string problem;
  if (tc_definition_text(again) != text) problem = "the canonical text has another:\n" + text;
  if (std::string(tc_definition_key(again)) != tc_definition_key(definition)) {
    problem = "the canonical text has another key:\n" + text;
  }
  tc_module_free(module);
  return problem;
}

std::string check_format(const std::string& text, const tc_module* module) {
  const char* result = nullptr;
  tc_status status = tc_format(text.c_str(), &result);
  if (status == TC_LANGUAGE_ERROR && !module) return problem_of(status, "format");
  if (status != TC_OK)
    return "a text is taken but not formatted: " + std::string(tc_error_message());
  std::string formatted = result;
  if (tc_format(formatted.c_str(), &result) != TC_OK)
    return "formatted, then refused:\n" + formatted;
  if (formatted != result) return "formatted twice:\n" + formatted + "\nis now\n" + result;
  std::vector<tc::lang::Function> before = tc::lang::parse_text(text);
  std::vector<tc::lang::Function> after = tc::lang::parse_text(formatted);
  bool same = before.size() == after.size();
  for (size_t i = 0; same && i < before.size(); ++i) {
    same = tc_test::equal_trees(before[i], after[i]);
  }
  return same ? "" : "formatting changes the tree:\n" + formatted;
}

/// What is wrong with how a text was dealt with; nothing, mostly.
std::string check_text(const std::string& text, uint64_t seed, size_t* taken) {
  if (text.find('\0') != std::string::npos) {
    // The C interface would see the part before it.
    tc_status status = tc::api::guarded([&] {
      tc::lang::format(text);
      tc::lang::parse(text);
    });
    return problem_of(status, "parse");
  }
  tc_module* module = nullptr;
  std::string problem = problem_of(tc_module_parse(text.c_str(), &module), "parse");
  if (problem.empty()) problem = check_format(text, module);
  Random random(seed);
  *taken += module != nullptr;
  for (int32_t i = 0; i < tc_module_size(module) && problem.empty(); ++i) {
    const tc_definition* definition = tc_module_definition(module, i);
    problem = check_canonical(definition);
    if (problem.empty()) problem = infer_sizes(definition, &random);
  }
  tc_module_free(module);
  return problem;
}

// ---- children

/// What a child leaves for its parent.
struct Shared {
  size_t done, size, taken;
  bool finished;  ///< all texts of the batch; what is wrong then shows at the end of the process
  char text[kLongestText];
  char problem[4096];
};
Shared* shared = nullptr;

long peak_megabytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

/// Of the process's own time, since others may have the machine.
void set_alarm(unsigned seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = seconds;
  setitimer(ITIMER_PROF, &timer, nullptr);
}

void run_one(const std::string& text, uint64_t seed) {
  shared->size = std::min(text.size(), kLongestText);
  std::memcpy(shared->text, text.data(), shared->size);
  long before = peak_megabytes();
  set_alarm(kSecondsForOne);
  std::string problem = check_text(text, seed, &shared->taken);
  set_alarm(0);
  if (problem.empty() && peak_megabytes() > before + kMegabytesForOne) {
    problem = "took " + std::to_string(peak_megabytes() - before) + " MB";
  }
  if (problem.empty()) return;
  std::snprintf(shared->problem, sizeof shared->problem, "%s", problem.c_str());
  _exit(2);
}

/// Runs a body in a child. What ended it, in words that are the same for the same cause.
std::string in_child(const std::function<void()>& body, bool silent) {
  shared->problem[0] = '\0';
  std::cout.flush();
  pid_t child = fork();
  if (child < 0) {
    std::perror("fork");
    std::exit(1);
  }
  if (child == 0) {
    if (silent && !std::freopen("/dev/null", "w", stderr)) _exit(1);
    body();
    std::exit(0);  // not _exit: leaks are looked for here
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) return shared->problem;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF) return "no answer in time";
  return "ended with status " + std::to_string(status);
}

/// The kind of a problem, without what depends on the text.
std::string kind_of(const std::string& problem) { return problem.substr(0, problem.find(':')); }

/// Delta debugging: leaves out pieces, ever smaller ones, as long as the problem stays.
std::string shrink(std::string text, uint64_t seed, const std::string& problem) {
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  auto in_time = [&] { return std::chrono::steady_clock::now() < deadline; };
  auto still_there = [&](const std::string& candidate) {
    std::string found = in_child([&] { run_one(candidate, seed); }, true);
    return !found.empty() && kind_of(found) == kind_of(problem);
  };
  size_t piece = std::max<size_t>(1, text.size() / 2);
  for (bool smaller = true; in_time() && (smaller || piece > 1);) {
    if (!smaller) piece /= 2;
    smaller = false;
    for (size_t at = 0; at < text.size() && in_time();) {
      std::string candidate = text;
      candidate.erase(at, piece);
      if (still_there(candidate)) {
        text = candidate;
        smaller = true;
      } else {
        at += piece;
      }
    }
  }
  return text;
}

std::string escaped(const std::string& text) {
  std::string result = "\"";
  char code[8];
  for (unsigned char c : text) {
    if (c == '\n') {
      result += "\\n\"\n\"";
    } else if (c == '"' || c == '\\') {
      result += std::string("\\") + static_cast<char>(c);
    } else if (c < 0x20 || c >= 0x7f) {
      std::snprintf(code, sizeof code, "\\%03o", c);
      result += code;
    } else {
      result += static_cast<char>(c);
    }
  }
  return result + "\"";
}

void report(const std::string& text, uint64_t seed, const std::string& problem) {
  std::cout << "seed " << seed << ", " << text.size() << " bytes: " << problem << std::endl;
  std::string small = shrink(text, seed, problem);
  std::cout << "shrunk to " << small.size() << " bytes:\n" << escaped(small) << std::endl;
  in_child([&] { run_one(small, seed); }, false);
  if (shared->problem[0]) std::cout << shared->problem << std::endl;
}

/// One process and one text, for a debugger.
int run_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  size_t taken = 0;
  std::string problem = check_text(content.str(), 1, &taken);
  std::cout << (problem.empty() ? "no problem" : problem) << "\n";
  return problem.empty() ? 0 : 1;
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count == 3 && std::strcmp(arguments[1], "--text") == 0)
    return run_file(arguments[2]);
  auto number = [&](int at, uint64_t otherwise) {
    return argument_count > at ? std::strtoull(arguments[at], nullptr, 10) : otherwise;
  };
  uint64_t count = number(1, 10000), first = number(2, 1), seconds = number(3, 1 << 30);
  shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (shared == MAP_FAILED) return 1;
  std::vector<std::string> seeds = tc_test::find_seeds(TC_SOURCE_DIRECTORY);
  std::cout << seeds.size() << " texts to start from, seed " << first << std::endl;
  if (seeds.size() < 100) return 1;  // a moved folder would leave nothing to mutate

  auto begin = std::chrono::steady_clock::now();
  auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  auto text_of = [&](uint64_t seed) {
    Random random(seed * 0x9e3779b97f4a7c15);
    return tc_test::mutated(seeds, &random).substr(0, kLongestText);
  };
  uint64_t at = 0, failures = 0;
  while (at < count && elapsed() < seconds && failures < 20) {
    uint64_t end = std::min(count, at + kBatch);
    shared->done = at;
    shared->finished = false;
    auto batch = [&] {
      for (uint64_t i = at; i < end && elapsed() < seconds; ++i) {
        run_one(text_of(first + i), first + i);
        shared->done = i + 1;
      }
      shared->finished = true;
    };
    std::string problem = in_child(batch, false);
    if (!problem.empty()) {
      ++failures;
      if (!shared->finished) {
        report(std::string(shared->text, shared->size), first + shared->done, problem);
        at = shared->done + 1;
        continue;
      }
      // Leaks show at the end of a process: find the first text that leaves one.
      for (uint64_t i = at; i < shared->done; ++i) {
        std::string text = text_of(first + i);
        std::string alone = in_child([&] { run_one(text, first + i); }, true);
        if (alone.empty()) continue;
        report(text, first + i, alone);
        break;
      }
    }
    at = shared->done;
    if (end % (50 * kBatch) == 0) std::cout << end << " texts, " << elapsed() << " s" << std::endl;
  }
  std::cout << at << " texts, " << shared->taken << " of them taken, " << failures << " problems, "
            << elapsed() << " s" << std::endl;
  return failures == 0 && shared->taken > 0 ? 0 : 1;
}

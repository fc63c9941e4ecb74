#include "base/log.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/notes.h"
#include "base/suggest.h"
#include "base/threads/task.h"

namespace tc {
namespace {

std::atomic<LogSink> sink{nullptr};

std::string list_topics() {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const LogTopic& topic : log_topics()) rows.emplace_back(topic.name, topic.meaning);
  return "it takes topics, separated by commas:\n" + table(rows);
}

/// The topics that the environment names; `told` is what to say of the others.
std::set<std::string> enabled_topics(std::vector<std::string>& told) {
  std::set<std::string> topics;
  const char* given = std::getenv("TC_LOGS");
  std::stringstream list(given ? given : "");
  std::vector<std::string> known;
  for (const LogTopic& topic : log_topics()) known.push_back(topic.name);
  for (std::string entry; std::getline(list, entry, ',');) {
    entry = without_blanks(entry);
    if (entry.empty()) continue;
    if (entry == "help") {
      told.push_back(list_topics());
    } else if (std::count(known.begin(), known.end(), entry)) {
      topics.insert(entry);
    } else {
      told.push_back(concat("no topic is called '", entry, "'", known_names(entry, known)));
    }
  }
  return topics;
}

/// Topics that are on: those of the environment, until somebody changes that.
struct Topics {
  Topics() : on(enabled_topics(told)), any(!on.empty()) {}
  std::vector<std::string> told;
  std::mutex mutex;
  std::set<std::string> on;
  std::atomic<bool> any;
};

/// Never destroyed: tasks may log while the process ends.
Topics& topics() {
  static std::atomic<bool> is_new{true};
  static auto* all = new Topics;
  // Whoever is told may come back here, which needs the topics to be there.
  if (is_new.exchange(false))
    for (const std::string& each : all->told) log("TC_LOGS", each);
  return *all;
}

}  // namespace

const std::vector<LogTopic>& log_topics() {
  static const std::vector<LogTopic> all = {
      {"all", "every topic"},
      {"code", "what is wrong with compiled code on disk; always told where there is a sink"},
      {"cuda", "the CUDA C that NVRTC is given"},
      {"explain", "what was decided for a kernel, and why, as Executor.explain() says it"},
      {"help", "this list"},
      {"loop_nest", "the loops of a kernel, with what each of them is"},
      {"pass_values", "what a pass made, where it changed something"},
      {"passes", "every pass that ran, whether it changed something, and how long it took"},
      {"program", "the statements of a definition with their ranges"},
      {"progress",
       "what takes longer than a second, while it does; always told where there is a sink"},
      {"schedule_tree", "isl's schedule tree after mapping"},
      {"stages", "how long each stage of a compilation took"},
      {"stmt", "the Halide statement that code is generated from"},
      {"tuned", "which kernels have Plans that tuning found; always told where there is a sink"},
  };
  return all;
}

bool log_enabled(const char* topic) {
  Topics& all = topics();
  if (!all.any) return false;
  std::lock_guard<std::mutex> lock(all.mutex);
  return all.on.count("all") || all.on.count(topic);
}

void set_log_topic(const std::string& topic, bool on) {
  std::vector<std::string> known;
  for (const LogTopic& each : log_topics()) known.push_back(each.name);
  if (std::count(known.begin(), known.end(), topic) == 0)
    throw UsageError("no topic of the log is called '", topic, "'; there are ", enumerate(known));
  Topics& all = topics();
  std::lock_guard<std::mutex> lock(all.mutex);
  if (on)
    all.on.insert(topic);
  else
    all.on.erase(topic);
  all.any = !all.on.empty();
}

void log(const char* topic, const std::string& message) {
  if (LogSink target = sink.load()) {
    const Task::Rest rest;  // the sink may need the lock of an interpreter that forks
    target(topic, message.c_str());
  } else {
    std::fprintf(stderr, "[tc:%s] %s\n", topic, message.c_str());
  }
}

void tell(const char* topic, const std::string& message) {
  if (sink.load() || log_enabled(topic)) log(topic, message);
}

void set_log_sink(LogSink target) {
  sink.store(target);
  topics();
}

void StageClock::done(const char* stage) {
  auto now = std::chrono::steady_clock::now();
  const double milliseconds = std::chrono::duration<double, std::milli>(now - last_).count();
  auto known = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return std::strcmp(entry.stage, stage) == 0;
  });
  if (known == entries_.end())
    entries_.push_back({stage, milliseconds});
  else
    known->milliseconds += milliseconds;
  last_ = now;
  Task::set_step(stage);
  Task::leave_if_cancelled();
}

std::string StageClock::summary() const {
  std::string text;
  double total = 0;
  char buffer[64];
  for (const Entry& entry : entries_) {
    std::snprintf(buffer, sizeof buffer, "%s %.2f ms, ", entry.stage, entry.milliseconds);
    text += buffer;
    total += entry.milliseconds;
  }
  std::snprintf(buffer, sizeof buffer, "total %.2f ms", total);
  return text + buffer;
}

}  // namespace tc

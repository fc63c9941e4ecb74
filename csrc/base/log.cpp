#include "base/log.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sstream>

#include "base/task.h"

namespace tc {
namespace {

std::set<std::string> enabled_topics() {
  std::set<std::string> topics;
  if (const char* variable = std::getenv("TC_LOGS")) {
    std::stringstream list(variable);
    for (std::string topic; std::getline(list, topic, ',');) topics.insert(topic);
  }
  return topics;
}

std::atomic<LogSink> sink{nullptr};

}  // namespace

bool log_enabled(const char* topic) {
  static const std::set<std::string> topics = enabled_topics();
  return !topics.empty() && (topics.count("all") || topics.count(topic));
}

void log(const char* topic, const std::string& message) {
  if (LogSink target = sink.load()) {
    target(topic, message.c_str());
  } else {
    std::fprintf(stderr, "[tc:%s] %s\n", topic, message.c_str());
  }
}

void set_log_sink(LogSink target) { sink.store(target); }
bool log_has_sink() { return sink.load() != nullptr; }

StageClock::StageClock() : last_(std::chrono::steady_clock::now()) {}

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

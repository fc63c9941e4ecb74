// Logging, switched by the environment: TC_LOGS=stages,explain,... (comma separated).
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace tc {

/// What TC_LOGS can ask for.
struct LogTopic {
  const char* name;
  const char* meaning;
};
const std::vector<LogTopic>& log_topics();

/// Whether TC_LOGS names this topic, or all of them.
bool log_enabled(const char* topic);

/// Switches a topic on or off, whatever TC_LOGS says. UsageError where there is none of that name.
void set_log_topic(const std::string& topic, bool on);

/// Writes one message to the log sink (stderr unless the host replaced it).
void log(const char* topic, const std::string& message);

/// Writes what is told where its topic is on, and always where the host has a sink.
void tell(const char* topic, const std::string& message);

/// Replaces the sink; null restores stderr. Bindings route it to the host's logging. What TC_LOGS
/// asks for that does not exist is said once, here or at the first question for a topic.
using LogSink = void (*)(const char* topic, const char* message);
void set_log_sink(LogSink sink);

/// Wall time of consecutive stages of one compilation.
class StageClock {
 public:
  /// Closes the stage that ran since the last call under this name; where a stage runs several
  /// times, its times are added up. A task that is cancelled ends here.
  void done(const char* stage);
  struct Entry {
    const char* stage;
    double milliseconds;
  };
  const std::vector<Entry>& entries() const { return entries_; }
  /// "scop 0.4 ms, dependences 1.2 ms, ...; total 31.0 ms".
  std::string summary() const;

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::vector<Entry> entries_;
};

}  // namespace tc

// Lists of passes, and the record of what each pass did: TC_LOGS=passes.
#pragma once

#include <chrono>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "base/threads/task.h"

namespace tc {

/// A pass by its name and that of its list. Those at namespace scope are known, and told of by
/// TC_LOGS=passes, before anything runs.
class Pass {
 public:
  /// `place`: why it stands where it does.
  Pass(const char* list, const char* name, const char* place = "");
  const char* list() const { return list_; }
  const char* name() const { return name_; }

 private:
  const char* list_;
  const char* name_;
};

/// Whether anybody wants to know what passes do. Where nobody does, nothing is measured or
/// compared.
bool records_passes();
/// Whether values are wanted as well as names: TC_LOGS=pass_values.
bool records_pass_values();
void record_pass(const Pass& pass, bool changed, double milliseconds);
void record_pass_value(const Pass& pass, const std::string& value);

class PassTimer {
 public:
  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Runs a pass that is entered from somewhere inside a stage, or a choice among several ways:
/// `changed` tells from its result whether it did something.
template <class Work, class Changed>
auto run_pass(const Pass& pass, Work work, Changed changed) -> decltype(work()) {
  if (!records_passes()) return work();
  const PassTimer timer;
  auto result = work();
  record_pass(pass, changed(result), timer.milliseconds());
  return result;
}

/// The same of one whose result is true, or something, where it did something.
template <class Work>
auto run_pass(const Pass& pass, Work work) -> decltype(work()) {
  return run_pass(pass, std::move(work), [](const auto& result) -> bool { return bool(result); });
}

/// The same of one that does something whenever it runs, and says nothing about it.
template <class Work>
void run_always(const Pass& pass, Work work) {
  const PassTimer timer;
  work();
  if (records_passes()) record_pass(pass, true, timer.milliseconds());
}

/// Passes that change a value one after the other. Context is what they know beside it.
template <class Value, class Context>
class PassList {
 public:
  struct Entry {
    const char* name;
    /// What it needs or gives that decides its place in the list, for whoever moves it.
    const char* place;
    void (*run)(Value&, Context&);
    /// Whether it is to run at all; always where there is none.
    bool (*when)(const Context&) = nullptr;
  };
  /// `same` compares values, `text` prints them.
  PassList(const char* name, bool (*same)(const Value&, const Value&),
           std::string (*text)(const Value&), std::initializer_list<Entry> entries)
      : same_(same), text_(text), entries_(*new std::vector<Entry>(entries)) {
    for (const Entry& entry : entries_) passes_.emplace_back(name, entry.name, entry.place);
  }

  /// A task that is cancelled ends between two passes.
  void run(Value& value, Context& context) const {
    for (size_t k = 0; k < entries_.size(); ++k) {
      if (entries_[k].when && !entries_[k].when(context)) continue;
      Task::leave_if_cancelled();
      if (records_passes())
        record(k, value, context);
      else
        entries_[k].run(value, context);
    }
  }

 private:
  void record(size_t k, Value& value, Context& context) const {
    const Value before = value;
    const PassTimer timer;
    entries_[k].run(value, context);
    const double milliseconds = timer.milliseconds();
    const bool changed = !same_(before, value);
    record_pass(passes_[k], changed, milliseconds);
    if (changed && records_pass_values()) record_pass_value(passes_[k], text_(value));
  }

  bool (*const same_)(const Value&, const Value&);
  std::string (*const text_)(const Value&);
  // Never destroyed: when a process ends, tasks may still be at work.
  const std::vector<Entry>& entries_;
  std::vector<Pass>& passes_ = *new std::vector<Pass>;
};

}  // namespace tc

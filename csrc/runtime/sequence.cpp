#include "runtime/sequence.h"

#include <optional>
#include <set>

#include "base/error.h"
#include "runtime/libraries.h"

namespace tc::runtime {
namespace {

class Sequence : public Kernel {
 public:
  Sequence(std::vector<Step> steps, size_t arguments, std::vector<Workspace> temporaries,
           const tc_libraries* library)
      : steps_(std::move(steps)),
        arguments_(arguments),
        temporaries_(std::move(temporaries)),
        library_(library) {}

  void launch(const tc_host& host, void* const* pointers) const override {
    Workspaces temporaries(host, temporaries_);
    std::vector<void*> mine;
    std::optional<BadIndex> bad;
    for (const Step& step : steps_) {
      mine.clear();
      for (size_t place : step.arguments)
        mine.push_back(place < arguments_ ? pointers[place]
                                          : temporaries.pointers[place - arguments_]);
      if (!step.kernel) {
        run(*library_, step.call, mine[0], mine[1], mine[2]);
        continue;
      }
      try {
        step.kernel->launch(host, mine.data());
      } catch (const BadIndex& found) {
        bad = found;  // the run is whole all the same, as that of one kernel is
      }
    }
    if (bad) throw *bad;
  }

  std::string text(const std::string& what) const override {
    static const std::set<std::string> joined = {"schedule_tree", "loop_nest", "stmt", "assembly"};
    if (!joined.count(what) || make_texts) return Kernel::text(what);
    std::string all;
    for (const Step& step : steps_)
      all += step.kernel ? step.kernel->text(what)
                         : concat("# ", library_->name, ": ", ir::to_string(step.call), "\n");
    return all;
  }

  int64_t bytes() const override {
    int64_t total = Kernel::bytes();
    for (const Step& step : steps_) total += step.kernel ? step.kernel->bytes() : 0;
    return total;
  }

 private:
  std::vector<Step> steps_;
  size_t arguments_;
  std::vector<Workspace> temporaries_;
  const tc_libraries* library_;
};

}  // namespace

std::shared_ptr<Kernel> make_sequence(std::vector<Step> steps, size_t arguments,
                                      std::vector<Workspace> temporaries,
                                      const tc_libraries* library) {
  return std::make_shared<Sequence>(std::move(steps), arguments, std::move(temporaries), library);
}

}  // namespace tc::runtime

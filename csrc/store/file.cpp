#include "store/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/threads/task.h"
#include "store/descriptor.h"

namespace tc::store {
namespace {

[[noreturn]] void fail(const char* action, const std::string& path, int error,
                       const std::string& advice = "") {
  throw CacheError("cannot ", action, " '", path, "': ", std::generic_category().message(error),
                   advice.empty() ? "" : "; ", advice);
}

// Between two looks at a lock that another process holds: at first, and at most, which is some of
// what Ctrl-C may take to have an effect.
constexpr auto kFirstPause = std::chrono::milliseconds(1), kPause = std::chrono::milliseconds(50);
constexpr auto kLong = std::chrono::seconds(2);

/// Held by one process at a time: a file beside the one that is changed, since that one is
/// replaced. It goes when it is let go; one that a killed process left behind is in nobody's way.
class Lock {
 public:
  Lock(const std::string& path, const std::string& shown) : path_(path) {
    for (;;) {
      open(shown);
      take();
      // Whoever held it before may have removed it meanwhile; then another has a new one.
      struct stat held, there;
      if (fstat(descriptor_->get(), &held) == 0 && stat(path.c_str(), &there) == 0 &&
          held.st_dev == there.st_dev && held.st_ino == there.st_ino)
        return;
    }
  }
  ~Lock() {
    unlink(path_.c_str());
    // A process that was forked meanwhile has the lock, too, as long as it lives.
    flock(descriptor_->get(), LOCK_UN);
  }

 private:
  bool open(int flags) {
    descriptor_ = std::make_unique<Descriptor>(path_, flags | O_NOFOLLOW | O_NONBLOCK);
    return static_cast<bool>(*descriptor_);
  }

  /// The file that is there, or a new one.
  void open(const std::string& shown) {
    for (;;) {
      // NFS locks only what may be written. Another user's, who was killed, may be read at least;
      // and with O_CREAT some systems refuse those in folders such as /tmp.
      if (open(O_RDWR) || (errno == EACCES && open(O_RDONLY))) return;
      if (errno == ENOENT && open(O_RDWR | O_CREAT | O_EXCL)) {
        struct stat made;
        // It has nothing to hide, whatever files do that this user makes.
        if (fstat(descriptor_->get(), &made) == 0)
          (void)!fchmod(descriptor_->get(), (made.st_mode & 07777) | 0444);
        return;
      }
      if (errno != EEXIST)
        fail("write", shown, errno, concat("saving makes files beside it, as '", path_, "'"));
    }
  }

  /// Waits for it, and asks the host meanwhile whether to go on.
  void take() {
    const auto start = std::chrono::steady_clock::now();
    std::chrono::milliseconds pause = kFirstPause;
    bool told = false;
    while (flock(descriptor_->get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) fail("lock", path_, errno);
      leave_if_interrupted();
      if (!told && std::chrono::steady_clock::now() - start > kLong) {
        told = true;
        tell("progress", concat("waiting for '", path_, "', which another process holds"));
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, kPause);
    }
  }

  std::string path_;
  std::unique_ptr<Descriptor> descriptor_;
};

/// Of a link, what it points to, which is what is replaced; it need not be there yet.
std::filesystem::path behind_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // as the system follows
  std::error_code error;
  std::filesystem::path resolved = std::filesystem::absolute(path, error);
  if (error) fail("write", path, error.value());
  for (int k = 0; std::filesystem::is_symlink(resolved, error); ++k) {
    if (k == kMostLinks) fail("write", path, ELOOP);
    const std::filesystem::path target = std::filesystem::read_symlink(resolved, error);
    if (error) fail("write", path, error.value());
    resolved = resolved.parent_path() / target;  // the target alone, where it is absolute
  }
  resolved = std::filesystem::weakly_canonical(resolved, error);
  if (error) fail("write", path, error.value());
  return resolved;
}

}  // namespace

std::string read_file(const std::string& path, Missing missing) {
  // Without O_NONBLOCK a pipe would be waited for.
  Descriptor file(path, O_RDONLY | O_NONBLOCK);
  if (!file && errno == ENOENT && missing == Missing::Empty) return "";
  if (!file)
    fail("read", path, errno, errno == ENOENT ? "tensor_comprehensions.save writes it" : "");
  struct stat status;
  if (fstat(file.get(), &status) != 0) fail("read", path, errno);
  if (S_ISDIR(status.st_mode)) fail("read", path, EISDIR, "a file was expected");
  if (!S_ISREG(status.st_mode))
    throw CacheError("cannot read '", path, "': it is a device or a pipe, not a file");
  if (status.st_size > INT_MAX)  // what a message may have
    throw CacheError("cannot read '", path, "': it has ", status.st_size,
                     " bytes, and a store has ", INT_MAX, " at most");
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  if (!file.read_all(bytes)) fail("read", path, errno);
  return bytes;
}

void update_file(const std::string& path,
                 const std::function<std::string(const std::string&)>& change) {
  const std::filesystem::path resolved = behind_links(path);
  const std::string& target = resolved.native();
  Lock lock(target + ".lock", path);
  std::string before = read_file(target, Missing::Empty);
  std::string after = change(before);
  if (after == before) return;

  // The lock is ours, and so is the name: what a killed process left there is removed.
  const std::string temporary = target + ".tmp";
  unlink(temporary.c_str());
  try {
    Descriptor file(temporary, O_WRONLY | O_CREAT | O_EXCL);
    if (!file) fail("write", path, errno, concat("no file '", temporary, "' can be made"));
    struct stat status;
    if (stat(target.c_str(), &status) == 0 && fchmod(file.get(), status.st_mode & 07777) != 0)
      fail("write", path, errno);
    if (!file.write_all(after) || fsync(file.get()) != 0)
      fail("write", path, errno, "what was there before is still there");
    if (rename(temporary.c_str(), target.c_str()) != 0) fail("write", path, errno);
  } catch (...) {
    unlink(temporary.c_str());
    throw;
  }
  // The new name reaches the disk with the directory. Some file systems cannot do that; then the
  // old file or the new one is there after a loss of power, as anywhere else.
  Descriptor directory(resolved.parent_path().native(), O_RDONLY | O_DIRECTORY);
  if (directory) fsync(directory.get());
}

}  // namespace tc::store

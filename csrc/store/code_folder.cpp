#include "store/code_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>
#include <vector>

#include "base/checksum.h"
#include "base/error.h"
#include "base/log.h"
#include "base/threads/leaf_mutex.h"
#include "store/descriptor.h"

namespace tc::store {
namespace {

// A file is this, the CRC-32 of all that follows, the length of the key, the key, and the bytes.
constexpr char kMagic[] = "TCCODE1\n";
constexpr size_t kMagicSize = sizeof kMagic - 1, kHeader = kMagicSize + 4 + 8;
constexpr char kEnding[] = ".tccode", kUnfinished[] = ".unfinished";
// A file that is larger is no code of ours.
constexpr int64_t kMostFile = int64_t{1} << 28;
// Seconds after which nobody writes to an unfinished file any more.
constexpr time_t kAbandoned = 3600;
// What a folder that is too large is brought down to; others, who write as well, are counted anew
// after so many files.
constexpr double kLeft = 0.8;
constexpr int kCountAnew = 64;

struct Folder {
  LeafMutex mutex;
  bool is_set = false;
  std::string path;
  int64_t most_bytes = kMostCodeBytes;
  int64_t bytes = 0;  ///< that it held when it was last counted, and what was written since
  int until_counted = 0;
  std::set<std::string> told;
};

/// Never destroyed: compilations may go on while the process ends.
Folder& folder = *new Folder;

std::string message(int error) { return std::generic_category().message(error); }

void tell_once(const std::string& text) {
  {
    const LeafLock lock(folder.mutex);
    if (!folder.told.insert(text).second) return;
  }
  tell("code", text);
}

/// Whether nobody else could have written it.
bool is_own(const struct stat& status) {
  return status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// The home of who runs this: also where the environment does not say it. CacheError.
std::string home_folder(const std::string& path) {
  if (const char* home = std::getenv("HOME"); home && *home) return home;
  std::string buffer(size_t{1} << 14, '\0');
  struct passwd entry;
  struct passwd* found = nullptr;
  getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &found);
  if (!found || !found->pw_dir || !*found->pw_dir)
    throw CacheError("cannot keep compiled code in '", path, "': HOME is not set, and user ",
                     geteuid(), " has no home; set HOME, or pass a path from the root");
  return found->pw_dir;
}

/// A path that means the same when the process goes to another directory; ~ is the home.
/// CacheError.
std::string whole_path(const std::string& path) {
  const bool of_home = path == "~" || path.compare(0, 2, "~/") == 0;
  if (!of_home && path.compare(0, 1, "~") == 0)
    throw CacheError("cannot keep compiled code in '", path, "': ", path.substr(0, path.find('/')),
                     " would be another user's home; pass ~/, which is your own, a path from the "
                     "root, or ./",
                     path);
  std::error_code error;
  std::filesystem::path whole =
      std::filesystem::absolute(of_home ? home_folder(path) + path.substr(1) : path, error);
  if (error)
    throw CacheError("cannot keep compiled code in '", path, "': ", error.message(),
                     "; pass a path from the root");
  // Of a/b/ the parent would be a/b.
  if (!whole.has_filename() && whole.has_relative_path()) whole = whole.parent_path();
  return whole.native();
}

/// The folder, as one that may be trusted. CacheError.
std::unique_ptr<Descriptor> open_folder(const std::string& path) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  auto opened = std::make_unique<Descriptor>(open(path.c_str(), kFlags));
  int failure = 0;  // to make it
  if (!*opened && errno == ENOENT) {
    // Those above it as usual, itself for nobody else.
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) failure = errno;
    opened = std::make_unique<Descriptor>(open(path.c_str(), kFlags));
  }
  struct stat status;
  if (!*opened || fstat(opened->get(), &status) != 0)
    throw CacheError("cannot keep compiled code in '", path,
                     "': ", message(failure ? failure : errno),
                     "; TC_CACHE_DIR and cache_dir take a folder");
  if (status.st_uid != geteuid())
    throw CacheError("compiled code is not taken from '", path, "', which belongs to user ",
                     status.st_uid, " and not to user ", geteuid(),
                     ", who runs this; choose a folder of your own");
  if (!is_own(status)) {
    char mode[8];
    std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(status.st_mode & 07777));
    throw CacheError("compiled code is not taken from '", path,
                     "', to which others may write (mode ", mode, "); chmod 700 '", path, "'");
  }
  return opened;
}

/// FNV-1a; files also hold the whole key.
std::string name_of(const std::string& key) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  char text[24];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return std::string(text) + kEnding;
}

std::string enclose(const std::string& key, const std::string& bytes) {
  std::string after(8, '\0');
  const uint64_t size = key.size();
  std::memcpy(after.data(), &size, sizeof size);
  after += key;
  after += bytes;
  std::string all(kMagic, kMagicSize);
  const uint32_t sum = crc32(after.data(), after.size());
  all.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  return all + after;
}

/// What `enclose` made it of: whether it is whole, and the bytes where the key is this one.
bool disclose(const std::string& all, const std::string& key, std::optional<std::string>& bytes) {
  if (all.size() < kHeader || all.compare(0, kMagicSize, kMagic) != 0) return false;
  uint32_t sum = 0;
  std::memcpy(&sum, all.data() + kMagicSize, sizeof sum);
  const size_t begin = kMagicSize + sizeof sum;
  if (crc32(all.data() + begin, all.size() - begin) != sum) return false;
  uint64_t size = 0;
  std::memcpy(&size, all.data() + begin, sizeof size);
  if (size > all.size() - kHeader) return false;
  if (all.compare(kHeader, size, key) == 0) bytes = all.substr(kHeader + size);
  return true;
}

struct Entry {
  std::string name;
  int64_t bytes;
  struct timespec used;
};

/// Removes what was used least recently, and what killed processes have left, down to a size; the
/// bytes that stay. Other files of the folder are left alone.
int64_t trim(int directory, int64_t most) {
  std::vector<Entry> entries;
  int64_t total = 0;
  const int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* listed = copy >= 0 ? fdopendir(copy) : nullptr;
  if (!listed) {
    if (copy >= 0) close(copy);
    return 0;
  }
  const time_t now = time(nullptr);
  while (const dirent* each = readdir(listed)) {
    const std::string name = each->d_name;
    const std::filesystem::path ending = std::filesystem::path(name).extension();
    const bool finished = ending == kEnding, unfinished = ending == kUnfinished;
    struct stat status;
    if ((!finished && !unfinished) ||
        fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    if (unfinished) {
      if (now - status.st_mtime > kAbandoned) unlinkat(directory, name.c_str(), 0);
      continue;
    }
    entries.push_back({name, status.st_size, status.st_mtim});
    total += status.st_size;
  }
  closedir(listed);
  if (total <= most) return total;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  for (const Entry& entry : entries) {
    if (static_cast<double>(total) <= kLeft * static_cast<double>(most)) break;
    if (unlinkat(directory, entry.name.c_str(), 0) == 0) total -= entry.bytes;
  }
  return total;
}

/// Keeps the folder within its bounds when so much was added.
void count(int directory, int64_t added) {
  Folder& all = folder;
  int64_t most = 0;
  {
    const LeafLock lock(all.mutex);
    all.bytes += added;
    if (all.until_counted-- > 0 && all.bytes <= all.most_bytes) return;
    all.until_counted = kCountAnew;
    most = all.most_bytes;
  }
  const int64_t left = trim(directory, most);
  const LeafLock lock(all.mutex);
  all.bytes = left;
}

}  // namespace

void set_code_folder(const std::string& path, int64_t most_bytes) {
  if (most_bytes < 0)
    throw UsageError("most_bytes is ", most_bytes,
                     "; a folder for compiled code holds 0 bytes at least");
  const std::string whole = path.empty() ? "" : whole_path(path);
  if (!whole.empty()) open_folder(whole);
  Folder& all = folder;
  const LeafLock lock(all.mutex);
  all.is_set = true;
  all.path = whole;
  all.most_bytes = most_bytes;
  all.until_counted = 0;
  all.told.clear();
}

std::string code_folder() {
  Folder& all = folder;
  {
    const LeafLock lock(all.mutex);
    if (all.is_set) return all.path;
  }
  const char* given = std::getenv("TC_CACHE_DIR");
  const std::string path = given && *given ? whole_path(given) : "";
  if (!path.empty()) open_folder(path);
  const LeafLock lock(all.mutex);
  if (!all.is_set) all.path = path;
  all.is_set = true;
  return all.path;
}

std::optional<std::string> find_code(const std::string& key) {
  const std::string path = code_folder();
  if (path.empty()) return std::nullopt;
  const auto directory = open_folder(path);
  const std::string name = name_of(key);
  const Descriptor file(
      openat(directory->get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status;
  if (!file || fstat(file.get(), &status) != 0) return std::nullopt;
  if (!S_ISREG(status.st_mode) || !is_own(status) || status.st_size > kMostFile) {
    tell_once(concat("'", path, "/", name, "' is left alone: others may have written it"));
    return std::nullopt;
  }
  std::string all(static_cast<size_t>(status.st_size), '\0');
  std::optional<std::string> found;
  if (!file.read_all(all) || !disclose(all, key, found)) {
    tell_once(concat("'", path, "/", name, "' is damaged, and removed"));
    unlinkat(directory->get(), name.c_str(), 0);
    return std::nullopt;
  }
  if (found) futimens(file.get(), nullptr);  // used now
  return found;
}

void keep_code(const std::string& key, const std::string& bytes) {
  const std::string path = code_folder();
  if (path.empty()) return;
  const auto directory = open_folder(path);
  static std::atomic<int64_t> number{0};
  const std::string name = name_of(key);
  // Processes of several containers, which share the folder, have the same numbers.
  uint64_t chance = 0;
  if (getrandom(&chance, sizeof chance, 0) != sizeof chance) chance = 0;
  const std::string unfinished =
      concat(name, ".", getpid(), ".", ++number, ".", chance, kUnfinished);
  const std::string all = enclose(key, bytes);
  int error = 0;
  bool own = false;
  {
    const Descriptor file(openat(directory->get(), unfinished.c_str(),
                                 O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    own = static_cast<bool>(file);
    if (!own || !file.write_all(all) ||
        renameat(directory->get(), unfinished.c_str(), directory->get(), name.c_str()) != 0)
      error = errno;
  }
  if (error != 0) {
    if (own) unlinkat(directory->get(), unfinished.c_str(), 0);
    tell_once(concat("compiled code is not kept in '", path, "': ", message(error)));
    return;
  }
  count(directory->get(), static_cast<int64_t>(all.size()));
}

}  // namespace tc::store

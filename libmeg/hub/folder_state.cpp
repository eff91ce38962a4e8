#include "libmeg/hub/folder_state.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <span>
#include <vector>

#include "libmeg/base/version.h"
#include "libmeg/hub/repositories.h"
#include "libmeg/io/digest.h"

namespace meg::hub {
namespace {

namespace fs = std::filesystem;

/// Folders in a checkpoint's folder: those of its ranks and its tokenizer's, some of them deeper.
constexpr int kDeepest = 3;
constexpr size_t kMostFiles = 200'000;
constexpr size_t kCommitDigits = 40;
/// Seconds of the year 2255.
constexpr time_t kLatest = 9'000'000'000;

/// Lists the files of a folder, a line for each.
class StateWalk {
 public:
  explicit StateWalk(const std::string& root) : root_(root) {}

  Status add_folder(const std::string& folder, const std::string& name, int depth) {
    std::error_code error;
    fs::directory_iterator at(folder, error);
    for (; !error && at != fs::directory_iterator(); at.increment(error)) {
      MEG_RETURN_IF_ERROR(add_entry(*at, name, depth));
    }
    return error ? errno_error(error.value(), folder) : Status();
  }

  FolderState state() {
    // By name: a folder lists its files in any order.
    std::ranges::sort(lines_);
    io::Digest digest;
    const auto add = [&digest](std::string_view text) {
      digest.add(std::as_bytes(std::span(text)));
    };
    // Another version may export other bytes.
    add(version());
    for (const std::string& line : lines_) add(line);
    std::string hex = digest.hex();
    // A digest has fewer digits than a commit of git: more of the same.
    add(hex);
    hex += digest.hex();
    hex.resize(kCommitDigits);
    // A time that someone set may lie beyond what a clock counts to.
    const auto since_epoch = std::chrono::seconds(std::min(modified_.tv_sec, kLatest)) +
                             std::chrono::nanoseconds(modified_.tv_nsec);
    return {std::move(hex), std::chrono::system_clock::time_point(since_epoch)};
  }

 private:
  Status add_entry(const fs::directory_entry& entry, const std::string& above, int depth) {
    const std::string path = entry.path().string();
    std::error_code error;
    if (entry.is_symlink(error) && !is_in_root(root_, path)) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}: expected a link to a file in the served folder, found one that leaves "
                        "it or leads nowhere",
                        path);
    }

    struct stat status {};

    if (::stat(path.c_str(), &status) != 0) return errno_error(errno, path);
    const std::string name = above + "/" + entry.path().filename().string();
    if (S_ISDIR(status.st_mode)) {
      return depth < kDeepest ? add_folder(path, name, depth + 1) : Status();
    }
    if (lines_.size() == kMostFiles) {
      return make_error(StatusCode::kInvalidArgument, "{}: expected up to {} files, found more",
                        path, kMostFiles);
    }
    lines_.push_back(fmt::format("{}\n{} {} {} {}.{} {}.{}\n", name, status.st_size,
                                 status.st_mode & S_IFMT, status.st_ino, status.st_mtim.tv_sec,
                                 status.st_mtim.tv_nsec, status.st_ctim.tv_sec,
                                 status.st_ctim.tv_nsec));
    const auto is_earlier = [](const timespec& a, const timespec& b) {
      return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
    };
    if (is_earlier(modified_, status.st_mtim)) modified_ = status.st_mtim;
    return Status();
  }

  const std::string& root_;
  std::vector<std::string> lines_;
  timespec modified_{};
};

}  // namespace

Result<FolderState> folder_state(const std::string& root, const std::string& folder) {
  StateWalk walk(root);
  MEG_RETURN_IF_ERROR(walk.add_folder(folder, "", 0));
  return walk.state();
}

}  // namespace meg::hub

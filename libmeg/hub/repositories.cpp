#include "libmeg/hub/repositories.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"
#include "libmeg/hub/folder_state.h"
#include "libmeg/io/file_descriptor.h"
#include "libmeg/text/ascii.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/whitespace.h"

namespace meg::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIterationStart = "iter_";
constexpr std::string_view kReleaseName = "release";
/// How long a save without a tracker must have been left alone.
constexpr auto kQuiet = std::chrono::minutes(1);
/// Hugging Face's limit of an id.
constexpr size_t kLongestId = 96;
/// A tracker holds a number or a word; more is not read.
constexpr size_t kLongestTracker = 256;

/// "iter_0005000" -> 5000
std::optional<int64_t> iteration_of(std::string_view name) {
  if (!name.starts_with(kIterationStart)) return std::nullopt;
  name.remove_prefix(kIterationStart.size());
  int64_t iteration = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), iteration);
  const bool is_number = error == std::errc() && end == name.data() + name.size();
  return is_number && iteration >= 0 ? std::optional(iteration) : std::nullopt;
}

bool is_revision_name(std::string_view name) {
  return name == kReleaseName || iteration_of(name).has_value();
}

/// What a folder holds, by its names. Those of files are not kept: there may be millions.
struct Listing {
  std::set<std::string> folders, linked_folders;
  bool has_tracker = false, has_config = false, has_weights = false;
  bool has_metadata = false;  ///< Of torch_dist.
  bool has_latest = false;    ///< DeepSpeed's tracker.

  void add_file(std::string_view name) {
    has_tracker = has_tracker || name == checkpoint::kTrackerName;
    has_config = has_config || name == "config.json";
    has_weights = has_weights || name.ends_with(".safetensors") || name.ends_with(".bin");
    has_metadata = has_metadata || name == ".metadata";
    has_latest = has_latest || name == "latest";
  }

  bool is_run() const {
    return has_tracker || std::ranges::any_of(folders, is_revision_name) ||
           std::ranges::any_of(linked_folders, is_revision_name);
  }

  /// Whether it looks like a checkpoint that is not in a run: a model of Hugging Face, rank
  /// folders, torch_dist, DeepSpeed.
  bool may_be_checkpoint() const {
    return (has_config && has_weights) || has_metadata || has_latest ||
           std::ranges::any_of(
               folders, [](const std::string& name) { return name.starts_with("mp_rank_"); });
  }
};

Result<Listing> list(const std::string& path) {
  Listing listing;
  std::error_code error;
  fs::directory_iterator at(path, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    std::error_code gone;  // what is deleted meanwhile is not there
    std::string name = at->path().filename().string();
    if (!at->is_directory(gone)) {
      listing.add_file(name);
    } else if (at->is_symlink(gone)) {
      listing.linked_folders.insert(std::move(name));
    } else {
      listing.folders.insert(std::move(name));
    }
  }
  if (error) return errno_error(error.value(), path);
  return listing;
}

/// Which names Hugging Face's clients take, here in ASCII.
bool is_allowed_name(std::string_view name) {
  const auto is_word = [](char c) {
    return text::is_ascii_letter(c) || text::is_ascii_digit(c) || c == '_';
  };
  return !name.empty() && is_word(name.front()) && is_word(name.back()) &&
         std::ranges::all_of(name, [&](char c) { return is_word(c) || c == '-' || c == '.'; }) &&
         name.find("--") == std::string_view::npos && name.find("..") == std::string_view::npos;
}

Status check_id(std::string_view owner, std::string_view name) {
  if (is_allowed_name(owner) && is_allowed_name(name) && !name.ends_with(".git") &&
      owner != "api" && owner.size() + 1 + name.size() <= kLongestId) {
    return Status();
  }
  return make_error(
      StatusCode::kInvalidArgument,
      "expected an id of letters, digits, -, _ and . as Hugging Face allows (no -- or .., up to "
      "{} characters), found {}",
      kLongestId, text::printable(fmt::format("{}/{}", owner, name)));
}

class Finder {
 public:
  explicit Finder(std::string root) : root_(std::move(root)) {}

  Result<RepositoryList> find() {
    MEG_ASSIGN_OR_RETURN(const Listing top, list(root_));
    visit(root_, top, {});
    for (auto& [id, paths] : by_id_) {
      if (paths.size() == 1) {
        found_.repositories.push_back({id, paths[0].first, paths[0].second});
        continue;
      }
      for (const auto& [path, _] : paths) {
        const std::string& other = path == paths[0].first ? paths[1].first : paths[0].first;
        found_.unserved.push_back({path, fmt::format("its id {} is also that of {}", id, other)});
      }
    }
    return std::move(found_);
  }

 private:
  /// below: the names of the folders from the root to this one.
  void visit(const std::string& path, const Listing& listing,
             const std::vector<std::string>& below) {
    if (listing.is_run()) return add(path, below, true);
    if (listing.may_be_checkpoint()) {
      const auto checkpoint = checkpoint::find_checkpoint(path);
      if (checkpoint.has_value()) return add(path, below, false);
      found_.unserved.push_back({path, checkpoint.status().message()});
      return;
    }
    if (below.size() == kMaxDepth) return;
    for (const std::string& name : listing.folders) {
      if (name.starts_with('.')) continue;
      if (++folders_ > kMaxFolders) {
        if (folders_ == kMaxFolders + 1) {
          found_.unserved.push_back(
              {root_, fmt::format("more than {} folders: the others are left out", kMaxFolders)});
        }
        return;
      }
      const std::string inner = path + "/" + name;
      const Result<Listing> entries = list(inner);
      if (!entries.has_value()) {
        // A folder that is deleted meanwhile is not there.
        if (entries.status().code() != StatusCode::kNotFound) {
          found_.unserved.push_back({inner, entries.status().message()});
        }
        continue;
      }
      std::vector<std::string> names = below;
      names.push_back(name);
      visit(inner, *entries, names);
    }
  }

  void add(const std::string& path, const std::vector<std::string>& below, bool is_run) {
    const fs::path whole(path);
    std::string owner = whole.parent_path().filename().string();
    std::string name = whole.filename().string();
    if (below.size() > 2) {
      owner = below[0];
      name = fmt::format("{}", fmt::join(below.begin() + 1, below.end(), "."));
    }
    const Status allowed = check_id(owner, name);
    if (!allowed.ok()) {
      found_.unserved.push_back({path, allowed.message()});
      return;
    }
    by_id_[owner + "/" + name].emplace_back(path, is_run);
  }

  const std::string root_;
  RepositoryList found_;
  std::map<std::string, std::vector<std::pair<std::string, bool>>> by_id_;
  size_t folders_ = 0;
};

/// The tracker's text without the whitespace around it; nullopt where there is no tracker.
Result<std::optional<std::string>> read_tracker(const std::string& run) {
  const auto file =
      io::FileDescriptor::open_regular(fmt::format("{}/{}", run, checkpoint::kTrackerName));
  if (!file.has_value()) {
    if (file.status().code() == StatusCode::kNotFound) return std::optional<std::string>();
    return file.status();
  }
  std::string text(kLongestTracker, '\0');
  MEG_ASSIGN_OR_RETURN(const size_t size, file->read(std::as_writable_bytes(std::span(text))));
  text.resize(size);
  return std::optional(std::string(text::trimmed(text)));
}

/// What the tracker names, as the name of a revision; kCorruption where it names none.
Result<std::string> tracked_name(const std::string& tracker) {
  if (tracker == kReleaseName) return tracker;
  const auto iteration = iteration_of(std::string(kIterationStart) + tracker);
  if (iteration.has_value()) return checkpoint::iteration_folder_name(*iteration);
  return make_error(StatusCode::kCorruption, "{}: expected an iteration or \"release\", found {}",
                    checkpoint::kTrackerName, text::printable(tracker));
}

/// Why an iteration of a run is not served; empty where it is.
std::string why_hidden(const std::string& root, const std::string& folder, const std::string& name,
                       const std::optional<std::string>& tracked) {
  if (!is_in_root(root, folder)) return "a link that leaves the served folder";
  if (tracked.has_value()) {
    // A release was there before the run began.
    if (name == kReleaseName) return "";
    const auto last = iteration_of(*tracked);
    if (last.has_value() && *iteration_of(name) <= *last) return "";
    return fmt::format("above the tracker's {}: it may be being written", *tracked);
  }
  const auto state = folder_state(root, folder);
  if (!state.has_value()) return state.status().message();
  if (std::chrono::system_clock::now() - state->modified >= kQuiet) return "";
  return "changed within the last minute, and there is no tracker: it may be being written";
}

}  // namespace

bool is_in_root(const std::string& root, const std::string& path) {
  std::error_code error;
  const std::string whole = fs::canonical(path, error).string();
  return !error &&
         (whole == root || root == "/" || (whole.starts_with(root) && whole[root.size()] == '/'));
}

Result<RepositoryList> find_repositories(const std::string& root) { return Finder(root).find(); }

const Revision* RevisionList::find(std::string_view name) const {
  if (name == "main") name = main;
  const auto found = std::ranges::find(revisions, name, &Revision::name);
  return found == revisions.end() ? nullptr : &*found;
}

Result<RevisionList> list_revisions(const std::string& root, const Repository& repository) {
  RevisionList listed;
  if (!repository.is_run) {
    listed.revisions.push_back({"main", repository.path});
    listed.main = "main";
    return listed;
  }
  // The tracker before the folders: a save that ends in between is served from the next time on,
  // and never the other way round.
  MEG_ASSIGN_OR_RETURN(const auto tracker, read_tracker(repository.path));
  std::optional<std::string> tracked;
  if (tracker.has_value()) {
    MEG_ASSIGN_OR_RETURN(tracked, tracked_name(*tracker));
  }
  MEG_ASSIGN_OR_RETURN(Listing entries, list(repository.path));
  entries.folders.merge(entries.linked_folders);
  std::optional<int64_t> highest;
  for (const std::string& name : entries.folders) {
    if (!is_revision_name(name)) continue;
    const std::string folder = repository.path + "/" + name;
    std::string reason = why_hidden(root, folder, name, tracked);
    if (!reason.empty()) {
      listed.unserved.push_back({folder, std::move(reason)});
      continue;
    }
    listed.revisions.push_back({name, folder});
    const int64_t iteration = iteration_of(name).value_or(-1);
    if (tracked.has_value() ? name == *tracked : iteration >= highest.value_or(-1)) {
      listed.main = name;
      highest = iteration;
    }
  }
  return listed;
}

}  // namespace meg::hub

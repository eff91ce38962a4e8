#include "libmeg/checkpoint/checkpoint_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <map>
#include <system_error>

#include "libmeg/core/atomic_file.h"
#include "libmeg/core/file_descriptor.h"
#include "libmeg/core/printable.h"

namespace meg {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModelFile = "model_optim_rng.pt";
constexpr std::string_view kDistribOptimFile = "distrib_optim.pt";
constexpr std::string_view kSplitModelFile = "model_rng.pt";
constexpr std::string_view kDeepSpeedTracker = "latest";
constexpr std::string_view kDeepSpeedFileEnd = "_model_states.pt";
constexpr std::string_view kRankStart = "mp_rank_";
constexpr std::string_view kIterationStart = "iter_";
constexpr std::string_view kReleaseName = "release";

/// What an error names of a folder's content at most.
constexpr size_t kNamedEntries = 8;

/// A tracker holds a number or a word; more is not read.
constexpr size_t kLongestTracker = 256;

/// The entries of a folder by name; true: a folder (links are followed).
using Entries = std::map<std::string, bool, std::less<>>;

Result<Entries> list_folder(const std::string& path) {
  Entries entries;
  std::error_code error;
  fs::directory_iterator at(path, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    std::error_code ignored;  // a dangling link is no folder
    entries.emplace(at->path().filename().string(), at->is_directory(ignored));
  }
  if (error) return errno_error(error.value(), path);
  return entries;
}

bool has_file(const Entries& entries, std::string_view name) {
  const auto found = entries.find(name);
  return found != entries.end() && !found->second;
}

bool has_folder(const Entries& entries, std::string_view name) {
  const auto found = entries.find(name);
  return found != entries.end() && found->second;
}

std::string join(const std::string& folder, std::string_view name) {
  return folder.ends_with('/') ? fmt::format("{}{}", folder, name)
                               : fmt::format("{}/{}", folder, name);
}

/// path without the slashes at its end.
std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

/// A number of ASCII digits alone.
template <class T>
std::optional<T> parse_digits(std::string_view text) {
  T value = 0;
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

/// "iter_0005000" -> 5000
std::optional<int64_t> parse_iteration_name(std::string_view name) {
  if (!name.starts_with(kIterationStart)) return std::nullopt;
  return parse_digits<int64_t>(name.substr(kIterationStart.size()));
}

/// "mp_rank_00_001" -> {0, 1}; empty where it is no such name.
std::vector<int> parse_rank_name(std::string_view name) {
  if (!name.starts_with(kRankStart)) return {};
  name.remove_prefix(kRankStart.size());
  std::vector<int> numbers;
  while (true) {
    const std::string_view digits = name.substr(0, name.find('_'));
    const auto number = parse_digits<int>(digits);
    if (!number || digits.size() < (numbers.empty() ? 2 : 3) || numbers.size() == 3) return {};
    numbers.push_back(*number);
    if (digits.size() == name.size()) return numbers;
    name.remove_prefix(digits.size() + 1);
  }
}

/// Names that pass `wanted`, joined by commas, as an error lists them.
template <class Wanted>
std::string name_some(const Entries& entries, Wanted wanted) {
  std::string text;
  size_t count = 0;
  for (const auto& [name, is_folder] : entries) {
    if (!wanted(name, is_folder)) continue;
    if (++count <= kNamedEntries) text += (text.empty() ? "" : ", ") + name;
  }
  if (count > kNamedEntries) text += fmt::format(" and {} more", count - kNamedEntries);
  return text;
}

std::string name_iterations(const Entries& entries) {
  return name_some(entries, [](const std::string& name, bool is_folder) {
    return is_folder && (name == kReleaseName || parse_iteration_name(name));
  });
}

/// The text of a tracker file without the blanks around it.
Result<std::string> read_tracker_text(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(const FileDescriptor file, FileDescriptor::open_for_reading(path));
  std::string text(kLongestTracker, '\0');
  MEG_ASSIGN_OR_RETURN(const size_t size, file.read(std::as_writable_bytes(std::span(text))));
  text.resize(size);
  constexpr std::string_view kBlanks = " \t\n\r\v\f";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string::npos) return std::string();
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

/// Rank folders and what they hold; sets the format.
Status read_rank_folders(const Entries& entries, CheckpointFolder* found) {
  size_t split = 0;
  std::string without_file;
  for (const auto& [name, is_folder] : entries) {
    RankFolder rank;
    rank.numbers = parse_rank_name(name);
    if (rank.numbers.empty() || !is_folder) continue;
    rank.name = name;
    const std::string folder = join(found->folder, name);
    MEG_ASSIGN_OR_RETURN(const Entries inside, list_folder(folder));
    const bool is_split = !has_file(inside, kModelFile) && has_file(inside, kSplitModelFile);
    if (!is_split && !has_file(inside, kModelFile)) {
      without_file = folder;
      continue;
    }
    split += is_split ? 1 : 0;
    rank.file = join(folder, is_split ? kSplitModelFile : kModelFile);
    rank.has_distrib_optim = has_file(inside, kDistribOptimFile);
    found->ranks.push_back(std::move(rank));
  }
  if (found->ranks.empty()) {
    return make_error(StatusCode::kNotFound, "{}: expected {}, found no such file", without_file,
                      kModelFile);
  }
  std::sort(
      found->ranks.begin(), found->ranks.end(),
      [](const RankFolder& left, const RankFolder& right) { return left.numbers < right.numbers; });
  for (size_t i = 1; i < found->ranks.size(); ++i) {
    const RankFolder& left = found->ranks[i - 1];
    const RankFolder& right = found->ranks[i];
    if (left.numbers == right.numbers || left.numbers.size() != right.numbers.size()) {
      return make_error(StatusCode::kCorruption,
                        "{}: expected rank folders of one layout, found {} beside {}",
                        found->folder, left.name, right.name);
    }
  }
  found->format = split == 0 ? CheckpointFormat::kMpRank : CheckpointFormat::kSplitMpRank;
  return Status();
}

bool is_deep_speed_file(std::string_view name) {
  return name.ends_with(kDeepSpeedFileEnd) &&
         !parse_rank_name(name.substr(0, name.size() - kDeepSpeedFileEnd.size())).empty();
}

void read_deep_speed_files(const Entries& entries, CheckpointFolder* found) {
  found->format = CheckpointFormat::kDeepSpeed;
  for (const auto& [name, is_folder] : entries) {
    if (is_folder || !is_deep_speed_file(name)) continue;
    RankFolder rank;
    rank.name = name.substr(0, name.size() - kDeepSpeedFileEnd.size());
    rank.numbers = parse_rank_name(rank.name);
    rank.file = join(found->folder, name);
    found->ranks.push_back(std::move(rank));
  }
  std::sort(
      found->ranks.begin(), found->ranks.end(),
      [](const RankFolder& left, const RankFolder& right) { return left.numbers < right.numbers; });
}

template <class Wanted>
bool any_entry(const Entries& entries, Wanted wanted) {
  return std::any_of(entries.begin(), entries.end(),
                     [&](const auto& entry) { return wanted(entry.first, entry.second); });
}

bool is_torch_dist(const Entries& entries) {
  return has_file(entries, ".metadata") || has_file(entries, "metadata.json") ||
         any_entry(entries, [](const std::string& name, bool is_folder) {
           return !is_folder && name.ends_with(".distcp");
         });
}

bool is_hugging_face(const Entries& entries) {
  return has_file(entries, "config.json") &&
         any_entry(entries, [](const std::string& name, bool is_folder) {
           return !is_folder && (name.ends_with(".safetensors") || name.ends_with(".bin") ||
                                 name.ends_with(".safetensors.index.json"));
         });
}

/// Sets format and ranks from what found->folder holds; false where it holds no checkpoint.
Result<bool> classify(const Entries& entries, CheckpointFolder* found) {
  if (any_entry(entries, [](const std::string& name, bool is_folder) {
        return is_folder && !parse_rank_name(name).empty();
      })) {
    MEG_RETURN_IF_ERROR(read_rank_folders(entries, found));
    return true;
  }
  if (any_entry(entries, [](const std::string& name, bool is_folder) {
        return !is_folder && is_deep_speed_file(name);
      })) {
    read_deep_speed_files(entries, found);
    return true;
  }
  if (is_torch_dist(entries)) {
    found->format = CheckpointFormat::kTorchDist;
    return true;
  }
  if (is_hugging_face(entries)) {
    found->format = CheckpointFormat::kHuggingFace;
    return true;
  }
  return false;
}

/// The folder `name` of a root, which `why` names (the tracker or the caller).
Result<CheckpointFolder> open_named(const std::string& root, const Entries& entries,
                                    const std::string& name, std::string_view why) {
  if (!has_folder(entries, name)) {
    const std::string others = name_iterations(entries);
    return make_error(StatusCode::kNotFound, "{}: {} {}, expected such a folder, found {}", root,
                      why, name, others.empty() ? "none of its kind" : others);
  }
  CheckpointFolder found;
  if (has_file(entries, kTrackerName)) found.root = root;
  found.folder = join(root, name);
  found.is_release = name == kReleaseName;
  found.iteration = found.is_release ? 0 : parse_iteration_name(name);
  MEG_ASSIGN_OR_RETURN(const Entries inside, list_folder(found.folder));
  MEG_ASSIGN_OR_RETURN(const bool is_checkpoint, classify(inside, &found));
  if (!is_checkpoint) {
    return make_error(StatusCode::kNotFound,
                      "{}: not a checkpoint: expected mp_rank_* folders or .metadata, found {}",
                      found.folder, inside.empty() ? "nothing" : "neither");
  }
  return found;
}

Result<CheckpointFolder> open_tracked(const std::string& root, const Entries& entries) {
  const std::string path = join(root, kTrackerName);
  MEG_ASSIGN_OR_RETURN(const std::string text, read_tracker_text(path));
  std::string name(kReleaseName);
  if (text != kReleaseName) {
    const std::optional<int64_t> iteration = parse_digits<int64_t>(text);
    if (!iteration) {
      return make_error(StatusCode::kCorruption,
                        "{}: expected an iteration or \"release\", found {}", path,
                        printable(text));
    }
    name = iteration_folder_name(*iteration);
  }
  return open_named(root, entries, name, fmt::format("{} names", kTrackerName));
}

/// DeepSpeed's root: `latest` names the folder with the files.
Result<CheckpointFolder> open_deep_speed(const std::string& root) {
  const std::string path = join(root, kDeepSpeedTracker);
  MEG_ASSIGN_OR_RETURN(const std::string tag, read_tracker_text(path));
  if (tag.empty() || tag == "." || tag == ".." || tag.find('/') != std::string::npos ||
      tag.find('\0') != std::string::npos) {
    return make_error(StatusCode::kCorruption, "{}: expected the name of a folder, found {}", path,
                      printable(tag));
  }
  CheckpointFolder found;
  found.root = root;
  found.folder = join(root, tag);
  found.iteration = parse_digits<int64_t>(tag);
  MEG_ASSIGN_OR_RETURN(const Entries inside, list_folder(found.folder));
  read_deep_speed_files(inside, &found);
  return found;
}

/// The last part of a path, also of ".", which has no name of its own.
std::string own_name(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::canonical(path, error);
  return error ? fs::path(path).filename().string() : whole.filename().string();
}

/// A folder that was given itself: iter_*, release, or one of another format.
CheckpointFolder untracked(const std::string& path) {
  CheckpointFolder found;
  found.folder = path;
  const std::string name = own_name(path);
  found.is_release = name == kReleaseName;
  found.iteration = found.is_release ? 0 : parse_iteration_name(name);
  const std::string above =
      path.find('/') == std::string::npos ? "." : fs::path(path).parent_path().string();
  std::error_code error;
  const bool is_checkpoint_name = found.iteration.has_value();
  if (is_checkpoint_name && fs::exists(join(above, kTrackerName), error)) found.root = above;
  return found;
}

Status not_a_checkpoint(const std::string& path, const Entries& entries) {
  if (has_file(entries, kModelFile)) {
    return make_error(StatusCode::kNotFound,
                      "{}: one rank's folder: expected the folder above it, or {} itself", path,
                      kModelFile);
  }
  const std::string iterations = name_iterations(entries);
  if (!iterations.empty()) {
    return make_error(StatusCode::kNotFound,
                      "{}: no {}: expected it, or one of its folders as the checkpoint: {}", path,
                      kTrackerName, iterations);
  }
  return make_error(StatusCode::kNotFound,
                    "{}: not a checkpoint: expected {}, mp_rank_* folders, .metadata (torch_dist), "
                    "latest (DeepSpeed) or config.json with weights (Hugging Face), found {}",
                    path, kTrackerName, entries.empty() ? "an empty folder" : "none of them");
}

}  // namespace

std::string_view checkpoint_format_text(CheckpointFormat format) {
  switch (format) {
    case CheckpointFormat::kMpRank:
      return "torch";
    case CheckpointFormat::kSplitMpRank:
      return "torch, split (model_rng.pt and optim.pt)";
    case CheckpointFormat::kDeepSpeed:
      return "DeepSpeed";
    case CheckpointFormat::kTorchDist:
      return "torch_dist";
    case CheckpointFormat::kHuggingFace:
      return "Hugging Face";
    case CheckpointFormat::kSingleFile:
      return "one torch file";
  }
  return "unknown";
}

Result<CheckpointFolder> find_checkpoint(const std::string& given,
                                         std::optional<int64_t> iteration) {
  const std::string path = without_slashes(given);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found || path.empty()) {
    return make_error(StatusCode::kNotFound, "{}: no such file or folder", printable(path, 4096));
  }
  if (error) return errno_error(error.value(), path);
  CheckpointFolder found;
  if (fs::is_directory(status)) {
    MEG_ASSIGN_OR_RETURN(const Entries entries, list_folder(path));
    const bool is_root = has_file(entries, kTrackerName);
    if (iteration && (is_root || !name_iterations(entries).empty())) {
      return open_named(path, entries, iteration_folder_name(*iteration), "asked for");
    }
    if (is_root) return open_tracked(path, entries);
    found = untracked(path);
    MEG_ASSIGN_OR_RETURN(const bool is_checkpoint, classify(entries, &found));
    if (!is_checkpoint && has_file(entries, kDeepSpeedTracker)) {
      MEG_ASSIGN_OR_RETURN(found, open_deep_speed(path));
    } else if (!is_checkpoint) {
      return not_a_checkpoint(path, entries);
    }
  } else {
    found.format = CheckpointFormat::kSingleFile;
    found.folder = path;
  }
  if (iteration && found.iteration != iteration) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: asked for iteration {}: expected a root folder with iter_* in it", path,
                      *iteration);
  }
  return found;
}

std::string iteration_folder_name(int64_t iteration) {
  return fmt::format("iter_{:07}", iteration);
}

std::string rank_folder_name(int64_t tensor_rank, int64_t pipeline_rank,
                             int64_t pipeline_model_parallel_size) {
  if (pipeline_model_parallel_size == 1) return fmt::format("mp_rank_{:02}", tensor_rank);
  return fmt::format("mp_rank_{:02}_{:03}", tensor_rank, pipeline_rank);
}

Status write_tracker(const std::string& root, std::optional<int64_t> iteration) {
  MEG_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(join(root, kTrackerName)));
  const std::string text = iteration ? std::to_string(*iteration) : std::string(kReleaseName);
  MEG_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

}  // namespace meg

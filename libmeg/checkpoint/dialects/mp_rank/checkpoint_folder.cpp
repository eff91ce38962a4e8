#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"

#include <fmt/format.h>

#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "libmeg/checkpoint/dialects/mp_rank/internal/checkpoint_contents.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/folder_entries.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/io/file_descriptor.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/whitespace.h"

// Finds the folder of one checkpoint from a path: a root with Megatron's tracker, an iter_* or
// release folder itself, DeepSpeed's root, one torch file. Errors name what is there instead, since
// a path one folder too high or too low is the usual mistake.

namespace meg::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDeepSpeedTracker = "latest";
constexpr std::string_view kIterationStart = "iter_";
constexpr std::string_view kReleaseName = "release";
constexpr std::string_view kTagStart = "global_step";

/// What an error names of a folder's content at most.
constexpr size_t kNamedEntries = 8;

/// A tracker holds a number or a word; more is not read.
constexpr size_t kLongestTracker = 256;

/// path without the slashes at its end.
std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

/// "iter_0005000" -> 5000
std::optional<int64_t> parse_iteration_name(std::string_view name) {
  if (!name.starts_with(kIterationStart)) return std::nullopt;
  return parse_digits<int64_t>(name.substr(kIterationStart.size()));
}

/// DeepSpeed's tags: "1000" or "global_step1000" -> 1000
std::optional<int64_t> parse_tag(std::string_view tag) {
  if (tag.starts_with(kTagStart)) tag.remove_prefix(kTagStart.size());
  return parse_digits<int64_t>(tag);
}

/// The iter_* and release folders among them, as an error lists them.
std::string name_iterations(const FolderEntries& entries) {
  std::string text;
  size_t count = 0;
  for (const auto& [name, is_folder] : entries) {
    if (!is_folder || (name != kReleaseName && !parse_iteration_name(name))) continue;
    if (++count <= kNamedEntries) text += (text.empty() ? "" : ", ") + name;
  }
  if (count > kNamedEntries) text += fmt::format(" and {} more", count - kNamedEntries);
  return text;
}

/// The text of a tracker file without the whitespace around it.
Result<std::string> read_tracker_text(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(const io::FileDescriptor file, io::FileDescriptor::open_regular(path));
  std::string text(kLongestTracker, '\0');
  MEG_ASSIGN_OR_RETURN(const size_t size, file.read(std::as_writable_bytes(std::span(text))));
  text.resize(size);
  return std::string(text::trimmed(text));
}

/// The folder `name` of a root, which `why` names (the tracker or the caller).
Result<CheckpointFolder> open_named(const std::string& root, const FolderEntries& entries,
                                    const std::string& name, std::string_view why) {
  if (!entries.has_folder(name)) {
    const std::string others = name_iterations(entries);
    return make_error(StatusCode::kNotFound, "{}: {} {}, expected such a folder, found {}", root,
                      why, name, others.empty() ? "none of its kind" : others);
  }
  CheckpointFolder found;
  if (entries.has_file(kTrackerName)) found.root = root;
  found.folder = join_path(root, name);
  found.is_release = name == kReleaseName;
  found.iteration = found.is_release ? 0 : parse_iteration_name(name);
  if (!found.iteration.has_value()) found.iteration = parse_tag(name);
  MEG_ASSIGN_OR_RETURN(const FolderEntries inside, FolderEntries::list(found.folder));
  MEG_ASSIGN_OR_RETURN(const bool is_checkpoint, read_contents(inside, &found));
  if (!is_checkpoint) {
    return make_error(StatusCode::kNotFound,
                      "{}: not a checkpoint: expected mp_rank_* folders or .metadata, found {}",
                      found.folder, inside.empty() ? "nothing" : "neither");
  }
  return found;
}

Result<CheckpointFolder> open_tracked(const std::string& root, const FolderEntries& entries) {
  const std::string path = join_path(root, kTrackerName);
  MEG_ASSIGN_OR_RETURN(const std::string text, read_tracker_text(path));
  std::string name(kReleaseName);
  if (text != kReleaseName) {
    const std::optional<int64_t> iteration = parse_digits<int64_t>(text);
    // A tracker that says nonsense is damage: to fall back on the newest folder might load another
    // run's weights.
    if (!iteration) {
      return make_error(StatusCode::kCorruption,
                        "{}: expected an iteration or \"release\", found {}", path,
                        text::printable(text));
    }
    name = iteration_folder_name(*iteration);
    // DeepSpeedExamples writes this tracker too, and takes the bare number for the tag.
    if (!entries.has_folder(name) && entries.has_folder(text)) name = text;
  }
  return open_named(root, entries, name, fmt::format("{} names", kTrackerName));
}

/// DeepSpeed's root: `latest` names the folder with the files.
Result<CheckpointFolder> open_deep_speed(const std::string& root) {
  const std::string path = join_path(root, kDeepSpeedTracker);
  MEG_ASSIGN_OR_RETURN(const std::string tag, read_tracker_text(path));
  // The tracker's content becomes a path: it must stay inside of the root.
  if (tag.empty() || tag == "." || tag == ".." || tag.find('/') != std::string::npos ||
      tag.find('\0') != std::string::npos) {
    return make_error(StatusCode::kCorruption, "{}: expected the name of a folder, found {}", path,
                      text::printable(tag));
  }
  CheckpointFolder found;
  found.root = root;
  found.folder = join_path(root, tag);
  found.iteration = parse_tag(tag);
  MEG_ASSIGN_OR_RETURN(const FolderEntries inside, FolderEntries::list(found.folder));
  MEG_ASSIGN_OR_RETURN(const bool is_checkpoint, read_contents(inside, &found));
  if (!is_checkpoint || found.format != CheckpointFormat::kDeepSpeed) {
    return make_error(StatusCode::kNotFound,
                      "{}: expected mp_rank_*_model_states.pt (DeepSpeed), found none",
                      found.folder);
  }
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
  // Only a folder named as one of a root belongs to the tracker above it.
  if (is_checkpoint_name && fs::exists(join_path(above, kTrackerName), error)) found.root = above;
  return found;
}

/// Files of models that other programs read, by how their names end.
constexpr std::pair<std::string_view, std::string_view> kForeignFiles[] = {
    {".gguf", "GGUF of llama.cpp"},
    {".nemo", "an archive of NeMo"},
    {"consolidated.00.pth", "Meta's Llama format"},
    {"tf_model.h5", "Hugging Face weights of TensorFlow"},
    {"flax_model.msgpack", "Hugging Face weights of Flax"}};

/// kUnsupported where the name tells a model of another program.
Status check_foreign_file(const std::string& path) {
  for (const auto& [end, what] : kForeignFiles) {
    if (!path.ends_with(end)) continue;
    return make_error(StatusCode::kUnsupported, "{}: {} is not supported", path, what);
  }
  return Status();
}

Status not_a_checkpoint(const std::string& path, const FolderEntries& entries) {
  if (entries.has_file(kModelFile)) {
    return make_error(StatusCode::kNotFound,
                      "{}: the folder of one rank: expected its parent folder, or {} itself", path,
                      kModelFile);
  }
  for (const auto& [name, is_folder] : entries) {
    if (!is_folder) MEG_RETURN_IF_ERROR(check_foreign_file(join_path(path, name)));
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
    case CheckpointFormat::kFsdpDtensor:
      return "fsdp_dtensor";
    case CheckpointFormat::kHuggingFace:
      return "Hugging Face";
    case CheckpointFormat::kSingleFile:
      return "one torch file";
  }
  return "unknown";
}

bool has_dist_items(CheckpointFormat format) {
  return format == CheckpointFormat::kTorchDist || format == CheckpointFormat::kFsdpDtensor;
}

bool is_composed(CheckpointFormat format) {
  return has_dist_items(format) || format == CheckpointFormat::kHuggingFace ||
         format == CheckpointFormat::kSplitMpRank;
}

/// Tries in this order: an iteration that was requested, Megatron's tracker, the folder itself,
/// DeepSpeed's tracker. A root with both trackers is Megatron's, as that tracker is the one
/// Megatron reads.
Result<CheckpointFolder> find_checkpoint(const std::string& given,
                                         std::optional<int64_t> iteration) {
  const std::string path = without_slashes(given);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found || path.empty()) {
    return make_error(StatusCode::kNotFound, "{}: no such file or folder",
                      path.empty() ? "\"\"" : path);
  }
  if (error) return errno_error(error.value(), path);
  CheckpointFolder found;
  if (fs::is_directory(status)) {
    MEG_ASSIGN_OR_RETURN(const FolderEntries entries, FolderEntries::list(path));
    const bool is_root = entries.has_file(kTrackerName);
    // An iteration that is requested does not need the tracker.
    if (iteration && (is_root || !name_iterations(entries).empty())) {
      return open_named(path, entries, iteration_folder_name(*iteration), "asked for");
    }
    if (is_root) return open_tracked(path, entries);
    found = untracked(path);
    MEG_ASSIGN_OR_RETURN(const bool is_checkpoint, read_contents(entries, &found));
    if (!is_checkpoint && entries.has_file(kDeepSpeedTracker)) {
      MEG_ASSIGN_OR_RETURN(found, open_deep_speed(path));
    } else if (!is_checkpoint) {
      return not_a_checkpoint(path, entries);
    }
  } else {
    MEG_RETURN_IF_ERROR(check_foreign_file(path));
    found.format = CheckpointFormat::kSingleFile;
    found.folder = path;
  }
  if (iteration && found.iteration != iteration) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: iteration {} was requested: expected a root folder with iter_* in it",
                      path, *iteration);
  }
  return found;
}

std::string iteration_folder_name(int64_t iteration) {
  return fmt::format("iter_{:07}", iteration);
}

std::string rank_folder_name(int64_t tensor_rank, int64_t pipeline_rank,
                             int64_t pipeline_model_parallel_size, int64_t expert_rank,
                             int64_t expert_model_parallel_size) {
  std::string name = fmt::format("mp_rank_{:02}", tensor_rank);
  if (pipeline_model_parallel_size > 1) name += fmt::format("_{:03}", pipeline_rank);
  if (expert_model_parallel_size > 1) name += fmt::format("_{:03}", expert_rank);
  return name;
}

Status write_tracker(const std::string& root, std::optional<int64_t> iteration) {
  MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::create(join_path(root, kTrackerName)));
  const std::string text = iteration ? std::to_string(*iteration) : std::string(kReleaseName);
  MEG_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

}  // namespace meg::checkpoint

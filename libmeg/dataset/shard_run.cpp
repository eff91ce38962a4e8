#include "libmeg/dataset/shard_run.h"

#include <optional>
#include <string_view>

#include "libmeg/dataset/internal/libmeg_file.h"

namespace meg::dataset {
namespace {

/// The value that a run has for a name.
std::string_view value_of(const ShardRun& run, const std::string& name) {
  for (const auto& [known, value] : run) {
    if (known == name) return value;
  }
  return "nothing";
}

std::string identity(const LibmegFile& file) {
  return file.tokenizer ? file.tokenizer->identity : std::string();
}

std::string text(const LibmegFile& file) {
  return file.tokenizer ? dataset_tokenizer_text(*file.tokenizer) : "without a name";
}

Status differ(const std::string& prefix, const std::string& name, std::string_view found,
              const std::string& first, std::string_view expected) {
  return make_error(StatusCode::kInvalidArgument,
                    "{}: expected a shard of the same run as {}, found {} {}, there {}", prefix,
                    first, name, found, expected);
}

}  // namespace

Result<ShardRun> read_shard_run(const std::string& prefix) {
  MEG_ASSIGN_OR_RETURN(LibmegFile file, read_libmeg_file(prefix));
  return std::move(file.shard_run);
}

Status check_same_run(std::span<const std::string> prefixes) {
  std::optional<LibmegFile> first;
  std::string first_prefix;
  for (const std::string& prefix : prefixes) {
    MEG_ASSIGN_OR_RETURN(LibmegFile file, read_libmeg_file(prefix));
    if (file.shard_run.empty()) continue;
    if (!first) {
      first = std::move(file);
      first_prefix = prefix;
      continue;
    }
    for (const auto& [name, expected] : first->shard_run) {
      const std::string_view found = value_of(file.shard_run, name);
      if (found != expected) return differ(prefix, name, found, first_prefix, expected);
    }
    for (const auto& [name, found] : file.shard_run) {
      const std::string_view expected = value_of(first->shard_run, name);
      if (found != expected) return differ(prefix, name, found, first_prefix, expected);
    }
    if (identity(file) != identity(*first)) {
      return differ(prefix, "tokenizer", text(file), first_prefix, text(*first));
    }
  }
  return Status();
}

}  // namespace meg::dataset

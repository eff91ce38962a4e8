#include "libmeg/checkpoint/container/safetensors/shard_index.h"

#include <fmt/format.h>

#include <set>

#include "libmeg/checkpoint/container/json/internal/json_string.h"
#include "libmeg/checkpoint/container/json/json_object.h"
#include "libmeg/text/printable.h"

namespace meg::checkpoint {
namespace {

constexpr std::string_view kWeightMap = "weight_map";

/// Whether a name can be that of a file in the same folder, and nothing else.
///
/// An index with "../../etc/..." must not make us read elsewhere.
bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

Status add_file(std::string_view tensor, const simdjson::dom::element& value,
                const std::string& where, ShardIndex* index) {
  std::string_view file;
  if (value.get(file) == simdjson::SUCCESS && is_plain_file_name(file)) {
    index->files.emplace(tensor, file);
    return Status();
  }
  return make_error(StatusCode::kCorruption,
                    "{}: {}: expected the name of a file beside the index, found {}", where,
                    text::printable(tensor, 200), json_value_text(value));
}

}  // namespace

std::vector<std::string> ShardIndex::file_names() const {
  std::set<std::string> names;
  for (const auto& [tensor, file] : files) names.insert(file);
  return {names.begin(), names.end()};
}

Result<ShardIndex> parse_shard_index(std::string_view json, const std::string& name) {
  simdjson::dom::parser parser;
  MEG_ASSIGN_OR_RETURN(const simdjson::dom::object root, parse_json_object(&parser, json, name));
  const std::string where = fmt::format("{}: {}", name, kWeightMap);
  ShardIndex index;
  MEG_RETURN_IF_ERROR(for_each_member(
      root, name, [&](std::string_view key, const simdjson::dom::element& value) -> Status {
        // `metadata` has sums for people; nothing here depends on them.
        if (key != kWeightMap) return Status();
        simdjson::dom::object files;
        if (value.get(files) != simdjson::SUCCESS) {
          return make_error(StatusCode::kCorruption, "{}: expected an object, found {}", where,
                            json_value_text(value));
        }
        return for_each_member(files, where, [&](std::string_view tensor, const auto& file) {
          return add_file(tensor, file, where, &index);
        });
      }));
  if (!index.files.empty()) return index;
  return make_error(StatusCode::kCorruption, "{}: expected the files of tensors, found none",
                    where);
}

std::string shard_index_json(const ShardIndex& index, uint64_t total_bytes,
                             uint64_t parameter_count) {
  std::string members;
  for (const auto& [tensor, file] : index.files) {
    members += fmt::format("{}\n    {}: {}", members.empty() ? "" : ",", json_string(tensor),
                           json_string(file));
  }
  return fmt::format(
      "{{\n  \"metadata\": {{\n    \"total_parameters\": {},\n    \"total_size\": {}\n  }},\n"
      "  \"{}\": {{{}\n  }}\n}}\n",
      parameter_count, total_bytes, kWeightMap, members);
}

std::vector<size_t> split_into_shards(std::span<const uint64_t> bytes, uint64_t max_bytes) {
  std::vector<size_t> shards;
  size_t shard = 0;
  uint64_t filled = 0;
  for (const uint64_t size : bytes) {
    // A tensor above the limit has a shard of its own.
    const bool fits = size <= max_bytes && filled <= max_bytes - size;
    if (!fits && filled > 0) {
      ++shard;
      filled = 0;
    }
    shards.push_back(shard);
    filled += size;
  }
  return shards;
}

std::string shard_file_name(size_t shard, size_t shards) {
  if (shards == 1) return "model.safetensors";
  return fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards);
}

}  // namespace meg::checkpoint

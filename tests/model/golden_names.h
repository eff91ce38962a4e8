#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/model/gpt_config.h"
#include "libmeg/model/parameter_table.h"
#include "tests/shared_data.h"

namespace meg::test {

using Json = nlohmann::ordered_json;

inline Json read_json(const std::string& path) { return Json::parse(std::ifstream(path)); }

/// The oracle's checkpoints in mp_rank folders (and DeepSpeed's), by name.
inline std::vector<std::string> mp_rank_cases() {
  std::vector<std::string> cases;
  const std::filesystem::path root = shared_path("oracle/checkpoints");
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    // Those without a list of tensors are for tests of their own.
    const bool is_other = name.starts_with("hf_") || name.find("dist_") != std::string::npos ||
                          !std::filesystem::exists(entry.path() / "tensors.json");
    if (entry.is_directory() && name != "evil" && !is_other) cases.push_back(name);
  }
  return cases;
}

/// The family a case was written in.
inline model::NameFamily expected_family(const std::string& name) {
  if (name.starts_with("old_v")) return model::NameFamily::kOld;
  if (name.starts_with("old_")) return model::NameFamily::kFlat;
  if (name.starts_with("derived_te_")) return model::NameFamily::kMcoreTransformerEngine;
  const bool is_mcore = (name.starts_with("mcore_") || name == "megatron_from_hf_llama_tp2") &&
                        name.find("_to_legacy_") == std::string::npos;
  return is_mcore ? model::NameFamily::kMcoreLocal : model::NameFamily::kLegacy;
}

/// A case of the same model and sizes whose structure.json has args, for cases without.
inline std::string case_with_args(const std::string& name) {
  const std::map<std::string, std::string> others = {
      {"gpt_tp1pp1_bf16_distopt_dp2", "gpt_tp1pp1_fp32"},
      {"gpt_tp2pp2_bf16_distopt", "gpt_tp2pp2_fp16"},
      {"mcore_gpt_tp1pp1_bf16_distopt_dp2", "mcore_gpt_tp1pp1_fp32"},
      {"old_flat2019_tp2", "old_v0_tp2"},
      {"old_deepspeed_tp2", "old_v0_tp2"}};
  const auto other = others.find(name);
  return other == others.end() ? name : other->second;
}

/// The args of a case's first file.
inline Json case_args(const std::string& case_name) {
  const std::string name = case_with_args(case_name);
  const Json structure = read_json(shared_path("oracle/checkpoints/" + name + "/structure.json"));
  for (const auto& [file, content] : structure.items()) {
    if (content.contains("args")) return content["args"]["<Namespace>"];
  }
  return nullptr;
}

/// Looks fields up in args (which must live on); lists and the like are text.
inline megatron::FieldLookup json_fields(const Json& args) {
  return [&args](std::string_view name) -> std::optional<megatron::FieldValue> {
    const auto found = args.find(std::string(name));
    if (found == args.end()) return std::nullopt;
    if (found->is_null()) return megatron::FieldValue();
    if (found->is_boolean()) return found->get<bool>();
    if (found->is_number_integer()) return found->get<int64_t>();
    if (found->is_number()) return found->get<double>();
    return found->is_string() ? found->get<std::string>() : found->dump();
  };
}

/// A key of a model's dict in structure.json, nested keys joined by dots, with what stands there.
using ModelKeys = std::vector<std::pair<std::string, Json>>;

inline void collect_keys(const Json& tree, const std::string& above, ModelKeys* into) {
  for (const auto& [key, value] : tree.items()) {
    const std::string name = above.empty() ? key : above + "." + key;
    if (value.is_object() && !(value.size() == 1 && value.begin().key().starts_with("<"))) {
      collect_keys(value, name, into);
    } else {
      into->emplace_back(name, value);
    }
  }
}

/// The keys of every model chunk (model, model0 ... or module) of a case's first file.
inline ModelKeys model_keys(const std::string& name) {
  const Json structure = read_json(shared_path("oracle/checkpoints/" + name + "/structure.json"));
  ModelKeys keys;
  for (const auto& [key, value] : structure.begin().value().items()) {
    if (key.starts_with("model") || key == "module") collect_keys(value, "", &keys);
  }
  return keys;
}

/// The model's tensors in tensors.json: by rank file, flat names with their entries.
inline std::map<std::string, std::vector<std::pair<std::string, Json>>> model_tensors(
    const std::string& name) {
  std::map<std::string, std::vector<std::pair<std::string, Json>>> files;
  const Json tensors = read_json(shared_path("oracle/checkpoints/" + name + "/tensors.json"));
  for (const auto& [file, entries] : tensors.items()) {
    for (const Json& entry : entries) {
      std::string tensor = entry["name"];
      if (!tensor.starts_with("model") && !tensor.starts_with("module/")) continue;
      tensor.erase(0, tensor.find('/') + 1);
      std::replace(tensor.begin(), tensor.end(), '/', '.');
      files[file].emplace_back(std::move(tensor), entry);
    }
  }
  return files;
}

}  // namespace meg::test

#include "libmeg/checkpoint/dialects/mp_rank/model_arguments.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "libmeg/megatron/field_reader.h"

namespace meg::checkpoint {
namespace {

using megatron::ArgumentRow;

std::vector<const megatron::ArgumentRow*> make_model_arguments() {
  std::vector<std::string> seen = megatron::fields_read_by(
      [](const megatron::FieldLookup& fields) { (void)model::GptConfig::from_fields(fields); });
  // check_architecture compares no more of the shape of experts than their args.
  std::erase(seen, "num_experts");
  std::erase(seen, "moe_ffn_hidden_size");
  std::erase(seen, "moe_router_topk");
  std::erase(seen, "moe_router_enable_expert_bias");
  std::erase(seen, "moe_shared_expert_intermediate_size");
  std::erase(seen, "moe_shared_expert_gate");
  seen.emplace_back("encoder_num_layers");  // validate_args sets it to num_layers
  std::vector<const megatron::ArgumentRow*> rows;
  for (const megatron::ArgumentRow& row :
       megatron::argument_rows(megatron::ArgumentFamily::kTraining)) {
    const bool is_new = std::find(seen.begin(), seen.end(), row.dest) == seen.end();
    if (row.effect != megatron::Effect::kModel || !is_new) continue;
    seen.emplace_back(row.dest);
    rows.push_back(&row);
  }
  return rows;
}

}  // namespace

const std::vector<const megatron::ArgumentRow*>& model_arguments() {
  static const std::vector<const megatron::ArgumentRow*> rows = make_model_arguments();
  return rows;
}

std::optional<megatron::FieldValue> argument_of(const MegatronCheckpoint& checkpoint,
                                                const megatron::ArgumentRow& row) {
  if (std::optional<megatron::FieldValue> found = checkpoint.described_arg(row.dest)) return found;
  for (const std::string_view name : megatron::words_of(row.older_dests)) {
    if (name.starts_with('!')) continue;  // it said the opposite
    if (std::optional<megatron::FieldValue> found = checkpoint.described_arg(name)) return found;
  }
  return std::nullopt;
}

}  // namespace meg::checkpoint

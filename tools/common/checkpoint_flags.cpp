#include "tools/common/checkpoint_flags.h"

#include <map>
#include <span>

#include "libmeg/io/mapped_file.h"

namespace meg::tools {
namespace {

constexpr int64_t kLargestSize = int64_t{1} << 30;

}  // namespace

void CheckpointFlags::declare(Flags& flags) {
  flags.group("Reading checkpoints");
  flags.value("--param-rules", &param_rules_, "FILE",
              "rules for custom parameters: lines of PATTERN PARTITION [PLACEMENT]");
  const auto size = [&](const char* name, std::optional<int64_t>* target) {
    flags.value(name, target, "N", "value for checkpoints whose args lack it")
        .range(1, kLargestSize);
  };
  size("--num-layers", &num_layers_);
  size("--hidden-size", &hidden_size_);
  size("--num-attention-heads", &num_attention_heads_);
  size("--max-position-embeddings", &max_position_embeddings_);
  size("--padded-vocab-size", &padded_vocab_size_);
  size("--make-vocab-size-divisible-by", &make_vocab_size_divisible_by_);
}

Result<checkpoint::OpenCheckpointOptions> CheckpointFlags::options() const {
  checkpoint::OpenCheckpointOptions options;
  if (param_rules_.has_value()) {
    MEG_ASSIGN_OR_RETURN(const io::MappedFile file, io::MappedFile::open(*param_rules_));
    const std::span<const std::byte> bytes = file.bytes();
    options.param_rules.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    options.param_rules_name = *param_rules_;
  }
  std::map<std::string, megatron::FieldValue, std::less<>> fields;
  const auto add = [&](const char* name, const std::optional<int64_t>& value) {
    if (value.has_value()) fields[name] = *value;
  };
  add("num_layers", num_layers_);
  add("hidden_size", hidden_size_);
  add("num_attention_heads", num_attention_heads_);
  add("max_position_embeddings", max_position_embeddings_);
  add("padded_vocab_size", padded_vocab_size_);
  add("make_vocab_size_divisible_by", make_vocab_size_divisible_by_);
  options.fallback = [fields](std::string_view name) -> std::optional<megatron::FieldValue> {
    const auto found = fields.find(name);
    return found == fields.end() ? std::nullopt : std::optional(found->second);
  };
  return options;
}

}  // namespace meg::tools

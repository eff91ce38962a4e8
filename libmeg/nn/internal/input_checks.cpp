#include "libmeg/nn/internal/input_checks.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

namespace meg::nn {
namespace {

std::string sizes_text(const at::Tensor& tensor) {
  if (!tensor.defined()) return "nothing";
  return fmt::format("{} [{}]", c10::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes(), ", "));
}

at::IntArrayRef int64_values(const at::Tensor& dense) {
  return {dense.const_data_ptr<int64_t>(), static_cast<size_t>(dense.numel())};
}

Status wrong_tensor(std::string_view name, std::string_view expected, const at::Tensor& found) {
  return make_error(StatusCode::kInvalidArgument, "{}: expected {}, found {}", name, expected,
                    sizes_text(found));
}

/// `first` is the input: the tokens of whole sequences, or the hidden states of a rank's part.
int64_t sequence_length(const InputRules& rules, const at::Tensor& first) {
  const bool is_part = !rules.is_first && rules.ranks.splits_sequences();
  return first.size(1) * (is_part ? rules.ranks.size() : 1);
}

/// Rows of a table that a tensor asks for. On a GPU asking would wait for it: there LibTorch's
/// kernels stop the program instead.
Status check_rows(std::string_view name, const at::Tensor& rows, int64_t count) {
  if (!rows.is_cpu() || rows.numel() == 0) return Status();
  const auto [least, most] = at::aminmax(rows);
  const int64_t lowest = least.item<int64_t>();
  const int64_t highest = most.item<int64_t>();
  if (lowest >= 0 && highest < count) return Status();
  return make_error(StatusCode::kOutOfRange, "{}: expected 0 to {}, found {}", name, count - 1,
                    lowest < 0 ? lowest : highest);
}

/// Lengths of documents must add up to b samples of s tokens each.
Status check_documents(const GptInput& input, int64_t b, int64_t s) {
  const at::Tensor& lengths = input.document_lengths;
  if (!lengths.defined()) return Status();
  if (input.attention_mask.defined()) {
    return make_error(StatusCode::kInvalidArgument,
                      "document_lengths: cannot be combined with attention_mask");
  }
  if (!(lengths.is_cpu() && lengths.dim() == 1 && lengths.scalar_type() == at::kLong)) {
    return wrong_tensor("document_lengths", "Long [n], on the CPU", lengths);
  }
  int64_t total = 0;
  for (const int64_t length : int64_values(lengths)) {
    if (length < 1 || length > s - total % s) {
      return make_error(StatusCode::kOutOfRange,
                        "document_lengths: expected 1 to {} after {} tokens, found {}",
                        s - total % s, total, length);
    }
    total += length;
  }
  if (total == b * s) return Status();
  return make_error(StatusCode::kInvalidArgument,
                    "document_lengths: expected {} tokens in all, found {}", b * s, total);
}

/// The new tokens of all sequences, whose slots must have room for them.
Result<int64_t> count_tokens(const CachedInput& input, const KvCache& cache) {
  std::vector<bool> is_taken(static_cast<size_t>(cache.slots()));
  int64_t tokens = 0;
  for (const auto& [slot, count] : input.sequences) {
    if (slot < 0 || slot >= cache.slots() || is_taken[static_cast<size_t>(slot)]) {
      return make_error(StatusCode::kInvalidArgument,
                        "slot: expected one of {}, each once, found {}", cache.slots(), slot);
    }
    is_taken[static_cast<size_t>(slot)] = true;
    const int64_t room = cache.capacity() - cache.length(slot);
    if (count < 1 || count > room) {
      return make_error(StatusCode::kOutOfRange, "slot {}: expected 1 to {} new tokens, found {}",
                        slot, room, count);
    }
    tokens += count;
  }
  return tokens;
}

}  // namespace

Status check_input(const InputRules& rules, const GptInput& input) {
  const auto& [config, options, is_first, is_last, ranks] = rules;
  const at::Tensor& first = is_first ? input.tokens : input.hidden_states;
  if (is_first && !(first.defined() && first.dim() == 2 && first.scalar_type() == at::kLong)) {
    return wrong_tensor("tokens", "Long [b, s]", first);
  }
  if (!is_first && !(first.defined() && first.dim() == 3 && first.size(2) == config.hidden_size &&
                     first.scalar_type() == options.residual_dtype())) {
    return wrong_tensor(
        "hidden_states",
        fmt::format("{} [b, s, {}]", c10::toString(options.residual_dtype()), config.hidden_size),
        first);
  }
  const int64_t b = first.size(0);
  const int64_t s = sequence_length(rules, first);
  if (ranks.splits_sequences() && s % ranks.size() != 0) {
    return make_error(StatusCode::kInvalidArgument,
                      "tokens: expected sequences that {} ranks divide evenly, found {} in one",
                      ranks.size(), s);
  }
  const bool has_positions = config.position_embedding_type == "learned_absolute";
  if (has_positions && s > config.max_position_embeddings) {
    return make_error(StatusCode::kInvalidArgument,
                      "tokens: expected at most max_position_embeddings {} in a sequence, found {}",
                      config.max_position_embeddings, s);
  }
  MEG_RETURN_IF_ERROR(config.check_positions("tokens", s));
  const auto fits_batch = [&](const at::Tensor& tensor) {
    return tensor.size(0) == b || tensor.size(0) == 1;
  };
  const at::Tensor& positions = input.position_ids;
  if (positions.defined() && !(positions.dim() == 2 && fits_batch(positions) &&
                               positions.size(1) == s && positions.scalar_type() == at::kLong)) {
    return wrong_tensor("position_ids", fmt::format("Long [{}, {}]", b, s), positions);
  }
  const at::Tensor& mask = input.attention_mask;
  if (mask.defined() &&
      !(mask.dim() == 4 && fits_batch(mask) && mask.size(1) == 1 && mask.size(2) == s &&
        mask.size(3) == s && mask.scalar_type() == at::kBool)) {
    return wrong_tensor("attention_mask", fmt::format("Bool [{}, 1, {}, {}]", b, s, s), mask);
  }
  if (mask.defined() && options.device.is_cuda() &&
      options.attention_backend == AttentionBackend::kFlash) {
    return make_error(StatusCode::kUnsupported,
                      "attention_backend flash: does not support an attention mask; expected auto, "
                      "fused, unfused or local");
  }
  MEG_RETURN_IF_ERROR(check_documents(input, b, s));
  if (const at::Tensor& rows = input.rows; rows.defined()) {
    const bool fits = is_last && rows.dim() == 1 && rows.scalar_type() == at::kLong;
    if (!fits) return wrong_tensor("rows", "Long [n], on the last stage", rows);
    MEG_RETURN_IF_ERROR(check_rows("rows", rows, b * s));
  }
  if (is_first) MEG_RETURN_IF_ERROR(check_rows("tokens", first, config.padded_vocab_size));
  if (is_first && has_positions && positions.defined()) {
    return check_rows("position_ids", positions, config.max_position_embeddings);
  }
  return Status();
}

Status check_input(const InputRules& rules, const CachedInput& input, const KvCache& cache) {
  const model::GptConfig& config = rules.config;
  MEG_ASSIGN_OR_RETURN(const int64_t tokens, count_tokens(input, cache));
  if (!rules.is_first) {
    if (input.hidden_states.defined() && input.hidden_states.dim() == 3 &&
        input.hidden_states.size(1) == tokens && tokens > 0) {
      return Status();
    }
    return wrong_tensor("hidden_states", fmt::format("[1, {}, h]", tokens), input.hidden_states);
  }
  if (!(input.tokens.defined() && input.tokens.dim() == 1 && input.tokens.size(0) == tokens &&
        tokens > 0 && input.tokens.scalar_type() == at::kLong)) {
    return wrong_tensor("tokens", fmt::format("Long [{}]", tokens), input.tokens);
  }
  MEG_RETURN_IF_ERROR(config.check_positions("cache: capacity", cache.capacity()));
  return check_rows("tokens", input.tokens, config.padded_vocab_size);
}

Status check_hidden_rows(const InputRules& rules, const at::Tensor& hidden_rows) {
  const int64_t hidden_size = rules.config.hidden_size;
  if (hidden_rows.defined() && hidden_rows.dim() == 2 && hidden_rows.size(1) == hidden_size &&
      hidden_rows.scalar_type() == rules.options.params_dtype) {
    return Status();
  }
  return wrong_tensor(
      "hidden_rows",
      fmt::format("{} [n, {}]", c10::toString(rules.options.params_dtype), hidden_size),
      hidden_rows);
}

Status check_labels(const InputRules& rules, const GptInput& input, const at::Tensor& labels) {
  const at::Tensor& first = rules.is_first ? input.tokens : input.hidden_states;
  if (!(labels.defined() && labels.dim() == 2 && labels.scalar_type() == at::kLong &&
        labels.size(0) == first.size(0) && labels.size(1) == sequence_length(rules, first))) {
    return wrong_tensor("labels",
                        fmt::format("Long [{}, {}]", first.size(0), sequence_length(rules, first)),
                        labels);
  }
  return check_rows("labels", labels, rules.config.padded_vocab_size);
}

Status check_grad_losses(const at::Tensor& labels, const at::Tensor& grad_losses) {
  if (grad_losses.defined() && grad_losses.scalar_type() == at::kFloat &&
      grad_losses.sizes() == labels.sizes()) {
    return Status();
  }
  return wrong_tensor("grad_losses", fmt::format("Float [{}, {}]", labels.size(0), labels.size(1)),
                      grad_losses);
}

}  // namespace meg::nn

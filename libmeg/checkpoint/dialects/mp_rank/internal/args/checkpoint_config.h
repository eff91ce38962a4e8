#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_model.h"
#include "libmeg/model/gpt_config.h"
#include "libmeg/model/parameter_count.h"

namespace meg::checkpoint {

/// The model's shape: by the args of a rank's file, and where these lack a field by `fallback`.
/// Errors as GptConfig::from_fields.
Result<model::GptConfig> read_checkpoint_config(const TorchFile& file,
                                                const megatron::FieldLookup& fallback);

/// kUnsupported, by the arg's name: one with which parameters that are called as ever have their
/// rows in another order, or layers of one model differ.
Status check_rows_of_args(const TorchFile& file);

/// Takes an MLP for gated whose first matrix has twice ffn_hidden_size rows, whatever args call its
/// gate. chunk: of a rank among tensor_size.
void infer_gated_linear_unit(const std::vector<RankEntry>& chunk, int64_t tensor_size,
                             model::GptConfig* config);

/// The shapes that a config gives to the parameters of one tensor-parallel rank.
class RankShapes {
 public:
  /// Knows nothing.
  RankShapes() = default;

  RankShapes(const model::GptConfig& config, int64_t tensor_size, bool with_tied_copy);

  /// Of the whole model; empty where the config does not tell.
  const std::vector<model::ModelParameter>& parameters() const { return parameters_; }

  /// What a parameter that was found with this shape should have. The heights of tables, and of
  /// positions that the config does not know, are taken as found. nullopt for parameters that only
  /// user rules know.
  std::optional<std::vector<int64_t>> expected(const model::ParameterMatch& match,
                                               const std::vector<int64_t>& found) const;

 private:
  std::vector<model::ModelParameter> parameters_;
  int64_t tensor_size_ = 1;
  bool has_positions_ = false;
};

}  // namespace meg::checkpoint

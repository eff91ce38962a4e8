#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_model.h"
#include "libmeg/model/gpt_config.h"
#include "libmeg/model/parameter_count.h"

namespace meg::checkpoint {

/// Reads the model's shape from the args of a rank's file, and from `fallback` where these lack a
/// field. Errors are those of GptConfig::from_fields.
Result<model::GptConfig> read_checkpoint_config(const TorchFile& file,
                                                const megatron::FieldLookup& fallback);

/// kUnsupported, with the arg's name, if an arg changes the order of the rows of parameters whose
/// names stay the same, or makes the layers of one model differ.
Status check_rows_of_args(const TorchFile& file);

/// Treats an MLP as gated if its first matrix has twice ffn_hidden_size rows, whatever args call
/// its activation. chunk: of one of tensor_size ranks.
void infer_gated_linear_unit(const std::vector<RankEntry>& chunk, int64_t tensor_size,
                             model::GptConfig* config);

/// The shapes that a config gives to the parameters of one tensor-parallel rank.
class RankShapes {
 public:
  /// Expects nothing: expected() returns what was found.
  RankShapes() = default;

  RankShapes(const model::GptConfig& config, int64_t tensor_size, bool with_tied_copy);

  /// Layers of the whole model; empty if the config does not tell.
  const std::vector<model::ModelParameter>& parameters() const { return parameters_; }

  /// The expected shape of a parameter that was found with this shape. The rows of tables, and of
  /// positions that the config does not state, are taken as found. nullopt for parameters that only
  /// user rules know.
  std::optional<std::vector<int64_t>> expected(const model::ParameterMatch& match,
                                               const std::vector<int64_t>& found) const;

 private:
  std::vector<model::ModelParameter> parameters_;
  int64_t tensor_size_ = 1;
  bool has_positions_ = false;
};

}  // namespace meg::checkpoint

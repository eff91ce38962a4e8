#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"
#include "libmeg/checkpoint/state/logical_parameter.h"
#include "libmeg/model/gpt_config.h"
#include "libmeg/model/parameter_table.h"

namespace meg::checkpoint {

/// State beside the parameters that is not a parameter itself: `..._extra_state`.
struct ExtraState {
  std::string spelling;          ///< Flat, with {} for the layer's number.
  std::optional<int64_t> layer;  ///< In the whole model.
  int64_t stage = 0, chunk = 0;
  std::vector<PickleId> nodes;  ///< By tensor-parallel rank, in files (rank, stage).
};

enum class OptimizerForm : uint8_t {
  kNone,
  kFp32,            ///< optimizer = {state, param_groups}
  kMixedPrecision,  ///< optimizer = {optimizer: {...}, fp32_from_fp16_params, grad_scaler}
  kDistributed,     ///< Only param_groups: the rest, distrib_optim.pt, is missing.
};

/// "none", "fp32", "mixed precision" or "distributed".
std::string_view optimizer_form_text(OptimizerForm form);

/// One of the param_groups of a rank.
struct ParamGroup {
  ParamGroupKind kind = ParamGroupKind::kDecay;
  int file = 0;           ///< Index into MegatronCheckpoint::files().
  PickleId node = 0;      ///< Its dict there.
  size_t parameters = 0;  ///< How many it has.
};

/// The form of a checkpoint's optimizer, so that a reshaped one can be written in the same form.
struct OptimizerLayout {
  OptimizerForm form = OptimizerForm::kNone;
  std::string inner_key = "optimizer";                ///< Or optimizer_state_dict.
  std::string masters_key = "fp32_from_fp16_params";  ///< Or fp32_from_fp16.
  bool has_state = false;  ///< False where it was saved before the first step: `state` is empty.
  bool is_distributed = false;     ///< Files have the distributed form; read as the plain one.
  std::vector<ParamGroup> groups;  ///< Of all files.
  /// core 0.6 to 0.15: a stage's groups stand in the order in which its parameters first need them;
  /// before and since: decay first, always.
  bool groups_by_first_appearance = false;
  /// Since core 0.14: ranks have every group that any rank has, though it be empty there.
  bool keeps_empty_groups = false;

  /// The first group of a kind that has parameters (or has none, where is_empty), else the first of
  /// that kind; nullptr where no rank has one.
  const ParamGroup* group(ParamGroupKind kind, bool is_empty = false) const;
};

/// One rank's open file.
struct RankFile {
  int64_t tensor_rank = 0;
  int64_t pipeline_rank = 0;
  std::string folder_name;  ///< mp_rank_00_001
  std::shared_ptr<const TorchFile> file;
};

struct OpenCheckpointOptions {
  /// Rows for ParameterTable::add_rules, and their file's name.
  std::string param_rules, param_rules_name;
  /// Fields for checkpoints without args (--num-layers, --hidden-size ...); asked where args lack
  /// one.
  megatron::FieldLookup fallback;
  /// Skips the optimizer, so that unsupported forms are not an error.
  bool ignore_optimizer = false;
};

/// A Megatron checkpoint in mp_rank folders, opened by metadata alone and seen as one whole model:
/// parameters by name with the layer's number in the model, each a list of views into the rank
/// files. Experts are numbered through the model's layers, whatever ranks held them. Holds for
/// legacy and mcore names, fp32 and mixed-precision optimizers, virtual stages.
class MegatronCheckpoint {
 public:
  /// kNotFound: rank files missing (all are named, counted against args). kCorruption: files that
  /// contradict each other (iteration, sizes in args, names, shapes, optimizer entries).
  /// kUnsupported, by name: formats and forms that are not read yet, unknown parameters.
  static Result<MegatronCheckpoint> open(const CheckpointFolder& folder,
                                         const OpenCheckpointOptions& options = {});

  /// The same of the only rank's file, open or composed, which lies in no folder: folder() is
  /// empty. Of one rank of several it is the rank's part of the model: parameters have the shapes
  /// and numbers of the whole, the pieces of this rank and the layers of its stage alone.
  static Result<MegatronCheckpoint> of_file(TorchFile file, int64_t tensor_rank = 0,
                                            int64_t pipeline_rank = 0);

  MegatronCheckpoint(MegatronCheckpoint&&) noexcept;
  MegatronCheckpoint& operator=(MegatronCheckpoint&&) noexcept;
  ~MegatronCheckpoint();

  const CheckpointFolder& folder() const;
  const model::GptConfig& config() const;
  const model::ParameterTable& table() const;

  int64_t tensor_model_parallel_size() const;
  int64_t pipeline_model_parallel_size() const;
  int64_t virtual_pipeline_model_parallel_size() const;  ///< 1: none.
  /// Ranks that share the experts. files() holds their files merged to one.
  int64_t expert_model_parallel_size() const;
  model::NameFamily family() const;
  bool norm_spelling_is_short() const;  ///< Legacy with input_norm for input_layernorm.
  double checkpoint_version() const;    ///< 0 where the file has none.
  std::optional<int64_t> iteration() const;

  /// All rank files; file (t, p) has index p * tensor_model_parallel_size() + t. Of a part: one.
  std::span<const RankFile> files() const;
  int file_index(int64_t tensor_rank, int64_t pipeline_rank) const;

  /// args of a rank's file (argparse.Namespace or dict); nullopt where it has none.
  std::optional<PickleId> args(int file) const;
  /// A field of the args of the first file; of a hybrid model as GPT's args would have it.
  std::optional<megatron::FieldValue> arg(std::string_view name) const;
  /// The same of any value: a list as its words, an object (an enum's member, say) as the name of
  /// its class, so that no arg looks as if it were missing.
  std::optional<megatron::FieldValue> described_arg(std::string_view name) const;

  /// Embedding, layers ascending, final norm, output layer. Within a layer: the source's order. The
  /// tied copy of the embedding on the last stage is not among them.
  std::span<const LogicalParameter> parameters() const;

  /// word_embeddings_for_head (or a tied output_layer) of the last stage.
  const LogicalParameter* tied_copy() const;

  std::span<const ExtraState> extra_states() const;
  const OptimizerLayout& optimizer() const;

  /// One line each: what its reader left unread because it changes no number.
  std::span<const std::string> notes() const;

 private:
  friend class CheckpointReader;
  struct State;
  explicit MegatronCheckpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace meg::checkpoint

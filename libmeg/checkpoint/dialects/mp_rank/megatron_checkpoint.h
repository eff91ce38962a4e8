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

/// State of a module that is not a parameter: `..._extra_state`.
struct ExtraState {
  std::string spelling;          ///< Flat, with {} for the layer's number.
  std::optional<int64_t> layer;  ///< Counted through the whole model.
  int64_t stage = 0, chunk = 0;
  std::vector<PickleId> nodes;  ///< One for each tensor-parallel rank, in files (rank, stage).
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
  size_t parameters = 0;  ///< Number of its parameters.
};

/// The form of a checkpoint's optimizer, so that a reshaped one can be written in the same form.
struct OptimizerLayout {
  OptimizerForm form = OptimizerForm::kNone;
  std::string inner_key = "optimizer";                ///< Or optimizer_state_dict.
  std::string masters_key = "fp32_from_fp16_params";  ///< Or fp32_from_fp16.
  bool has_state = false;       ///< False if it was saved before the first step: `state` is empty.
  bool is_distributed = false;  ///< Files have the distributed form; read as the plain one.
  /// Elements at whose multiples parameters begin in its buffers, if their places tell.
  std::optional<int64_t> buffer_alignment;
  std::vector<ParamGroup> groups;  ///< Those of all files.
  /// core 0.6 to 0.15 list a stage's groups in the order in which its parameters first need them;
  /// before and since, the one with decay comes first.
  bool groups_by_first_appearance = false;
  /// Since core 0.14, ranks have every group that any rank has, even if it is empty there.
  bool keeps_empty_groups = false;

  /// The first group of a kind that has parameters (or, with is_empty, has none), otherwise the
  /// first of that kind; nullptr if no rank has one.
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
  /// Fields for checkpoints without args (--num-layers, --hidden-size ...); used if args lack one.
  megatron::FieldLookup fallback;
  /// Skips the optimizer, so that unsupported forms are not an error.
  bool ignore_optimizer = false;
  /// Whether what is pickled in rank files must have the CRC-32 that their archives record. In
  /// other formats it must.
  bool check_crcs = true;
};

/// A Megatron checkpoint in mp_rank folders, opened by metadata alone and presented as one whole
/// model: parameters by name with the layer's number in the model, each a list of views into the
/// rank files. Experts are numbered through the model's layers, whatever ranks held them. Covers
/// legacy and mcore names, fp32 and mixed-precision optimizers, and virtual stages.
class MegatronCheckpoint {
 public:
  /// kNotFound: rank files missing (all are named, counted against args). kCorruption: files that
  /// contradict each other (iteration, sizes in args, names, shapes, optimizer entries).
  /// kUnsupported, by name: formats and forms that are not read yet, unknown parameters.
  static Result<MegatronCheckpoint> open(const CheckpointFolder& folder,
                                         const OpenCheckpointOptions& options = {});

  /// The same for the file of a single rank, open or composed, which is in no folder: folder() is
  /// empty. The file of one rank of several gives that rank's part of the model: parameters have
  /// the shapes and numbers of the whole, but only the pieces of this rank and the layers of its
  /// stage.
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
  /// Ranks over which experts are divided. files() contains their files merged into one.
  int64_t expert_model_parallel_size() const;
  model::NameFamily family() const;
  bool norm_spelling_is_short() const;  ///< Legacy with input_norm for input_layernorm.
  double checkpoint_version() const;    ///< 0 if the file has none.
  std::optional<int64_t> iteration() const;

  /// All rank files; file (t, p) has index p * tensor_model_parallel_size() + t. One file if this
  /// is a part.
  std::span<const RankFile> files() const;
  int file_index(int64_t tensor_rank, int64_t pipeline_rank) const;

  /// args of a rank's file (argparse.Namespace or dict); nullopt if it has none.
  std::optional<PickleId> args(int file) const;
  /// A field of the first file's args; for a hybrid model, its value in the equivalent GPT model's
  /// args.
  std::optional<megatron::FieldValue> arg(std::string_view name) const;
  /// The same for values of any type: a list as its text, an object (such as a member of an enum)
  /// as the name of its class, so that no arg appears to be missing.
  std::optional<megatron::FieldValue> described_arg(std::string_view name) const;

  /// Embedding, layers ascending, final norm, output layer. Within a layer: the source's order. The
  /// tied copy of the embedding on the last stage is not among them.
  std::span<const LogicalParameter> parameters() const;

  /// word_embeddings_for_head (or a tied output_layer) of the last stage.
  const LogicalParameter* tied_copy() const;

  std::span<const ExtraState> extra_states() const;
  const OptimizerLayout& optimizer() const;

  /// What the reader ignored because it changes no number, one line each.
  std::span<const std::string> notes() const;

 private:
  friend class CheckpointReader;
  struct State;
  explicit MegatronCheckpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace meg::checkpoint

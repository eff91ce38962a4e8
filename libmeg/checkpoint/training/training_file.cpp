#include "libmeg/checkpoint/training/training_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "libmeg/base/bytes.h"
#include "libmeg/checkpoint/container/torch_file/tensor_view.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/args/shape_args.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/chunk_entries.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_grid.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/state_dict_tree.h"
#include "libmeg/checkpoint/training/internal/optimizer_tree.h"
#include "libmeg/checkpoint/training/internal/rng_tree.h"
#include "libmeg/model/expert_names.h"
#include "libmeg/model/gpt_config.h"
#include "libmeg/model/parameter_count.h"

// Builds the tree of a rank's model_optim_rng.pt, its keys in the order of Megatron's
// generate_state_dict. Nothing is copied: the tree's storages point at the bytes handed over.
//
// The model that args describe decides what must be there. What was handed over is matched against
// it before a byte is written, so that no checkpoint of half a model appears.

namespace meg::checkpoint {
namespace {

// What Megatron writes. Below 2.0 it permutes query, key and value when it loads
// (fix_query_key_value_ordering).
constexpr double kCheckpointVersion = 3.0;

/// What Megatron's loaders read of the saved args without a default: check_checkpoint_args.
constexpr const char* kArgsOfLoaders[] = {"num_layers",
                                          "hidden_size",
                                          "num_attention_heads",
                                          "max_position_embeddings",
                                          "padded_vocab_size",
                                          "make_vocab_size_divisible_by",
                                          "tokenizer_type",
                                          "tensor_model_parallel_size",
                                          "pipeline_model_parallel_size"};

Status check_tensor(const TrainingTensor& tensor, const model::RankParameter& parameter,
                    std::string_view kind) {
  if (tensor.shape != parameter.shape) {
    return make_error(StatusCode::kInvalidArgument, "{}: {}: expected shape {}, found {}",
                      parameter.name, kind, shape_text(parameter.shape), shape_text(tensor.shape));
  }
  auto bytes = static_cast<uint64_t>(dtype_size(tensor.dtype));
  for (const int64_t size : tensor.shape) bytes *= static_cast<uint64_t>(size);
  if (tensor.bytes.size() != bytes) {
    return make_error(StatusCode::kInvalidArgument, "{}: {}: expected {} bytes, found {}",
                      parameter.name, kind, bytes, tensor.bytes.size());
  }
  return Status();
}

class FileBuilder {
 public:
  FileBuilder(const TrainingState& state, const TrainingFileOptions& options,
              model::ParameterTable table)
      : state_(state), options_(options), table_(std::move(table)) {}

  Result<TrainingTree> build() {
    MEG_RETURN_IF_ERROR(read_args());
    MEG_RETURN_IF_ERROR(match_parameters());
    MEG_ASSIGN_OR_RETURN(const model::PipelineLayout layout,
                         model::PipelineLayout::create(config_.num_layers, sizes_));
    // Until here, args are GPT's.
    if (options_.names == model::NameFamily::kHybrid) {
      set_hybrid_args(layout, config_, &args_);
    }
    add("args", tree_.args(args_));
    add("checkpoint_version", tree_.graph().add_float(kCheckpointVersion));
    add("iteration", tree_.graph().add_int(state_.iteration));
    for (int64_t c = 0; c < sizes_.virtual_pipeline_model_parallel_size; ++c) {
      const bool is_only = sizes_.virtual_pipeline_model_parallel_size == 1;
      add(is_only ? "model" : fmt::format("model{}", c), add_model(layout, c));
    }
    if (state_.optimizer.has_value()) {
      // The first rank's groups are those of all in torch_dist, as core has had them on every rank
      // since it gathers them (0.14); the rank files of core_v0.12.3 have none without members.
      const ParamGroupRules rules{.is_core = is_core(),
                                  .keeps_empty = options_.format == CheckpointFormat::kTorchDist};
      MEG_ASSIGN_OR_RETURN(const PickleId optimizer, add_optimizers(rules));
      add("optimizer", optimizer);
    }
    if (state_.opt_param_scheduler.has_value()) {
      add("opt_param_scheduler", tree_.dict(*state_.opt_param_scheduler));
    }
    if (options_.rerun_state_machine) add("rerun_state_machine", add_rerun_state());
    if (state_.rng.has_value()) add("rng_state", add_rng_state(*state_.rng, &tree_));
    if (is_core()) {
      add("num_floating_point_operations_so_far",
          tree_.field(state_.num_floating_point_operations_so_far));
    }
    tree_.content().root = tree_.graph().add_dict(std::move(pairs_));
    return std::move(tree_);
  }

 private:
  bool is_core() const { return options_.names != model::NameFamily::kLegacy; }

  void add(std::string_view key, PickleId value) {
    pairs_.push_back(tree_.text(key));
    pairs_.push_back(value);
  }

  int64_t size_arg(const char* name) const {
    const std::optional<megatron::FieldValue> value = args_.field(name);
    const int64_t* size = value.has_value() ? std::get_if<int64_t>(&*value) : nullptr;
    return size == nullptr ? 1 : *size;
  }

  Status read_args() {
    args_ = state_.args;
    // Megatron's check_checkpoint_args reads these by getattr without a default: without them its
    // load would end in an AttributeError, long after the run that saved.
    for (const char* name : kArgsOfLoaders) {
      if (args_.find(name) != nullptr) continue;
      return make_error(StatusCode::kInvalidArgument,
                        "args: expected {}, which loaders require, found none", name);
    }
    // The state's counts, which are ahead of those in the args with which the run was started.
    args_.set("consumed_train_samples", {state_.consumed_train_samples});
    args_.set("consumed_valid_samples", {state_.consumed_valid_samples});
    const megatron::FieldLookup lookup = [this](std::string_view name) {
      return args_.field(name);
    };
    Result<model::GptConfig> config = model::GptConfig::from_fields(lookup);
    if (!config.has_value()) return config.error().with_prefix("args");
    config_ = *std::move(config);
    sizes_.tensor_model_parallel_size = size_arg("tensor_model_parallel_size");
    sizes_.pipeline_model_parallel_size = size_arg("pipeline_model_parallel_size");
    sizes_.virtual_pipeline_model_parallel_size = size_arg("virtual_pipeline_model_parallel_size");
    if (config_.num_experts.has_value()) {
      sizes_.expert_model_parallel_size = size_arg("expert_model_parallel_size");
      MEG_RETURN_IF_ERROR(read_expert_tensor_size());
    }
    megatron::FieldReader fields(lookup);
    sizes_.split.take_fields(fields);
    return fields.status().with_prefix("args");
  }

  /// None stands for the tensor-parallel size.
  Status read_expert_tensor_size() {
    const std::optional<megatron::FieldValue> value = args_.field("expert_tensor_parallel_size");
    const int64_t* size = value.has_value() ? std::get_if<int64_t>(&*value) : nullptr;
    if (size != nullptr) sizes_.expert_tensor_parallel_size = *size;
    return check_expert_sizes(sizes_, options_.format);
  }

  /// Finds what was handed over for each parameter of this rank.
  Status match_parameters() {
    MEG_ASSIGN_OR_RETURN(rank_, model::rank_parameters(config_, sizes_, state_.pipeline_rank,
                                                       options_.names, table_, state_.expert_rank));
    std::unordered_map<std::string_view, const TrainingParameter*> by_name;
    for (const TrainingParameter& parameter : state_.parameters) {
      if (by_name.emplace(parameter.name, &parameter).second) continue;
      return make_error(StatusCode::kInvalidArgument, "{}: handed over twice", parameter.name);
    }
    for (const model::RankParameter& parameter : rank_) {
      const auto found = by_name.find(parameter.name);
      if (found == by_name.end()) {
        return make_error(StatusCode::kInvalidArgument,
                          "{}: expected this parameter of the model, found none", parameter.name);
      }
      MEG_RETURN_IF_ERROR(check_parameter(*found->second, parameter));
      values_.push_back(found->second);
      by_name.erase(found);
    }
    // What is left belongs to no parameter of the model: args and model disagree.
    if (by_name.empty()) return Status();
    return make_error(StatusCode::kInvalidArgument,
                      "{}: not a parameter of the model that args describe",
                      by_name.begin()->first);
  }

  Status check_parameter(const TrainingParameter& value,
                         const model::RankParameter& parameter) const {
    MEG_RETURN_IF_ERROR(check_tensor(value.weight, parameter, "weight"));
    for (const auto& [kind, tensor] :
         {std::pair("fp32_param", &value.fp32_param), std::pair("exp_avg", &value.exp_avg),
          std::pair("exp_avg_sq", &value.exp_avg_sq)}) {
      if (tensor->has_value()) MEG_RETURN_IF_ERROR(check_tensor(**tensor, parameter, kind));
    }
    return Status();
  }

  /// Whether a rank's file has experts that other files do not have. In torch_dist the writer puts
  /// together what all ranks have.
  bool has_own_experts() const {
    return options_.format != CheckpointFormat::kTorchDist && sizes_.expert_model_parallel_size > 1;
  }

  /// With experts of its own a rank has a list of two, that of experts last.
  Result<PickleId> add_optimizers(ParamGroupRules rules) {
    if (!has_own_experts()) {
      return add_optimizer(*state_.optimizer, members([](const auto&) { return true; }), rules,
                           &tree_);
    }
    std::vector<PickleId> both;
    for (const bool of_experts : {false, true}) {
      rules.is_expert_parallel = of_experts;
      const auto own = members([of_experts](const model::RankParameter& parameter) {
        return parameter.is_expert == of_experts;
      });
      MEG_ASSIGN_OR_RETURN(both.emplace_back(),
                           add_optimizer(*state_.optimizer, own, rules, &tree_));
    }
    return tree_.graph().add_list(std::move(both));
  }

  template <class Choose>
  std::vector<OptimizerMember> members(Choose choose) const {
    std::vector<OptimizerMember> found;
    for (size_t i = 0; i < rank_.size(); ++i) {
      if (!choose(rank_[i]) || rank_[i].is_buffer) continue;
      found.push_back(
          {.parameter = values_[i],
           .weight_decay = model::has_weight_decay(rank_[i].name, rank_[i].shape.size()),
           .is_embedding_or_output = rank_[i].partition == model::Partition::kVocabulary});
    }
    return found;
  }

  PickleId add_model(const model::PipelineLayout& layout, int64_t chunk) {
    StateDictTree model(options_.names);
    for (const ChunkEntry& entry :
         chunk_entries(rank_, layout, state_.pipeline_rank, chunk, options_.names, table_)) {
      // Transformer Engine's layers have `_extra_state` keys, which are None without FP8.
      model.add(name_in_file(entry.name), entry.parameter.has_value()
                                              ? tree_.tensor(values_[*entry.parameter]->weight)
                                              : tree_.graph().add_none());
    }
    return model.write(&tree_.graph(), tree_.content().global("collections", "OrderedDict"),
                       [this](std::string_view text) { return tree_.text(text); });
  }

  /// Files of expert-parallel ranks each number their experts from 0.
  std::string name_in_file(const std::string& name) const {
    const std::optional<model::ExpertName> expert = model::parse_expert_name(name);
    if (!has_own_experts() || !expert.has_value()) return name;
    const int64_t share = *config_.num_experts / sizes_.expert_model_parallel_size;
    return model::with_expert(*expert, expert->expert % share);
  }

  /// The state of a run with --rerun-mode disabled.
  /// Mirrors Megatron-LM megatron/core/rerun_state_machine.py: state_dict.
  PickleId add_rerun_state() {
    const auto member = [this](const char* name, std::variant<int64_t, std::string> value) {
      return tree_.arg({ArgValue::EnumMember{
          .type = {.module = "megatron.core.rerun_state_machine", .name = name},
          .value = std::move(value)}});
    };
    PickleGraph& graph = tree_.graph();
    const auto no = [&] { return graph.add_bool(false); };
    const auto none = [&] { return graph.add_none(); };
    const PickleId injector =
        tree_.dict({{"error_injection_rate", graph.add_int(0)},
                    {"error_injection_type", member("RerunDiagnostic", "transient_error")},
                    {"injected_error_type", none()}});
    const PickleId sharded = tree_.dict({{"state", member("RerunState", int64_t{0})},
                                         {"current_iteration", graph.add_int(state_.iteration)},
                                         {"rerun_requested", no()},
                                         {"checkpoint_requested", no()},
                                         {"restart_again_requested", no()},
                                         {"continue_requested", no()},
                                         {"error_injector_checkpoint", injector},
                                         {"failed_validation_call", none()},
                                         {"initial_result", none()},
                                         {"suspicious_node", none()},
                                         {"suspicious_device", none()},
                                         {"data_iterator_checkpoints", none()},
                                         {"large_value_counts", tree_.dict({})},
                                         {"max_values", tree_.dict({})}});
    return tree_.dict({{"mode", member("RerunMode", "disabled")}, {"sharded", sharded}});
  }

  const TrainingState& state_;
  const TrainingFileOptions& options_;
  model::ParameterTable table_;
  TrainingArgs args_;
  model::GptConfig config_;
  model::ParallelSizes sizes_;
  std::vector<model::RankParameter> rank_;
  std::vector<const TrainingParameter*> values_;  // as rank_
  TrainingTree tree_;
  std::vector<PickleId> pairs_;
};

}  // namespace

Status check_expert_sizes(const model::ParallelSizes& sizes, CheckpointFormat format) {
  if (format == CheckpointFormat::kTorchDist) return {};
  return RankGrid::create(sizes.tensor_model_parallel_size, sizes.expert_model_parallel_size,
                          sizes.expert_tensor_size())
      .status();
}

Result<TrainingTree> build_training_file(const TrainingState& state,
                                         const TrainingFileOptions& options) {
  MEG_ASSIGN_OR_RETURN(model::ParameterTable table, model::ParameterTable::gpt());
  return FileBuilder(state, options, std::move(table)).build();
}

}  // namespace meg::checkpoint

#include "tests/checkpoint/training_cases.h"

#include <cstdlib>
#include <random>

#include "libmeg/checkpoint/training/read_training_tensors.h"
#include "libmeg/checkpoint/training/seeded_generators.h"
#include "libmeg/core/float_convert.h"
#include "libmeg/model/parameter_count.h"

namespace meg::test {
namespace {

ParallelSizes sizes_of(const MegatronCheckpoint& checkpoint) {
  return {
      .tensor_model_parallel_size = checkpoint.tensor_model_parallel_size(),
      .pipeline_model_parallel_size = checkpoint.pipeline_model_parallel_size(),
      .virtual_pipeline_model_parallel_size = checkpoint.virtual_pipeline_model_parallel_size()};
}

std::vector<RankParameter> parameters_of_rank(const MegatronCheckpoint& checkpoint,
                                              int64_t pipeline_rank) {
  auto parameters = rank_parameters(checkpoint.config(), sizes_of(checkpoint), pipeline_rank,
                                    checkpoint.family(), checkpoint.table());
  EXPECT_TRUE(parameters.has_value()) << parameters.status().message();
  return parameters.has_value() ? *parameters : std::vector<RankParameter>();
}

size_t bytes_of(DType dtype, const std::vector<int64_t>& shape) {
  auto bytes = static_cast<size_t>(dtype_size(dtype));
  for (const int64_t size : shape) bytes *= static_cast<size_t>(size);
  return bytes;
}

const LogicalParameter* find_parameter(const MegatronCheckpoint& checkpoint,
                                       const std::string& name) {
  for (const LogicalParameter& parameter : checkpoint.parameters()) {
    const bool is_copy = name == kTiedCopyName && parameter.placement == Placement::kEmbedding &&
                         parameter.partition == Partition::kVocabulary;
    if (parameter.name == name || is_copy) return &parameter;
  }
  return nullptr;
}

TrainingTensor random_tensor(DType dtype, const std::vector<int64_t>& shape, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(bytes_of(DType::kFloat32, shape) / sizeof(float));
  for (float& value : values) value = static_cast<float>(random() % 20000) * 1e-4F - 1.0F;
  std::vector<std::byte> bytes(bytes_of(dtype, shape));
  const Status converted =
      convert_floats(DType::kFloat32, std::as_bytes(std::span(values)), dtype, bytes);
  EXPECT_TRUE(converted.ok()) << converted.message();
  return owned_tensor(dtype, shape, std::move(bytes));
}

TrainingArgs made_args() {
  TrainingArgs args;
  args.set("num_layers", {int64_t{2}});
  args.set("hidden_size", {int64_t{16}});
  args.set("ffn_hidden_size", {int64_t{64}});
  args.set("num_attention_heads", {int64_t{2}});
  args.set("kv_channels", {int64_t{8}});
  args.set("max_position_embeddings", {int64_t{12}});
  args.set("seq_length", {int64_t{12}});
  args.set("make_vocab_size_divisible_by", {int64_t{8}});
  args.set("padded_vocab_size", {int64_t{24}});
  args.set("tokenizer_type", {std::string("NullTokenizer")});
  args.set("tensor_model_parallel_size", {int64_t{1}});
  args.set("pipeline_model_parallel_size", {int64_t{1}});
  args.set("add_position_embedding", {true});
  args.set("data_path", {ArgValue::List{{std::string("0.5")}, {std::string("a_text_document")}}});
  args.set("params_dtype", {ArgValue::Global{"torch", "float32"}});
  args.set("lr", {0.25});
  args.set("load", {});
  return args;
}

}  // namespace

MegatronCheckpoint open_or_fail(const std::string& path) {
  const auto folder = find_checkpoint(path);
  EXPECT_TRUE(folder.has_value()) << folder.status().message();
  auto checkpoint = MegatronCheckpoint::open(folder.has_value() ? *folder : CheckpointFolder());
  EXPECT_TRUE(checkpoint.has_value()) << checkpoint.status().message();
  if (!checkpoint.has_value()) std::abort();
  return std::move(*checkpoint);
}

TrainingTensor owned_tensor(DType dtype, std::vector<int64_t> shape, std::vector<std::byte> bytes) {
  const auto owner = std::make_shared<std::vector<std::byte>>(std::move(bytes));
  return {.dtype = dtype, .shape = std::move(shape), .bytes = *owner, .owner = owner};
}

TrainingState state_of_rank(const MegatronCheckpoint& checkpoint, const TrainingReadOptions& rank) {
  auto read = read_training_state(checkpoint, rank);
  EXPECT_TRUE(read.has_value()) << read.status().message();
  if (!read.has_value()) return {};
  TrainingState state = std::move(*read);
  const int file = checkpoint.file_index(rank.tensor_rank, rank.pipeline_rank);
  auto args = read_training_args(*checkpoint.files()[static_cast<size_t>(file)].file,
                                 *checkpoint.args(file));
  EXPECT_TRUE(args.has_value()) << args.status().message();
  if (args.has_value()) state.args = std::move(*args);
  const TrainingTensorOptions options{
      .tensor_model_parallel_size = checkpoint.tensor_model_parallel_size(),
      .tensor_rank = rank.tensor_rank};
  const auto read_tensor = [&](const RankParameter& parameter, const char* kind, DType dtype) {
    std::vector<std::byte> bytes(bytes_of(dtype, parameter.shape));
    const TrainingTensorTarget target{.name = parameter.name,
                                      .kind = kind,
                                      .dtype = dtype,
                                      .shape = parameter.shape,
                                      .bytes = bytes};
    const Status status = read_training_tensors(checkpoint, {&target, 1}, options);
    EXPECT_TRUE(status.ok()) << status.message();
    return owned_tensor(dtype, parameter.shape, std::move(bytes));
  };
  for (const RankParameter& parameter : parameters_of_rank(checkpoint, rank.pipeline_rank)) {
    const LogicalParameter* found = find_parameter(checkpoint, parameter.name);
    EXPECT_NE(found, nullptr) << parameter.name;
    if (found == nullptr) continue;
    TrainingParameter value;
    value.name = parameter.name;
    value.weight = read_tensor(parameter, "weight", found->tensor("weight")->dtype);
    const auto read_state = [&](const char* kind, std::optional<TrainingTensor>* into) {
      if (state.optimizer.has_value() && found->tensor(kind) != nullptr) {
        *into = read_tensor(parameter, kind, DType::kFloat32);
      }
    };
    read_state("fp32_param", &value.fp32_param);
    read_state("exp_avg", &value.exp_avg);
    read_state("exp_avg_sq", &value.exp_avg_sq);
    state.parameters.push_back(std::move(value));
  }
  return state;
}

TrainingState made_state(DType dtype, int64_t iteration) {
  TrainingState state;
  state.iteration = iteration;
  state.consumed_train_samples = 8 * iteration;
  state.consumed_valid_samples = 3;
  state.args = made_args();
  const auto table = ParameterTable::gpt();
  const auto config =
      GptConfig::from_fields([&](std::string_view name) { return state.args.field(name); });
  const auto parameters = rank_parameters(*config, {}, 0, NameFamily::kMcoreLocal, *table);
  auto seed = static_cast<uint32_t>(1000 * iteration);
  for (const RankParameter& parameter : *parameters) {
    TrainingParameter value;
    value.name = parameter.name;
    value.weight = random_tensor(dtype, parameter.shape, ++seed);
    if (dtype != DType::kFloat32) {
      value.fp32_param = random_tensor(DType::kFloat32, parameter.shape, seed);
    }
    value.exp_avg = random_tensor(DType::kFloat32, parameter.shape, ++seed);
    value.exp_avg_sq = random_tensor(DType::kFloat32, parameter.shape, ++seed);
    state.parameters.push_back(std::move(value));
  }
  OptimizerState optimizer;
  optimizer.mixed_precision = dtype != DType::kFloat32;
  optimizer.decay = {.lr = 0.125, .weight_decay = 0.01, .step = iteration, .max_lr = 0.25};
  optimizer.no_decay = optimizer.decay;
  optimizer.no_decay.wd_mult = optimizer.no_decay.weight_decay = 0.0;
  if (dtype == DType::kFloat16) {
    optimizer.grad_scaler = {
        .dynamic = {{.scale = 65536.0F, .growth_tracker = 5, .hysteresis_tracker = 1}}};
  }
  state.optimizer = std::move(optimizer);
  state.opt_param_scheduler = {{{"max_lr", 0.25},
                                {"lr_warmup_steps", 32.0},
                                {"num_steps", 8 * iteration},
                                {"lr_decay_style", std::string("cosine")}}};
  state.rng = seeded_rng_state(1234, 0, 0, NameFamily::kMcoreLocal);
  state.num_floating_point_operations_so_far = 1e12;
  return state;
}

}  // namespace meg::test

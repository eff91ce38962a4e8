#include "tests/checkpoint/training/training_cases.h"

#include <cstdlib>
#include <random>

#include "libmeg/base/float_convert.h"
#include "libmeg/checkpoint/training/read_training_tensors.h"
#include "libmeg/checkpoint/training/seeded_generators.h"
#include "libmeg/model/parameter_count.h"

namespace meg::test {
namespace {

model::ParallelSizes sizes_of(const checkpoint::MegatronCheckpoint& checkpoint) {
  return {
      .tensor_model_parallel_size = checkpoint.tensor_model_parallel_size(),
      .pipeline_model_parallel_size = checkpoint.pipeline_model_parallel_size(),
      .virtual_pipeline_model_parallel_size = checkpoint.virtual_pipeline_model_parallel_size()};
}

std::vector<model::RankParameter> parameters_of_rank(
    const checkpoint::MegatronCheckpoint& checkpoint, int64_t pipeline_rank) {
  auto parameters = model::rank_parameters(checkpoint.config(), sizes_of(checkpoint), pipeline_rank,
                                           checkpoint.family(), checkpoint.table());
  EXPECT_TRUE(parameters.has_value()) << parameters.status().message();
  return parameters.has_value() ? *parameters : std::vector<model::RankParameter>();
}

size_t bytes_of(DType dtype, const std::vector<int64_t>& shape) {
  auto bytes = static_cast<size_t>(dtype_size(dtype));
  for (const int64_t size : shape) bytes *= static_cast<size_t>(size);
  return bytes;
}

const checkpoint::LogicalParameter* find_parameter(const checkpoint::MegatronCheckpoint& checkpoint,
                                                   const std::string& name) {
  for (const checkpoint::LogicalParameter& parameter : checkpoint.parameters()) {
    const bool is_copy = name == model::kTiedCopyName &&
                         parameter.placement == model::Placement::kEmbedding &&
                         parameter.partition == model::Partition::kVocabulary;
    if (parameter.name == name || is_copy) return &parameter;
  }
  return nullptr;
}

checkpoint::TrainingTensor random_tensor(DType dtype, const std::vector<int64_t>& shape,
                                         uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(bytes_of(DType::kFloat32, shape) / sizeof(float));
  for (float& value : values) value = static_cast<float>(random() % 20000) * 1e-4F - 1.0F;
  std::vector<std::byte> bytes(bytes_of(dtype, shape));
  const Status converted =
      convert_floats(DType::kFloat32, std::as_bytes(std::span(values)), dtype, bytes);
  EXPECT_TRUE(converted.ok()) << converted.message();
  return owned_tensor(dtype, shape, std::move(bytes));
}

checkpoint::TrainingArgs made_args() {
  checkpoint::TrainingArgs args;
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
  args.set("data_path",
           {checkpoint::ArgValue::List{{std::string("0.5")}, {std::string("a_text_document")}}});
  args.set("params_dtype", {checkpoint::ArgValue::Global{"torch", "float32"}});
  args.set("lr", {0.25});
  args.set("load", {});
  return args;
}

}  // namespace

checkpoint::MegatronCheckpoint open_or_fail(const std::string& path) {
  const auto folder = checkpoint::find_checkpoint(path);
  EXPECT_TRUE(folder.has_value()) << folder.status().message();
  auto checkpoint = checkpoint::MegatronCheckpoint::open(
      folder.has_value() ? *folder : checkpoint::CheckpointFolder());
  EXPECT_TRUE(checkpoint.has_value()) << checkpoint.status().message();
  if (!checkpoint.has_value()) std::abort();
  return std::move(*checkpoint);
}

checkpoint::TrainingTensor owned_tensor(DType dtype, std::vector<int64_t> shape,
                                        std::vector<std::byte> bytes) {
  const auto owner = std::make_shared<std::vector<std::byte>>(std::move(bytes));
  return {.dtype = dtype, .shape = std::move(shape), .bytes = *owner, .owner = owner};
}

checkpoint::TrainingState state_of_rank(const checkpoint::MegatronCheckpoint& checkpoint,
                                        const checkpoint::TrainingReadOptions& rank) {
  auto read = checkpoint::read_training_state(checkpoint, rank);
  EXPECT_TRUE(read.has_value()) << read.status().message();
  if (!read.has_value()) return {};
  checkpoint::TrainingState state = std::move(*read);
  const int file = checkpoint.file_index(rank.tensor_rank, rank.pipeline_rank);
  auto args = checkpoint::read_training_args(*checkpoint.files()[static_cast<size_t>(file)].file,
                                             *checkpoint.args(file));
  EXPECT_TRUE(args.has_value()) << args.status().message();
  if (args.has_value()) state.args = std::move(*args);
  const checkpoint::TrainingTensorOptions options{
      .tensor_model_parallel_size = checkpoint.tensor_model_parallel_size(),
      .tensor_rank = rank.tensor_rank};
  const auto read_tensor = [&](const model::RankParameter& parameter, const char* kind,
                               DType dtype) {
    std::vector<std::byte> bytes(bytes_of(dtype, parameter.shape));
    const checkpoint::TrainingTensorTarget target{.name = parameter.name,
                                                  .kind = kind,
                                                  .dtype = dtype,
                                                  .shape = parameter.shape,
                                                  .bytes = bytes};
    const Status status = checkpoint::read_training_tensors(checkpoint, {&target, 1}, options);
    EXPECT_TRUE(status.ok()) << status.message();
    return owned_tensor(dtype, parameter.shape, std::move(bytes));
  };
  for (const model::RankParameter& parameter : parameters_of_rank(checkpoint, rank.pipeline_rank)) {
    const checkpoint::LogicalParameter* found = find_parameter(checkpoint, parameter.name);
    EXPECT_NE(found, nullptr) << parameter.name;
    if (found == nullptr) continue;
    checkpoint::TrainingParameter value;
    value.name = parameter.name;
    value.weight = read_tensor(parameter, "weight", found->tensor("weight")->dtype);
    const auto read_state = [&](const char* kind, std::optional<checkpoint::TrainingTensor>* into) {
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

checkpoint::TrainingState made_state(DType dtype, int64_t iteration) {
  checkpoint::TrainingState state;
  state.iteration = iteration;
  state.consumed_train_samples = 8 * iteration;
  state.consumed_valid_samples = 3;
  state.args = made_args();
  const auto table = model::ParameterTable::gpt();
  const auto config =
      model::GptConfig::from_fields([&](std::string_view name) { return state.args.field(name); });
  const auto parameters =
      model::rank_parameters(*config, {}, 0, model::NameFamily::kMcoreLocal, *table);
  auto seed = static_cast<uint32_t>(1000 * iteration);
  for (const model::RankParameter& parameter : *parameters) {
    checkpoint::TrainingParameter value;
    value.name = parameter.name;
    value.weight = random_tensor(dtype, parameter.shape, ++seed);
    if (dtype != DType::kFloat32) {
      value.fp32_param = random_tensor(DType::kFloat32, parameter.shape, seed);
    }
    value.exp_avg = random_tensor(DType::kFloat32, parameter.shape, ++seed);
    value.exp_avg_sq = random_tensor(DType::kFloat32, parameter.shape, ++seed);
    state.parameters.push_back(std::move(value));
  }
  checkpoint::OptimizerState optimizer;
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
  state.rng = checkpoint::seeded_rng_state(1234, 0, 0, model::NameFamily::kMcoreLocal);
  state.num_floating_point_operations_so_far = 1e12;
  return state;
}

}  // namespace meg::test

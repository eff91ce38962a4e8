#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "libmeg/base/float_convert.h"
#include "libmeg/checkpoint/dialects/mp_rank/check_architecture.h"
#include "libmeg/checkpoint/dialects/mp_rank/model_arguments.h"
#include "libmeg/checkpoint/training/read_training_state.h"
#include "libmeg/checkpoint/training/read_training_tensors.h"
#include "libmeg/checkpoint/training/write_training_checkpoint.h"
#include "libmeg/megatron/argument_values.h"
#include "tests/checkpoint/training/training_cases.h"
#include "tests/shared_data.h"
#include "tests/temp_folder.h"

namespace meg::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string oracle(const char* name) { return test::shared_path(std::string("oracle/") + name); }

size_t elements(const std::vector<int64_t>& shape) {
  size_t count = 1;
  for (const int64_t size : shape) count *= static_cast<size_t>(size);
  return count;
}

std::vector<std::byte> read_one(const MegatronCheckpoint& checkpoint, const std::string& name,
                                const char* kind, DType dtype, const std::vector<int64_t>& shape,
                                const TrainingTensorOptions& options = {}) {
  std::vector<std::byte> bytes(elements(shape) * static_cast<size_t>(dtype_size(dtype)));
  const TrainingTensorTarget target{
      .name = name, .kind = kind, .dtype = dtype, .shape = shape, .bytes = bytes};
  const Status status = read_training_tensors(checkpoint, {&target, 1}, options);
  EXPECT_EQ(status.message(), "");
  return bytes;
}

std::vector<float> as_floats(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(ReadTrainingState, KnowsWhereARunStood) {
  MEG_REQUIRE_SHARED("oracle/training");
  const MegatronCheckpoint checkpoint = test::open_or_fail(oracle("training/gpt_fp16/final"));
  const auto state = read_training_state(checkpoint);
  ASSERT_TRUE(state.has_value()) << state.status().message();
  EXPECT_EQ(state->iteration, 30);
  EXPECT_EQ(state->consumed_train_samples, 240);
  EXPECT_EQ(state->optimizer->decay.step, 13);
  EXPECT_EQ(state->optimizer->decay.lr, 0.004119713215269622);
  EXPECT_EQ(state->optimizer->no_decay.weight_decay, 0.0);
  EXPECT_EQ(state->optimizer->grad_scaler->dynamic->growth_tracker, 4);
  EXPECT_EQ(state->optimizer->grad_scaler->dynamic->hysteresis_tracker, 0);
  const StateFields scheduler = {{"max_lr", 0.005},
                                 {"lr_warmup_steps", 48.0},
                                 {"num_steps", int64_t{104}},
                                 {"lr_decay_style", std::string("cosine")},
                                 {"lr_decay_steps", int64_t{240}},
                                 {"min_lr", 0.0005},
                                 {"start_wd", 0.1},
                                 {"end_wd", 0.1},
                                 {"wd_incr_style", std::string("constant")},
                                 {"wd_incr_steps", int64_t{240}}};
  EXPECT_EQ(state->opt_param_scheduler, scheduler);
  EXPECT_EQ(state->rng->tracker.size(), 1u);
  EXPECT_EQ(state->args.field("seed"), megatron::FieldValue(int64_t{42}));
}

TEST(ReadTrainingState, LoadsOnlyWhatTheFlagsAskFor) {
  MEG_REQUIRE_SHARED("oracle/training");
  const MegatronCheckpoint checkpoint = test::open_or_fail(oracle("training/gpt_fp32/mid"));
  const auto finetuned = read_training_state(checkpoint, {.finetune = true});
  ASSERT_TRUE(finetuned.has_value()) << finetuned.status().message();
  EXPECT_EQ(finetuned->iteration, 0);
  EXPECT_EQ(finetuned->consumed_train_samples, 0);
  EXPECT_FALSE(finetuned->optimizer || finetuned->opt_param_scheduler || finetuned->rng);
  const auto weights = read_training_state(checkpoint, {.no_load_optim = true});
  ASSERT_TRUE(weights.has_value()) << weights.status().message();
  EXPECT_EQ(weights->iteration, 10);
  EXPECT_EQ(weights->consumed_train_samples, 80);
  EXPECT_FALSE(weights->optimizer || weights->opt_param_scheduler);
  EXPECT_TRUE(weights->rng);
  const auto reseeded = read_training_state(checkpoint, {.no_load_rng = true});
  ASSERT_TRUE(reseeded.has_value()) << reseeded.status().message();
  EXPECT_TRUE(reseeded->optimizer && reseeded->opt_param_scheduler);
  EXPECT_FALSE(reseeded->rng);
}

TEST(ReadTrainingState, TakesAReleaseAsIterationZeroWithoutOptimizer) {
  MEG_REQUIRE_SHARED("oracle/training");
  const auto state =
      read_training_state(test::open_or_fail(oracle("training/mcore_gpt_fp32/start")));
  ASSERT_TRUE(state.has_value()) << state.status().message();
  EXPECT_EQ(state->iteration, 0);
  EXPECT_FALSE(state->optimizer || state->opt_param_scheduler || state->rng);
}

TEST(ReadTrainingState, NamesTheFlagThatSkipsWhatIsAbsent) {
  MEG_REQUIRE_SHARED("oracle/training");
  const auto without_optimizer =
      read_training_state(test::open_or_fail(oracle("training/mcore_gpt_fp32/final")));
  EXPECT_EQ(without_optimizer.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(without_optimizer.status().message(),
              HasSubstr("cannot load the optimizer: expected the key optimizer, found none; use "
                        "`no_load_optim` or `finetune` to skip it"));
  test::TempFolder folder;
  TrainingState state = test::made_state();
  state.rng.reset();
  ASSERT_TRUE(write_training_checkpoint(folder.path(), {&state, 1}).ok());
  const auto without_rng = read_training_state(test::open_or_fail(folder.path()));
  EXPECT_EQ(without_rng.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(without_rng.status().message(), HasSubstr("`no_load_rng`"));
}

TEST(ReadTrainingState, ReadsTheDistributedOptimizerAsThePlainOne) {
  MEG_REQUIRE_SHARED("oracle/training");
  const MegatronCheckpoint checkpoint =
      test::open_or_fail(oracle("training/mcore_gpt_bf16_distopt_dp2/final"));
  const auto state = read_training_state(checkpoint);
  ASSERT_TRUE(state.has_value()) << state.error().message();
  ASSERT_TRUE(state->optimizer.has_value());
  EXPECT_TRUE(state->optimizer->mixed_precision);
  EXPECT_TRUE(state->optimizer->decay.step.has_value());
}

TEST(ReadTrainingState, ReadsEveryCheckpointOfTheOracle) {
  MEG_REQUIRE_SHARED("oracle/checkpoints");
  for (const auto& entry : fs::directory_iterator(oracle("checkpoints"))) {
    const std::string name = entry.path().filename().string();
    const auto folder = find_checkpoint(entry.path().string());
    if (name == "evil" || !folder.has_value()) continue;
    const auto checkpoint = MegatronCheckpoint::open(*folder, {});
    if (!checkpoint.has_value()) continue;
    SCOPED_TRACE(name);
    const bool has_optimizer = checkpoint->optimizer().form == OptimizerForm::kFp32 ||
                               checkpoint->optimizer().form == OptimizerForm::kMixedPrecision;
    const TorchFile& first = *checkpoint->files()[0].file;
    const bool has_rng = first.graph().find(first.root(), "rng_state").has_value() ||
                         first.graph().find(first.root(), "torch_rng_state").has_value();
    const auto state = read_training_state(
        *checkpoint, {.no_load_optim = !has_optimizer, .no_load_rng = !has_rng});
    EXPECT_TRUE(state.has_value()) << state.status().message();
  }
}

TEST(ReadTrainingTensors, MergeAnyLayoutOfTheSameModel) {
  MEG_REQUIRE_SHARED("oracle/training");
  // Equal up to the rounding of sums in another order, as the oracle's README measured.
  const TrainingState whole =
      test::state_of_rank(test::open_or_fail(oracle("training/gpt_fp32/final")));
  const MegatronCheckpoint cut = test::open_or_fail(oracle("training/gpt_fp32_tp2pp2/final"));
  for (const TrainingParameter& parameter : whole.parameters) {
    if (parameter.name.ends_with("linear_qkv.bias")) continue;
    SCOPED_TRACE(parameter.name);
    const std::vector<float> expected(
        reinterpret_cast<const float*>(parameter.weight.bytes.data()),
        reinterpret_cast<const float*>(parameter.weight.bytes.data()) +
            elements(parameter.weight.shape));
    const std::vector<float> found =
        as_floats(read_one(cut, parameter.name, "weight", DType::kFloat32, parameter.weight.shape));
    for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-4) << i;
  }
}

TEST(ReadTrainingTensors, WidenWeightsAndPreferMasters) {
  test::TempFolder folder;
  const TrainingState state = test::made_state(DType::kBFloat16);
  ASSERT_TRUE(write_training_checkpoint(folder.path(), {&state, 1}).ok());
  const MegatronCheckpoint checkpoint = test::open_or_fail(folder.path());
  for (const TrainingParameter& parameter : state.parameters) {
    const std::vector<int64_t>& shape = parameter.weight.shape;
    const std::vector<std::byte> master(parameter.fp32_param->bytes.begin(),
                                        parameter.fp32_param->bytes.end());
    std::vector<std::byte> widened(master.size()), narrowed(master.size() / 2);
    ASSERT_TRUE(
        convert_floats(DType::kBFloat16, parameter.weight.bytes, DType::kFloat32, widened).ok());
    ASSERT_TRUE(convert_floats(DType::kFloat32, master, DType::kFloat16, narrowed).ok());
    const auto read = [&](const char* kind, DType dtype, bool use_masters) {
      return read_one(checkpoint, parameter.name, kind, dtype, shape, {.use_masters = use_masters});
    };
    EXPECT_EQ(read("weight", DType::kFloat32, true), master);
    EXPECT_EQ(read("weight", DType::kFloat32, false), widened);
    EXPECT_EQ(read("fp32_param", DType::kFloat32, true), master);
    EXPECT_EQ(read("fp32_param", DType::kFloat32, false), widened);
    EXPECT_EQ(read("weight", DType::kFloat16, true), narrowed);
    EXPECT_EQ(read("weight", DType::kBFloat16, true),
              std::vector<std::byte>(parameter.weight.bytes.begin(), parameter.weight.bytes.end()));
  }
}

TEST(ReadTrainingTensors, PadOrCutTheVocabulary) {
  test::TempFolder folder;
  const TrainingState state = test::made_state();
  ASSERT_TRUE(write_training_checkpoint(folder.path(), {&state, 1}).ok());
  const MegatronCheckpoint checkpoint = test::open_or_fail(folder.path());
  const std::string name = "embedding.word_embeddings.weight";
  const auto read = [&](const char* kind, int64_t rows, const TrainingTensorOptions& options) {
    return as_floats(read_one(checkpoint, name, kind, DType::kFloat32, {rows, 16}, options));
  };
  const std::vector<float> whole = read("weight", 24, {});
  const auto rows = [&](size_t first, size_t count) {
    return std::vector<float>(whole.begin() + static_cast<std::ptrdiff_t>(first * 16),
                              whole.begin() + static_cast<std::ptrdiff_t>((first + count) * 16));
  };
  EXPECT_EQ(read("weight", 20, {}), rows(0, 20));
  // Rows from `first` to the end, then the last one again.
  const auto padded = [&](size_t first, int more) {
    std::vector<float> expected = rows(first, 24 - first);
    for (int i = 0; i < more; ++i) {
      const std::vector<float> last = rows(23, 1);
      expected.insert(expected.end(), last.begin(), last.end());
    }
    return expected;
  };
  EXPECT_EQ(read("weight", 27, {}), padded(0, 3));
  std::vector<float> moments = read("exp_avg", 24, {});
  moments.resize(27 * 16);
  EXPECT_EQ(read("exp_avg", 27, {}), moments);
  const TrainingTensorOptions second{.tensor_model_parallel_size = 2, .tensor_rank = 1};
  EXPECT_EQ(read("weight", 10, second), rows(10, 10));
  EXPECT_EQ(read("weight", 14, second), padded(14, 4));
}

TEST(ReadTrainingTensors, SayWhatIsMissingOrOfAnotherShape) {
  test::TempFolder folder;
  const TrainingState state = test::made_state();
  ASSERT_TRUE(write_training_checkpoint(folder.path(), {&state, 1}).ok());
  const MegatronCheckpoint checkpoint = test::open_or_fail(folder.path());
  const auto error_of = [&](const char* name, const char* kind, std::vector<int64_t> shape) {
    std::vector<std::byte> bytes(elements(shape) * 4);
    const TrainingTensorTarget target{
        .name = name, .kind = kind, .shape = std::move(shape), .bytes = bytes};
    return read_training_tensors(checkpoint, {&target, 1}).message();
  };
  EXPECT_THAT(error_of("output_layer.weight", "weight", {24, 16}),
              HasSubstr("expected the parameter output_layer.weight, found none"));
  EXPECT_THAT(error_of("decoder.final_layernorm.bias", "weight", {17}),
              HasSubstr("decoder.final_layernorm.bias: expected shape [17] as in this run, "
                        "found [16]"));
  EXPECT_THAT(error_of("decoder.final_layernorm.bias", "max_exp_avg_sq", {16}),
              HasSubstr("expected max_exp_avg_sq in the optimizer, found none"));
}

class Architecture : public ::testing::Test {
 protected:
  void SetUp() override {
    const TrainingState state = test::made_state();
    args_ = state.args;
    ASSERT_TRUE(write_training_checkpoint(folder_.path(), {&state, 1}).ok());
  }

  std::string error_of(const TrainingArgs& run) {
    return check_architecture(test::open_or_fail(folder_.path()),
                              [&](std::string_view name) { return run.field(name); })
        .message();
  }

  test::TempFolder folder_;
  TrainingArgs args_;
};

TEST_F(Architecture, IsTheSameWithItsOwnArgs) { EXPECT_EQ(error_of(args_), ""); }

TEST_F(Architecture, ListsEveryDifferingArg) {
  args_.set("num_layers", {int64_t{3}});
  args_.set("swiglu", {true});
  args_.set("position_embedding_type", {std::string("rope")});
  EXPECT_THAT(error_of(args_),
              HasSubstr("not the model of this run: args: num_layers: expected 3, found 2; "
                        "position_embedding_type: expected \"rope\", found "
                        "\"learned_absolute\"; "
                        "swiglu: expected True, found False"));
}

TEST_F(Architecture, TakesAVocabularyThatParallelSizesExplain) {
  args_.set("tensor_model_parallel_size", {int64_t{2}});
  args_.set("padded_vocab_size", {int64_t{32}});
  EXPECT_EQ(error_of(args_), "");
  args_.set("padded_vocab_size", {int64_t{48}});
  EXPECT_THAT(error_of(args_), HasSubstr("padded_vocab_size: expected 48, found 24"));
  args_.set("tensor_model_parallel_size", {int64_t{1}});
  args_.set("padded_vocab_size", {int64_t{16}});
  EXPECT_THAT(error_of(args_), HasSubstr("padded_vocab_size: expected 16, found 24"));
}

TEST_F(Architecture, ComparesTokenizersOnlyWhereTheRunHasAVocabulary) {
  args_.set("tokenizer_type", {std::string("GPT2BPETokenizer")});
  EXPECT_EQ(error_of(args_), "");
  args_.set("vocab_file", {std::string("vocab.json")});
  EXPECT_THAT(error_of(args_), HasSubstr("tokenizer_type: expected \"GPT2BPETokenizer\", found"));
}

/// What asks for a model that no module knows is a difference from the run's default.
TEST_F(Architecture, NoArgumentOfTheModelIsPassedOver) {
  TrainingState other = test::made_state();
  const auto is_checked = [](const megatron::ArgumentRow* row) {
    const bool is_of_experts = row->dest == "num_experts" || row->dest.starts_with("moe_");
    // A pattern whose layers are GPT's is the same model; with others of these no checkpoint opens.
    const bool opens = row->dest != "hybrid_layer_pattern" &&
                       row->dest != "hybrid_override_pattern" &&
                       row->dest != "attention_output_gate" &&
                       !row->dest.starts_with("heterogeneous_layers_config_");
    return !is_of_experts && opens && row->dest != "bias_gelu_fusion";  // which a run may choose
  };
  for (const megatron::ArgumentRow* row : model_arguments()) {
    if (is_checked(row)) other.args.set(row->dest, {std::string("other")});
  }
  const test::TempFolder folder;
  const Status written = write_training_checkpoint(folder.path(), {&other, 1});
  ASSERT_TRUE(written.ok()) << written.message();
  const auto defaults = megatron::ArgumentValues::defaults(
      megatron::argument_rows(megatron::ArgumentFamily::kTraining));
  const auto run = [&](std::string_view name) {
    const std::optional<megatron::FieldValue> own = args_.field(name);
    return own.has_value() ? own : defaults.field(name);
  };
  const std::string error = check_architecture(test::open_or_fail(folder.path()), run).message();
  EXPECT_GT(model_arguments().size(), 100u);
  for (const megatron::ArgumentRow* row : model_arguments()) {
    if (!is_checked(row)) continue;
    EXPECT_THAT(error, HasSubstr(std::string(row->dest) + ": expected "));
  }
}

TEST_F(Architecture, AListOrAnObjectIsADifference) {
  TrainingState other = test::made_state();
  other.args.set("mrope_section", {ArgValue::List{{int64_t{16}}, {int64_t{24}}}});
  other.args.set("softmax_type",
                 {ArgValue::EnumMember{{"megatron.core.enums", "Softmax"}, int64_t{2}}});
  other.args.set("normalization",
                 {ArgValue::EnumMember{{"megatron.core.enums", "Norm"}, int64_t{1}}});
  const test::TempFolder folder;
  ASSERT_TRUE(write_training_checkpoint(folder.path(), {&other, 1}).ok());
  args_.set("mrope_section", {});
  args_.set("softmax_type", {std::string("vanilla")});
  const std::string error =
      check_architecture(test::open_or_fail(folder.path()), [&](std::string_view name) {
        return args_.field(name);
      }).message();
  EXPECT_THAT(error, HasSubstr("mrope_section: expected None, found [\"16\", \"24\"]"));
  EXPECT_THAT(error, HasSubstr("softmax_type: expected \"vanilla\", found "));
  EXPECT_THAT(error, HasSubstr("normalization: expected \"LayerNorm\", found "));
}

TEST_F(Architecture, ARunBeyondTheWindowOfACheckpointMustHaveIt) {
  TrainingState other = test::made_state();
  other.args.set("window_size", window_size_arg(8));
  other.args.set("window_attn_skip_freq", {int64_t{2}});
  other.args.set("true_vocab_size", {int64_t{20}});
  const test::TempFolder folder;
  ASSERT_TRUE(write_training_checkpoint(folder.path(), {&other, 1}).ok());
  const MegatronCheckpoint checkpoint = test::open_or_fail(folder.path());
  EXPECT_EQ(checkpoint.config().attention_window, 8);
  const auto error_at = [&](int64_t length, const ArgValue& window) {
    TrainingArgs args = other.args;
    args.set("seq_length", {length});
    return check_architecture(checkpoint,
                              [&](std::string_view name) {
                                if (name != "window_size") return args.field(name);
                                const auto* words = std::get_if<std::string>(&window.value);
                                return words == nullptr
                                           ? std::nullopt
                                           : std::optional<megatron::FieldValue>(*words);
                              })
        .message();
  };
  EXPECT_EQ(error_at(8, {}), "");
  EXPECT_THAT(error_at(9, {}), HasSubstr("window_size: expected None, found 7"));
  EXPECT_EQ(error_at(9, {std::string("(7, 0)")}), "");
  EXPECT_THAT(error_at(4, {std::string("3,0")}), HasSubstr("window_size: expected 3, found 7"));
  TrainingArgs saved = args_;
  saved.set("padded_vocab_size", {int64_t{24}});
  saved.set("vocab_size", {int64_t{16}});
  keep_unsaid_args(checkpoint, &saved);
  EXPECT_EQ(*saved.find("window_size"), window_size_arg(8));
  EXPECT_EQ(saved.field("true_vocab_size"), megatron::FieldValue(int64_t{20}));
  for (const auto& [name, value] :
       {std::pair("vocab_size", int64_t{21}), std::pair("padded_vocab_size", int64_t{19})}) {
    TrainingArgs fewer = saved;
    fewer.set("true_vocab_size", {});
    fewer.set(name, {value});
    keep_unsaid_args(checkpoint, &fewer);
    EXPECT_EQ(fewer.field("true_vocab_size"), megatron::FieldValue());
  }
}

}  // namespace
}  // namespace meg::checkpoint

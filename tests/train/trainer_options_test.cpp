// What options of the trainer change, on a model that trains in an instant and on made-up data.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "libmeg/train/internal/train_step.h"
#include "libmeg/train/trainer.h"
#include "tests/nn/small_model.h"
#include "tests/temp_folder.h"

namespace meg::train {
namespace {

using test::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kBatch = 4;

checkpoint::TrainingArgs args_of(const model::GptConfig& config) {
  checkpoint::TrainingArgs args;
  for (const auto& [name, value] : {std::pair("num_layers", config.num_layers),
                                    {"hidden_size", config.hidden_size},
                                    {"ffn_hidden_size", config.ffn_hidden_size},
                                    {"num_attention_heads", config.num_attention_heads},
                                    {"max_position_embeddings", config.max_position_embeddings},
                                    {"seq_length", config.seq_length},
                                    {"padded_vocab_size", config.padded_vocab_size},
                                    {"make_vocab_size_divisible_by", int64_t{8}},
                                    {"tensor_model_parallel_size", int64_t{1}},
                                    {"pipeline_model_parallel_size", int64_t{1}},
                                    {"data_parallel_size", int64_t{1}},
                                    {"world_size", int64_t{1}}}) {
    args.set(name, {value});
  }
  args.set("tokenizer_type", {std::string("NullTokenizer")});
  args.set("add_position_embedding", {true});
  return args;
}

TrainerOptions small_options(int64_t train_iters) {
  TrainerOptions options;
  options.config = test::small_config();
  options.batch_schedule =
      *samples::BatchSchedule::create({.global_batch_size = kBatch, .micro_batch_size = 2});
  options.config.num_layers = 2;
  options.model.hidden_dropout = options.model.attention_dropout = 0;
  options.schedule.train_iters = train_iters;
  options.schedule.global_batch_size = kBatch;
  options.schedule.lr = 0.01;
  options.schedule.lr_decay_style = schedule::LrDecayStyle::kConstant;
  options.data.sequence_length = options.batches.sample.sequence_length = 12;
  options.data.vocab_size = 24;
  options.data.eod = options.batches.sample.eod = 23;
  options.batches.micro_batch_size = 2;
  options.batches.num_workers = 0;
  options.length.train_iters = train_iters;
  options.length.eval_iters = 0;
  options.data.samples = {train_iters * kBatch, 0, 0};
  options.args = args_of(options.config);
  options.log_interval = 1;
  return options;
}

/// A run and what it said.
struct FinishedRun {
  std::vector<StepReport> steps;
  std::vector<std::string> lines;
  Status status;

  /// Lines with `text`, from there to the next "|".
  std::vector<std::string> said(const std::string& text) const {
    std::vector<std::string> found;
    for (const std::string& line : lines) {
      const size_t at = line.find(text);
      if (at != std::string::npos) found.push_back(line.substr(at, line.find(" |", at) - at));
    }
    return found;
  }

  std::vector<int64_t> iterations() const {
    std::vector<int64_t> found;
    for (const StepReport& step : steps) found.push_back(step.iteration);
    return found;
  }
};

FinishedRun run(TrainerOptions options) {
  at::set_num_threads(1);
  FinishedRun result;
  TrainerHooks hooks;
  hooks.print = [&](const std::string& line) { result.lines.push_back(line); };
  auto trainer = Trainer::create(std::move(options), std::move(hooks));
  result.status = trainer.status();
  if (!trainer.has_value()) return result;
  (*trainer)->watch([&](const StepReport& step) { result.steps.push_back(step); }, {});
  result.status = (*trainer)->run();
  EXPECT_TRUE(result.status.ok()) << result.status.message();
  return result;
}

/// Micro-batches of one sample each; of sample i the first `kept[i]` tokens have a loss.
class MaskedBatches {
 public:
  MaskedBatches(const at::Tensor& tokens, std::vector<int64_t> kept, int64_t first_position = 0)
      : kept_(std::move(kept)) {
    const int64_t s = tokens.size(1) - 1;
    for (size_t i = 0; i < kept_.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      tokens_.push_back(tokens[row].narrow(0, 0, s).contiguous());
      labels_.push_back(tokens[row].narrow(0, 1, s).contiguous());
      masks_.push_back(at::arange(s).lt(kept_[i]).to(at::kFloat));
      positions_.push_back(at::arange(first_position, first_position + s));
    }
  }

  NextMicroBatch next(bool counts_positions = false) {
    return [this, counts_positions]() -> Result<const samples::MicroBatch*> {
      const size_t i = taken_++;
      const auto numbers = [](const at::Tensor& tensor) {
        return std::span(tensor.mutable_data_ptr<int64_t>(), static_cast<size_t>(tensor.size(0)));
      };
      batch_.samples = 1;
      batch_.sequence_length = tokens_[i].size(0);
      batch_.tokens = numbers(tokens_[i]);
      batch_.labels = numbers(labels_[i]);
      batch_.position_ids = numbers(positions_[i]);
      batch_.counts_positions = counts_positions;
      batch_.loss_mask = {masks_[i].mutable_data_ptr<float>(), batch_.tokens.size()};
      return &batch_;
    };
  }

 private:
  std::vector<int64_t> kept_;
  std::vector<at::Tensor> tokens_, labels_, masks_, positions_;
  samples::MicroBatch batch_;
  size_t taken_ = 0;
};

TEST(TrainerOptionsTest, PerTokenLossWeighsAllTokensOfAStepAlike) {
  const model::GptConfig config = test::small_config();
  const at::Tensor tokens = at::arange(2 * 13).mul(7919).remainder(24).view({2, 13});
  const std::vector<int64_t> kept = {12, 3};
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    nn::GptOptions options;
    options.params_dtype = type;
    options.hidden_dropout = options.attention_dropout = 0;
    nn::GptModel model = test::small_model(config, options);
    auto optimizer = Optimizer::create(model, nullptr, {.clip_grad = 0});
    ASSERT_TRUE(optimizer.has_value());
    const auto norm_of = [&](StepLoss loss) {
      MaskedBatches batches(tokens, kept);
      const auto losses = forward_backward(model, **optimizer, batches.next(), 2, loss);
      EXPECT_TRUE(losses.has_value()) << losses.status().message();
      return (*optimizer)->step({.lr = 0, .weight_decay = 0})->grad_norm;
    };
    const double by_token = norm_of(StepLoss::kMeanOfTokens);
    const double by_micro_batch = norm_of(StepLoss::kMeanOfMicroBatches);
    // The definition: one backward pass of the mean over the 15 tokens that are kept.
    nn::GptModel same = test::small_model(config, options);
    const at::Tensor mask = at::stack({at::arange(12).lt(12), at::arange(12).lt(3)});
    const at::Tensor losses = *same.loss({.tokens = tokens.narrow(1, 0, 12).contiguous()},
                                         tokens.narrow(1, 1, 12).contiguous());
    (losses * mask).sum().div(15).backward();
    double squares = 0;
    for (const nn::GptParameter& parameter : same.parameters()) {
      squares += parameter.tensor.grad().to(at::kDouble).square().sum().item<double>();
    }
    const double tolerance = type == at::kFloat ? 1e-5 : 1e-2;
    EXPECT_NEAR(by_token / std::sqrt(squares), 1, tolerance);
    EXPECT_GT(std::abs(by_micro_batch / by_token - 1), 5e-2) << "the masks differ";
  }
}

/// The norm of the gradients, as autograd adds them into each other or, widened, in fp32.
double norm_of_two_samples(nn::GptModel& model, const at::Tensor& tokens, bool widened) {
  std::vector<at::Tensor> sums;
  for (int64_t i = 0; i < 2; ++i) {
    const at::Tensor sample = tokens.narrow(0, i, 1);
    const at::Tensor losses = *model.loss({.tokens = sample.narrow(1, 0, 12).contiguous()},
                                          sample.narrow(1, 1, 12).contiguous());
    (losses.sum() / 12 / 2).backward();
    for (size_t k = 0; k < model.parameters().size(); ++k) {
      at::Tensor& gradient = model.parameters()[k].tensor.mutable_grad();
      if (!widened) continue;
      if (i == 0) sums.push_back(at::zeros_like(gradient, at::kFloat));
      sums[k].add_(gradient);
      gradient = at::Tensor();
    }
  }
  double squares = 0;
  for (size_t k = 0; k < model.parameters().size(); ++k) {
    const at::Tensor sum = widened ? sums[k] : model.parameters()[k].tensor.grad();
    squares += sum.to(at::kDouble).square().sum().item<double>();
  }
  return std::sqrt(squares);
}

TEST(TrainerOptionsTest, GradReduceInBf16AddsMicroBatchesInBf16) {
  const model::GptConfig config = test::small_config();
  const at::Tensor tokens = at::arange(2 * 13).mul(7919).remainder(24).view({2, 13});
  nn::GptOptions options;
  options.params_dtype = at::kBFloat16;
  options.hidden_dropout = options.attention_dropout = 0;
  std::vector<double> norms;
  for (const bool in_bf16 : {true, false}) {
    nn::GptModel model = test::small_model(config, options);
    auto optimizer =
        Optimizer::create(model, nullptr, {.clip_grad = 0, .grad_reduce_in_bf16 = in_bf16});
    ASSERT_TRUE(optimizer.has_value());
    MaskedBatches batches(tokens, {12, 12});
    ASSERT_TRUE(forward_backward(model, **optimizer, batches.next(), 2).has_value());
    norms.push_back((*optimizer)->step({.lr = 0, .weight_decay = 0})->grad_norm);
    nn::GptModel same = test::small_model(config, options);
    EXPECT_NEAR(norms.back() / norm_of_two_samples(same, tokens, !in_bf16), 1, 1e-6) << in_bf16;
  }
  EXPECT_GT(std::abs(norms[0] / norms[1] - 1), 1e-5) << "rounding shows";
}

TEST(TrainerOptionsTest, StepsWithoutAnyTokenHaveNoGradient) {
  nn::GptModel model = test::small_model(test::small_config());
  auto optimizer = Optimizer::create(model, nullptr, {});
  ASSERT_TRUE(optimizer.has_value());
  MaskedBatches batches(at::zeros({2, 13}, at::kLong), {0, 0});
  ASSERT_TRUE(
      forward_backward(model, **optimizer, batches.next(), 2, StepLoss::kMeanOfTokens).has_value());
  EXPECT_EQ((*optimizer)->step({.lr = 0.1, .weight_decay = 0})->grad_norm, 0);
}

TEST(TrainerOptionsTest, TheTrainerTakesThePerTokenLoss) {
  TrainerOptions options = small_options(1);
  options.batches.sample.eod_mask_loss = true;
  options.data.eod = options.batches.sample.eod = 5;  // a token of the made-up text
  const FinishedRun plain = run(options);
  options.calculate_per_token_loss = true;
  const FinishedRun per_token = run(options);
  ASSERT_EQ(per_token.steps.size(), 1);
  EXPECT_EQ(per_token.steps[0].lm_loss, plain.steps[0].lm_loss);
  EXPECT_NE(per_token.steps[0].outcome.grad_norm, plain.steps[0].outcome.grad_norm);
}

TEST(TrainerOptionsTest, ParamsNormIsThatOfAllParameters) {
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    nn::GptOptions options;
    options.params_dtype = type;
    nn::GptModel model = test::small_model(test::small_config(), options);
    auto optimizer = Optimizer::create(model, nullptr, {});
    ASSERT_TRUE(optimizer.has_value());
    // Masters that are not the weights' values show which of them is meant.
    const auto states = (*optimizer)->states();
    ASSERT_TRUE(states.has_value());
    if (type != at::kFloat) (*states)[0].master.mul_(2);
    double squares = 0;
    for (size_t i = 0; i < model.parameters().size(); ++i) {
      const at::Tensor& tensor =
          type == at::kBFloat16 ? (*states)[i].master : model.parameters()[i].tensor;
      squares += tensor.to(at::kDouble).square().sum().item<double>();
    }
    EXPECT_NEAR(*(*optimizer)->params_norm() / std::sqrt(squares), 1, 1e-6);
  }
}

TEST(TrainerOptionsTest, LogsTheParamsNormBehindEveryStep) {
  TrainerOptions options = small_options(2);
  EXPECT_TRUE(run(options).said("params norm:").empty());
  options.log_params_norm = true;
  const std::vector<std::string> said = run(options).said("params norm:");
  ASSERT_EQ(said.size(), 2);
  EXPECT_NE(said[0], said[1]) << "the step changes it";
  EXPECT_TRUE(std::regex_match(said[0], std::regex(R"(params norm: \d+\.\d{3})"))) << said[0];
}

TEST(TrainerOptionsTest, SkippedIterationsReadTheirBatchAndDoNothingElse) {
  TrainerOptions options = small_options(5);
  options.schedule.lr = 0;  // The weights stay, so that a loss identifies its batch.
  options.schedule.lr_decay_style = schedule::LrDecayStyle::kLinear;
  const FinishedRun plain = run(options);
  options.iterations_to_skip = {1, 2, 7};
  const FinishedRun skipping = run(options);
  EXPECT_THAT(plain.iterations(), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(skipping.iterations(), ElementsAre(1, 4, 5));
  for (const StepReport& step : skipping.steps) {
    const auto at = static_cast<size_t>(step.iteration - 1);
    EXPECT_EQ(step.micro_losses, plain.steps[at].micro_losses) << step.iteration;
  }
  EXPECT_THAT(skipping.said("consumed samples:"),
              ElementsAre("consumed samples:            4", "consumed samples:           16",
                          "consumed samples:           20"));
  EXPECT_THAT(skipping.said("skipped samples:"),
              ElementsAre("skipped samples:            8", "skipped samples:            8"));
}

TEST(TrainerOptionsTest, SkippedSamplesAreSavedAndLoaded) {
  const TempFolder folder;
  TrainerOptions options = small_options(3);
  options.checkpoints.save = folder.path();
  options.iterations_to_skip = {1};
  ASSERT_TRUE(run(options).status.ok());
  TrainerOptions more = small_options(4);
  more.schedule.override_opt_param_scheduler = true;
  more.checkpoints.load = folder.path();
  EXPECT_THAT(run(more).said("skipped samples:"), ElementsAre("skipped samples:            4"));
  more.checkpoints.finetune = true;
  EXPECT_TRUE(run(more).said("skipped samples:").empty());
}

/// A checkpoint of two steps, for runs that go on from it.
std::string saved_in(const TempFolder& folder) {
  TrainerOptions options = small_options(2);
  options.checkpoints.save = folder.path();
  EXPECT_TRUE(run(options).status.ok());
  return folder.path();
}

TEST(TrainerOptionsTest, ReportsRatesThatOverrideTheCheckpoints) {
  const TempFolder folder;
  TrainerOptions options = small_options(4);
  options.checkpoints.load = saved_in(folder);
  options.schedule.override_opt_param_scheduler = true;
  EXPECT_TRUE(run(options).said("WARNING: ").empty());
  options.schedule.lr = 0.02;
  options.schedule.min_lr = 0.001;
  const FinishedRun more = run(options);
  const std::string why = ", which counts (Megatron-LM continues with the checkpoint's)";
  EXPECT_THAT(more.said("WARNING: "),
              ElementsAre("WARNING: lr: 0.01 in the checkpoint, 0.02 from the flags" + why,
                          "WARNING: min_lr: 0 in the checkpoint, 0.001 from the flags" + why));
  ASSERT_EQ(more.iterations(), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(more.steps[0].lr, 0.02);
}

TEST(TrainerOptionsTest, ReportsAScheduleThatIsNotLoaded) {
  const TempFolder folder;
  TrainerOptions options = small_options(4);
  options.checkpoints.load = saved_in(folder);
  options.checkpoints.no_load_optim = true;
  EXPECT_TRUE(run(options).said("WARNING: ").empty());
  options.schedule.use_checkpoint_opt_param_scheduler = true;
  const std::string flag = "WARNING: `use_checkpoint_opt_param_scheduler` has no effect with ";
  EXPECT_EQ(run(options).said(flag + "`no_load_optim`").size(), 1);
  options.checkpoints.finetune = true;
  EXPECT_EQ(run(options).said(flag + "`finetune`").size(), 1);
}

TEST(TrainerOptionsTest, SamplesInOtherBatchesAreCountedAloud) {
  const TempFolder folder;
  const std::string saved = saved_in(folder);
  const auto go_on = [&](int64_t batch) {
    TrainerOptions options = small_options(2);
    options.schedule.train_iters.reset();
    options.length.train_iters.reset();
    options.schedule.train_samples = options.length.train_samples = 4 * kBatch;
    options.data.samples = {8 * kBatch, 0, 0};
    options.schedule.override_opt_param_scheduler = true;
    options.schedule.global_batch_size = batch;
    options.batch_schedule =
        *samples::BatchSchedule::create({.global_batch_size = batch, .micro_batch_size = 2});
    options.checkpoints.load = saved;
    return run(options);
  };
  const FinishedRun same = go_on(kBatch);
  EXPECT_THAT(same.iterations(), ElementsAre(3, 4));
  EXPECT_TRUE(same.said("WARNING: ").empty());
  const FinishedRun none = go_on(2 * kBatch);
  EXPECT_TRUE(none.steps.empty());
  EXPECT_THAT(
      none.said("WARNING: "),
      ElementsAre("WARNING: `train_samples` 16 in batches of 8 is 2 iterations; the "
                  "checkpoint is at iteration 2 after 8 samples in batches of other sizes: "
                  "0 iterations follow, and the run ends after 8 samples, as in Megatron-LM"));
  const FinishedRun more = go_on(kBatch / 2);
  EXPECT_THAT(more.iterations(), ElementsAre(3, 4, 5, 6, 7, 8));
  EXPECT_EQ(more.said("6 iterations follow, and the run ends after 20 samples").size(), 1);
}

TEST(TrainerOptionsTest, ReportsAnotherPaddingOfTheVocabulary) {
  const TempFolder folder;
  TrainerOptions options = small_options(4);
  options.checkpoints.load = saved_in(folder);
  options.schedule.override_opt_param_scheduler = true;
  options.config.make_vocab_size_divisible_by = 32;
  options.config.padded_vocab_size = 32;
  options.args = args_of(options.config);
  options.args.set("make_vocab_size_divisible_by", {int64_t{32}});
  EXPECT_THAT(run(options).said("WARNING: "),
              ElementsAre("WARNING: padded_vocab_size: 24 in the checkpoint, 32 in this run: rows "
                          "of padding are added, as copies of the last one"));
}

TEST(TrainerOptionsTest, CkptStepChoosesTheIteration) {
  const TempFolder folder;
  TrainerOptions options = small_options(3);
  options.checkpoints.save = folder.path();
  options.checkpoints.save_interval = 1;
  ASSERT_TRUE(run(options).status.ok());
  options.checkpoints.save.reset();
  options.checkpoints.load = folder.path();
  EXPECT_TRUE(run(options).steps.empty()) << "the tracker names the last iteration";
  options.checkpoints.ckpt_step = 1;
  EXPECT_THAT(run(options).iterations(), ElementsAre(2, 3));
  options.checkpoints.ckpt_step = 7;
  const FinishedRun missing = run(options);
  EXPECT_EQ(missing.status.code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.status.message(), HasSubstr("asked for iter_0000007"));
  options.checkpoints.load = folder.path("none");
  EXPECT_EQ(run(options).status.code(), StatusCode::kNotFound) << "training does not start over";
}

TEST(TrainerOptionsTest, MissingCheckpointsAreAWarningOrAnError) {
  const TempFolder folder;
  TrainerOptions options = small_options(1);
  options.checkpoints.load = folder.path();
  const FinishedRun warned = run(options);
  EXPECT_TRUE(warned.status.ok()) << warned.status.message();
  EXPECT_THAT(warned.lines, ::testing::Contains(HasSubstr("could not find the metadata file")));
  options.checkpoints.exit_on_missing_checkpoint = true;
  EXPECT_EQ(run(options).status.code(), StatusCode::kNotFound);
  options.checkpoints.load.reset();
  EXPECT_TRUE(run(options).status.ok()) << "nothing is asked for";
}

TEST(TrainerOptionsTest, TheDecoupledRateMovesTheEmbeddingAlone) {
  const model::GptConfig config = test::small_llama_config();  // with an output layer of its own
  nn::GptModel plain = test::small_model(config);
  nn::GptModel decoupled = test::small_model(config);
  for (nn::GptModel* model : {&plain, &decoupled}) {
    auto optimizer = Optimizer::create(*model, nullptr, {});
    ASSERT_TRUE(optimizer.has_value());
    MaskedBatches batches(at::arange(13).remainder(24).view({1, 13}), {12});
    ASSERT_TRUE(forward_backward(*model, **optimizer, batches.next(), 1).has_value());
    Optimizer::Rates rates = {.lr = 0.01, .weight_decay = 0.1};
    if (model == &decoupled) rates.decoupled_lr = 0.5;
    ASSERT_TRUE((*optimizer)->step(rates).has_value());
  }
  for (size_t i = 0; i < plain.parameters().size(); ++i) {
    const std::string& name = plain.parameters()[i].name;
    const bool is_decoupled =
        name == "embedding.word_embeddings.weight" || name == "output_layer.weight";
    EXPECT_NE(at::equal(plain.parameters()[i].tensor, decoupled.parameters()[i].tensor),
              is_decoupled)
        << name;
  }
}

TEST(TrainerOptionsTest, ARunWithADecoupledRateIsResumedToTheBit) {
  const TempFolder folder;
  TrainerOptions options = small_options(4);
  options.schedule.decoupled_lr = 0.05;
  options.schedule.decoupled_min_lr = 0.01;
  options.schedule.lr_decay_style = schedule::LrDecayStyle::kLinear;
  options.checkpoints.save = folder.path();
  options.checkpoints.save_interval = 2;
  const FinishedRun straight = run(options);
  ASSERT_TRUE(straight.status.ok()) << straight.status.message();
  options.checkpoints.save.reset();
  options.checkpoints.load = folder.path();
  options.checkpoints.ckpt_step = 2;
  const FinishedRun resumed = run(options);
  ASSERT_THAT(resumed.iterations(), ElementsAre(3, 4)) << resumed.status.message();
  for (const size_t i : {0, 1}) {
    EXPECT_EQ(resumed.steps[i].micro_losses, straight.steps[i + 2].micro_losses);
  }
  options.schedule.decoupled_lr = options.schedule.decoupled_min_lr = std::nullopt;
  EXPECT_THAT(run(options).status.message(),
              HasSubstr("decoupled_lr: expected a run with it, as in the checkpoint, found one "
                        "without"));
  options.checkpoints.no_load_optim = true;
  EXPECT_TRUE(run(options).status.ok());
}

TEST(TrainerOptionsTest, NamesWhatMegatronRefuses) {
  TrainerOptions options = small_options(1);
  options.model.fp32_residual_connection = true;
  EXPECT_EQ(run(options).status.message(), "fp32_residual_connection: requires fp16 or bf16");
  options = small_options(1);
  options.schedule.decoupled_lr = 0.1;
  options.checkpoints.names = model::NameFamily::kLegacy;
  EXPECT_THAT(run(options).status.message(), HasSubstr("decoupled_lr: requires core's"));
  options = small_options(1);
  options.schedule.decoupled_min_lr = 0.1;
  EXPECT_EQ(run(options).status.message(), "`decoupled_min_lr`: requires `decoupled_lr`");
  options = small_options(1);
  options.deterministic_mode = true;
  options.model.attention_backend = nn::AttentionBackend::kFused;
  EXPECT_EQ(run(options).status.message(),
            "attention_backend: expected auto, flash, unfused or local with deterministic_mode, "
            "found fused, whose gradients are not reproducible");
}

TEST(TrainerOptionsTest, DeterministicModeTakesNoOtherOperatorsAndFillsNothing) {
  TrainerOptions options = small_options(1);
  options.deterministic_mode = true;
  run(options);
  at::Context& context = at::globalContext();
  EXPECT_TRUE(context.deterministicAlgorithms());
  EXPECT_FALSE(context.deterministicAlgorithmsWarnOnly());
  EXPECT_FALSE(context.deterministicFillUninitializedMemory());
  context.setDeterministicAlgorithms(false, false);
}

TEST(TrainerOptionsTest, PositionsThatOnlyCountStayWhereTheyAre) {
  nn::GptModel model = test::small_model(test::small_config());
  const at::Tensor tokens = at::arange(13).mul(7919).remainder(24).view({1, 13});
  for (const bool counts : {true, false}) {
    MaskedBatches batches(tokens, {12}, /*first_position=*/1);
    const auto losses = forward_only(model, batches.next(counts), 1);
    EXPECT_EQ(losses.has_value(), counts);
    if (!counts) {
      EXPECT_EQ(losses.status().message(), "position_ids: expected 0 to 11, found 12");
    }
  }
}

TEST(TrainerOptionsTest, WrongLabelsOnAGpuAreSeenWithTheLosses) {
  nn::GptModel model = test::small_model(test::small_config());
  auto optimizer = Optimizer::create(model, nullptr, {});
  ASSERT_TRUE(optimizer.has_value());
  model.label_error().fill_(1);  // As the kernel does there.
  const std::string expected = "labels: expected 0 to 23, found others";
  MaskedBatches trained(at::zeros({1, 13}, at::kLong), {12});
  EXPECT_EQ(forward_backward(model, **optimizer, trained.next(), 1).status().message(), expected);
  MaskedBatches evaluated(at::zeros({1, 13}, at::kLong), {12});
  EXPECT_EQ(forward_only(model, evaluated.next(), 1).status().message(), expected);
}

}  // namespace
}  // namespace meg::train

// The first two iterations of training runs of the real Megatron-LM: losses of each micro-batch and
// the gradient norm of each parameter. The learning rate of iteration 1 is 0, so both start from
// the same weights.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/nn/oracle_model.h"
#include "tests/nn/oracle_runs.h"

namespace meg::nn {
namespace {

using test::kEndOfText;
using test::micro_batches;
using test::run_path;

/// How near a run must be followed: measured bounds of the oracle's README.
struct Bounds {
  double loss;           ///< Of an iteration, absolute.
  double gradient_norm;  ///< Of all parameters, relative; 0: not compared.
  /// How much wider they are for one micro-batch and one parameter: rounding errors of 16-bit
  /// arithmetic cancel out in sums.
  double part_factor;
};

constexpr Bounds kFp32 = {2e-6, 5e-6, 1};
constexpr Bounds kBf16 = {6e-4, 2e-3, 5};
constexpr Bounds kFp16Losses = {8e-5, 0, 5};

struct TrainingRun {
  const char* name;
  const char* start;
  at::ScalarType dtype;
  Bounds bounds;
  bool resets;  ///< --eod-mask-loss --reset-position-ids --reset-attention-mask
};

/// A micro-batch as get_ltor_masks_and_position_ids makes it.
struct Batch {
  GptInput input;
  at::Tensor labels;
  at::Tensor loss_mask;  ///< [b, s] fp32
};

Batch plain_batch(const at::Tensor& windows) {
  Batch batch;
  const int64_t s = windows.size(1) - 1;
  batch.input.tokens = windows.narrow(1, 0, s);
  batch.labels = windows.narrow(1, 1, s);
  batch.loss_mask = at::ones({windows.size(0), s});
  return batch;
}

/// Documents do not see those before them, and count from 0; ends of text have no loss.
Batch reset_batch(const at::Tensor& windows) {
  Batch batch = plain_batch(windows);
  const at::Tensor& tokens = batch.input.tokens;
  const int64_t b = tokens.size(0);
  const int64_t s = tokens.size(1);
  batch.loss_mask.masked_fill_(tokens == kEndOfText, 0);
  at::Tensor positions = at::zeros({b, s}, at::kLong);
  std::vector<int64_t> lengths;
  for (int64_t row = 0; row < b; ++row) {
    int64_t position = 0;
    for (int64_t i = 0; i < s; ++i) {
      if (position == 0) lengths.push_back(0);
      ++lengths.back();
      positions[row][i] = position++;
      if (tokens[row][i].item<int64_t>() == kEndOfText) position = 0;
    }
  }
  batch.input.position_ids = positions;
  batch.input.document_lengths = at::tensor(lengths, at::kLong);
  return batch;
}

/// A micro-batch's loss as it is logged: core has [sum, tokens], 6ef5bdc the mean.
double logged_loss(const nlohmann::json& micro_loss) {
  if (!micro_loss.is_array()) return micro_loss.get<double>();
  return micro_loss[0].get<double>() / micro_loss[1].get<double>();
}

class GoldenRun : public ::testing::TestWithParam<TrainingRun> {
 protected:
  /// Follows an iteration, and its gradients where the run has them.
  void follow(GptModel& model, const nlohmann::json& log, size_t iteration);
};

void GoldenRun::follow(GptModel& model, const nlohmann::json& log, size_t iteration) {
  const TrainingRun& run = GetParam();
  const nlohmann::json& entry = log["iterations"][iteration];
  const std::vector<at::Tensor> windows = micro_batches(log, iteration);
  std::vector<at::Tensor> gradients(model.parameters().size());
  double sum = 0;
  for (size_t m = 0; m < windows.size(); ++m) {
    const Batch batch = run.resets ? reset_batch(windows[m]) : plain_batch(windows[m]);
    const auto losses = model.loss(batch.input, batch.labels);
    ASSERT_TRUE(losses.has_value()) << losses.error().message();
    EXPECT_EQ(losses->scalar_type(), at::kFloat);
    const at::Tensor loss = (*losses * batch.loss_mask).sum() / batch.loss_mask.sum();
    EXPECT_NEAR(loss.item<double>(), logged_loss(entry["micro_losses"][m]),
                run.bounds.loss * run.bounds.part_factor);
    sum += loss.item<double>();
    (loss / static_cast<double>(windows.size())).backward();
    for (size_t i = 0; i < gradients.size(); ++i) {
      at::Tensor gradient = model.parameters()[i].tensor.mutable_grad();
      const at::Tensor wide = gradient.to(at::kFloat, false, true);
      gradients[i] = gradients[i].defined() ? gradients[i] + wide : wide;
      gradient.zero_();
    }
  }
  EXPECT_NEAR(sum / static_cast<double>(windows.size()), entry["lm_loss"].get<double>(),
              run.bounds.loss);
  if (run.bounds.gradient_norm == 0) return;
  const auto norms = test::gradient_norms(entry);
  ASSERT_EQ(norms.size(), gradients.size());
  double squares = 0;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const std::string& name = model.parameters()[i].name;
    const double norm = gradients[i].to(at::kDouble).norm().item<double>();
    squares += norm * norm;
    EXPECT_NEAR(norm / norms.at(name), 1, run.bounds.gradient_norm * run.bounds.part_factor)
        << name;
  }
  EXPECT_NEAR(std::sqrt(squares) / entry["grad_norm"].get<double>(), 1, run.bounds.gradient_norm);
}

TEST_P(GoldenRun, LossesAndGradientNormsOfTheFirstIterationsAgree) {
  const TrainingRun& run = GetParam();
  MEG_REQUIRE_SHARED(std::string("oracle/training/") + run.name);
  const auto checkpoint = test::open_checkpoint(run_path(run.start));
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  const nlohmann::json log = test::read_log(run.name);
  for (const AttentionBackend backend : {AttentionBackend::kAuto, AttentionBackend::kLocal}) {
    auto model = test::model_of(*checkpoint, [&](model::GptConfig&, GptOptions& options) {
      options.attention_backend = backend;
      options.params_dtype = run.dtype;
      if (std::string(run.name) == "gpt_fp32_erf") options.gelu = GeluForm::kErf;
    });
    ASSERT_TRUE(model.has_value()) << model.error().message();
    model->set_training(true);
    follow(*model, log, 0);
    follow(*model, log, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Oracle, GoldenRun,
    ::testing::Values(
        TrainingRun{"gpt_fp32", "gpt_fp32/start", at::kFloat, kFp32, false},
        TrainingRun{"gpt_fp32_erf", "gpt_fp32/start", at::kFloat, kFp32, false},
        TrainingRun{"gpt_fp32_eod", "gpt_fp32/start", at::kFloat, kFp32, true},
        TrainingRun{"gpt_llamaish_fp32", "gpt_llamaish_fp32/start", at::kFloat, kFp32, false},
        TrainingRun{"mcore_gpt_fp32", "mcore_gpt_fp32/start", at::kFloat, kFp32, false},
        TrainingRun{"mcore_llama_fp32", "mcore_llama_fp32/start", at::kFloat, kFp32, false},
        TrainingRun{"gpt_bf16", "gpt_fp32/start", at::kBFloat16, kBf16, false},
        TrainingRun{"mcore_gpt_bf16", "mcore_gpt_bf16_distopt_dp2/start", at::kBFloat16, kBf16,
                    false},
        TrainingRun{"gpt_fp16", "gpt_fp32/start", at::kHalf, kFp16Losses, false}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace meg::nn

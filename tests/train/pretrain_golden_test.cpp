// Whole training runs of the real Megatron-LM, followed step by step from their checkpoints.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "libmeg/checkpoint/training/read_training_state.h"
#include "libmeg/train/trainer.h"
#include "tests/launch_ranks.h"
#include "tests/shared_data.h"
#include "tools/common/flags/flags.h"
#include "tools/common/ranks.h"
#include "tools/pretrain_gpt/pretrain_gpt_flags.h"

namespace meg::train {
namespace {

using nlohmann::json;

constexpr char kOracle[] = "oracle/training";
// The oracle's vocabulary: 290 tokens, the last ends documents, padded to 296 rows.
constexpr tools::Vocabulary kVocabulary = {
    .vocab_size = 290, .padded_vocab_size = 296, .eod = 289, .pad = std::nullopt};

/// How near a run comes, as the oracle's README measured it (relative).
struct Bounds {
  double loss;
  double grad_norm;
};

constexpr Bounds kFp32 = {.loss = 2e-6, .grad_norm = 5e-6};
constexpr Bounds kFp16 = {.loss = 8e-5, .grad_norm = 2e-3};
constexpr Bounds kBf16 = {.loss = 6e-4, .grad_norm = 4e-3};

struct GoldenRun {
  const char* name;
  const char* start;  ///< What it is loaded from where its arguments do not say.
  Bounds bounds;
  int ranks = 1;
  /// More of its command line, and what the test is called by them.
  const char* flags = "";
  const char* label = "";
};

constexpr char kTensor2[] = "--tensor-model-parallel-size 2";
constexpr char kTensor4[] = "--tensor-model-parallel-size 4";
constexpr char kSequence2[] = "--tensor-model-parallel-size 2 --sequence-parallel";
constexpr char kPipeline2[] = "--pipeline-model-parallel-size 2";
constexpr char kPipeline4[] = "--pipeline-model-parallel-size 4";
constexpr char kTensor2Pipeline2[] =
    "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2";
constexpr char kAllAxes[] =
    "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel "
    "--use-distributed-optimizer --use-tp-pp-dp-mapping";

constexpr GoldenRun kRuns[] = {
    {"gpt_fp32", "gpt_fp32/start", kFp32},
    {"gpt_fp32_erf", "gpt_fp32/start", kFp32},
    {"gpt_fp32_eod", nullptr, kFp32},
    {"gpt_fp32_rampup", nullptr, kFp32},
    {"gpt_fp32_resumed", nullptr, kFp32},
    {"gpt_llamaish_fp32", "gpt_llamaish_fp32/start", kFp32},
    {"gpt_fp16", nullptr, kFp16},
    {"gpt_bf16", nullptr, kBf16},
    {"mcore_gpt_fp32", "mcore_gpt_fp32/start", kFp32},
    {"mcore_llama_fp32", "mcore_llama_fp32/start", kFp32},
    {"gpt_fp32_dp2", "gpt_fp32/start", kFp32, 2},
    {"gpt_fp32_seqpar_tp2", "gpt_fp32/start", kFp32, 2},
    {"gpt_bf16_distopt_dp2", "gpt_fp32/start", kBf16, 2},
    {"mcore_gpt_bf16", "mcore_gpt_bf16_distopt_dp2/start", kBf16},
    {"mcore_gpt_bf16_distopt_dp2", "mcore_gpt_bf16_distopt_dp2/start", kBf16, 2},
    {"mcore_gpt_fp32_distopt_dp2", "mcore_gpt_fp32/start", kFp32, 2},
    {"gpt_fp32_tp2pp2", "gpt_fp32/start", kFp32, 4},
    // Runs of one rank, followed by several.
    {"gpt_fp32_eod", nullptr, kFp32, 2, kTensor2, "_tp2"},
    {"gpt_fp32", "gpt_fp32/start", kFp32, 4, kTensor4, "_tp4"},
    {"gpt_fp32_rampup", nullptr, kFp32, 2, kPipeline2, "_pp2"},
    {"gpt_fp32", "gpt_fp32/start", kFp32, 4, kPipeline4, "_pp4"},
    {"gpt_llamaish_fp32", "gpt_llamaish_fp32/start", kFp32, 2, kSequence2, "_seqpar_tp2"},
    {"mcore_llama_fp32", "mcore_llama_fp32/start", kFp32, 4, kTensor2Pipeline2, "_tp2pp2"},
    {"gpt_fp32_resumed", nullptr, kFp32, 4, kTensor2Pipeline2, "_tp2pp2"},
    {"gpt_fp16", nullptr, kFp16, 4, kTensor2Pipeline2, "_tp2pp2"},
    {"gpt_bf16", nullptr, kBf16, 8, kAllAxes, "_tp2pp2dp2"},
};

/// JSON as Python writes it: numbers that JSON has not become null.
json read_json(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return json::parse(std::regex_replace(text.str(), std::regex("-?\\b(Infinity|NaN)\\b"), "null"));
}

json manifest_entry(const std::string& name) {
  const json manifest = read_json("manifest.json");
  for (const json& run : manifest["runs"]) {
    if (run["name"] == name) return run;
  }
  return nullptr;
}

void replace_value(std::vector<std::string>& arguments, const std::string& flag,
                   const std::string& value) {
  const auto found = std::find(arguments.begin(), arguments.end(), flag);
  ASSERT_NE(found, arguments.end()) << flag;
  *std::next(found) = value;
}

/// The run's own command line, its outputs in `folder`.
std::vector<std::string> command_line(const json& entry, const char* start,
                                      const test::CommonFolder& folder) {
  auto arguments = entry["args"].get<std::vector<std::string>>();
  replace_value(arguments, "--save", folder.path("save"));
  replace_value(arguments, "--data-cache-path", folder.path("cache"));
  if (start != nullptr) {
    for (const char* const word : {"--load", start}) arguments.emplace_back(word);
  }
  const std::string revision = entry["revision"];
  arguments.insert(arguments.end(), {"--megatron-version", revision, "--device", "cpu"});
  if (revision == "6ef5bdc") arguments.insert(arguments.end(), {"--target-names", "legacy"});
  return arguments;
}

using Change = std::function<void(TrainerOptions&)>;

Result<std::unique_ptr<Trainer>> trainer_of(const std::vector<std::string>& arguments,
                                            std::vector<std::string>& lines,
                                            const Change& change = nullptr) {
  std::vector<const char*> argv = {"pretrain_gpt"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  tools::PretrainFlags run;
  tools::Flags flags("pretrain_gpt", "");
  tools::declare_pretrain_flags(flags, run);
  std::ostringstream out;
  std::ostringstream err;
  const auto code = flags.parse(static_cast<int>(argv.size()), argv.data(), out, err);
  EXPECT_FALSE(code.has_value()) << err.str();
  MEG_RETURN_IF_ERROR(tools::finish_pretrain_flags(flags, run));
  MEG_ASSIGN_OR_RETURN(const parallel::ParallelState ranks,
                       tools::connect_ranks(run.args, run.device));
  MEG_ASSIGN_OR_RETURN(TrainerOptions options,
                       tools::resolve_pretrain_flags(run, kVocabulary, ranks));
  if (change) change(options);
  return Trainer::create(std::move(options),
                         {.print = [&lines](const std::string& line) { lines.push_back(line); },
                          .received_signal = {}},
                         ranks);
}

void expect_near(double found, double expected, double bound, const std::string& what) {
  EXPECT_LE(std::abs(found - expected), bound * std::abs(expected)) << what << " " << found;
}

void expect_step(const StepReport& step, const json& expected, const Bounds& bounds) {
  SCOPED_TRACE(fmt::format("iteration {}", step.iteration));
  EXPECT_EQ(step.iteration, expected["iteration"].get<int64_t>());
  expect_near(step.lr, expected["lr"], 1e-12, "lr");
  expect_near(step.weight_decay, expected["weight_decay"], 1e-12, "weight decay");
  EXPECT_EQ(step.loss_scale, expected["loss_scale"].get<double>());
  EXPECT_EQ(step.outcome.skipped, expected["skipped"].get<int>() != 0);
  if (!expected["lm_loss"].is_null() && std::isfinite(step.lm_loss)) {
    expect_near(step.lm_loss, expected["lm_loss"], bounds.loss, "lm loss");
  }
  if (!expected["grad_norm"].is_null()) {
    expect_near(step.outcome.grad_norm, expected["grad_norm"], bounds.grad_norm, "grad norm");
  }
  if (!expected["num_zeros"].is_null() && step.outcome.num_zeros.has_value()) {
    // Gradients of key biases are noise around zero: 4 layers of 32 of them. Which other gradients
    // of 16 bits are exactly zero depends on the order of a processor's sums: few zeros vary like
    // counts of random events, by about their root.
    const auto zeros = expected["num_zeros"].get<double>();
    EXPECT_NEAR(static_cast<double>(*step.outcome.num_zeros), zeros,
                0.02 * zeros + 8 + std::sqrt(zeros));
  }
}

Result<checkpoint::OptimizerState> optimizer_in(const std::string& folder) {
  MEG_ASSIGN_OR_RETURN(const checkpoint::CheckpointFolder found,
                       checkpoint::find_checkpoint(folder));
  MEG_ASSIGN_OR_RETURN(const checkpoint::MegatronCheckpoint checkpoint,
                       checkpoint::MegatronCheckpoint::open(found));
  MEG_ASSIGN_OR_RETURN(const checkpoint::TrainingState state,
                       checkpoint::read_training_state(checkpoint, {.no_load_rng = true}));
  return *state.optimizer;
}

/// Rates in a checkpoint are those of the step that comes next.
void expect_group(const checkpoint::ParamGroupState& group,
                  const checkpoint::ParamGroupState& expected) {
  expect_near(group.lr, expected.lr, 1e-12, "saved lr");
  expect_near(group.weight_decay, expected.weight_decay, 1e-12, "saved weight decay");
  EXPECT_EQ(group.step, expected.step);
}

class PretrainGolden : public ::testing::TestWithParam<GoldenRun> {};

TEST_P(PretrainGolden, FollowsMegatronStepByStep) {
  MEG_REQUIRE_SHARED(kOracle);
  const GoldenRun run = GetParam();
  const test::CommonFolder folder;
  if (run.ranks > 1 && test::launched_ranks(run.ranks)) return;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(test::shared_path(kOracle));
  const json log = read_json(std::string(run.name) + "/log.json");
  std::vector<std::string> lines;
  auto arguments = command_line(manifest_entry(run.name), run.start, folder);
  std::istringstream flags(run.flags);
  for (std::string word; flags >> word;) arguments.push_back(word);
  auto trainer = trainer_of(arguments, lines);
  ASSERT_TRUE(trainer.has_value()) << trainer.error().message();
  size_t steps = 0;
  size_t evaluations = 0;
  (*trainer)->watch(
      [&](const StepReport& step) {
        ASSERT_LT(steps, log["iterations"].size());
        expect_step(step, log["iterations"][steps++], run.bounds);
      },
      [&](const EvaluationReport& evaluation) {
        ASSERT_LT(evaluations, log["evaluations"].size());
        const json& expected = log["evaluations"][evaluations++];
        EXPECT_EQ(evaluation.iteration, expected["after_iteration"].get<int64_t>());
        expect_near(evaluation.lm_loss, expected["lm_loss"], run.bounds.loss, "evaluation");
      });
  const Status status = (*trainer)->run();
  // The last checkpoints of other runs are kept without their optimizers.
  if (const auto expected = optimizer_in(std::string(run.name) + "/final")) {
    const auto saved = optimizer_in(folder.path("save"));
    ASSERT_TRUE(saved.has_value()) << saved.error().message();
    expect_group(saved->decay, expected->decay);
    expect_group(saved->no_decay, expected->no_decay);
  }
  std::filesystem::current_path(before);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(steps, log["iterations"].size());
  EXPECT_EQ(evaluations, log["evaluations"].size());
}

INSTANTIATE_TEST_SUITE_P(Runs, PretrainGolden, ::testing::ValuesIn(kRuns), [](const auto& run) {
  return std::string(run.param.name) + run.param.label;
});

/// The norm of Megatron's weights after an iteration, where the log has it.
std::optional<double> params_norm(const json& iteration) {
  if (!iteration.contains("param_norm_by_param")) return std::nullopt;
  double squares = 0;
  for (const auto& [name, norm] : iteration["param_norm_by_param"].items()) {
    squares += norm.get<double>() * norm.get<double>();
  }
  return std::sqrt(squares);
}

TEST(PretrainGoldenLog, ParamsNormsAreThoseOfMegatronsWeights) {
  for (const char* name : {"gpt_fp32", "mcore_llama_fp32"}) {
    MEG_REQUIRE_SHARED(kOracle);
    const auto before = std::filesystem::current_path();
    std::filesystem::current_path(test::shared_path(kOracle));
    const test::CommonFolder folder;
    const json log = read_json(std::string(name) + "/log.json");
    const std::string start = std::string(name) + "/start";
    std::vector<std::string> lines;
    auto trainer = trainer_of(command_line(manifest_entry(name), start.c_str(), folder), lines,
                              [](TrainerOptions& options) { options.log_params_norm = true; });
    ASSERT_TRUE(trainer.has_value()) << trainer.error().message();
    ASSERT_TRUE((*trainer)->run().ok());
    std::filesystem::current_path(before);
    std::vector<double> said;
    for (const std::string& line : lines) {
      std::smatch found;
      if (std::regex_search(line, found, std::regex(R"( params norm: ([\d.]+) \|)"))) {
        said.push_back(std::stod(found[1]));
      }
    }
    ASSERT_EQ(said.size(), log["iterations"].size()) << name;
    int compared = 0;
    for (size_t i = 0; i < said.size(); ++i) {
      const std::optional<double> expected = params_norm(log["iterations"][i]);
      if (!expected.has_value()) continue;
      EXPECT_NEAR(said[i], *expected, 6e-4) << name << " " << i;
      ++compared;
    }
    EXPECT_GE(compared, 3) << name;
  }
}

}  // namespace
}  // namespace meg::train

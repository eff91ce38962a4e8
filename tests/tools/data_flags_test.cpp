#include "tools/common/flag_groups/data_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/temp_folder.h"
#include "tools/common/field_flags.h"

namespace meg::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// What a program understands of a command line.
class DataFlagsTest : public testing::Test {
 protected:
  Result<samples::DataRun> resolve(std::vector<std::string> arguments,
                                   std::optional<std::string> world_size = std::nullopt) {
    DataFlags data;
    megatron::ArgumentValues args;
    Flags flags("prepare_cache", "builds caches");
    declare_data_flags(flags, data, args);
    std::vector<const char*> argv = {"prepare_cache"};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    std::ostringstream out;
    err_.str("");
    const auto code = flags.parse(static_cast<int>(argv.size()), argv.data(), out, err_);
    EXPECT_EQ(code, std::nullopt) << err_.str();
    MEG_RETURN_IF_ERROR(finish_data_flags(args, data));
    return resolve_data_flags(data, world_size);
  }

  /// Adds what every run needs.
  Result<samples::DataRun> resolve_run(std::vector<std::string> arguments,
                                       std::optional<std::string> world_size = std::nullopt) {
    std::vector<std::string> all = {"--data-path",   "p",   "--seq-length",       "64",
                                    "--vocab-file",  "v",   "--merge-file",       "m",
                                    "--train-iters", "100", "--micro-batch-size", "2"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return resolve(std::move(all), std::move(world_size));
  }

  /// As fail() prints it.
  std::string error_of(const Result<samples::DataRun>& run) {
    EXPECT_FALSE(run.has_value());
    EXPECT_EQ(run.status().code(), StatusCode::kInvalidArgument);
    return with_flags(run.status().message());
  }

  std::ostringstream err_;
};

TEST_F(DataFlagsTest, DefaultsAreMegatrons) {
  const auto run = resolve_run({});
  ASSERT_TRUE(run.has_value()) << run.status().message();
  EXPECT_EQ(run->config.split, "969, 30, 1");
  EXPECT_EQ(run->config.seed, 1234);
  EXPECT_EQ(run->config.version.name, megatron::newest_megatron_version().name);
  EXPECT_TRUE(run->config.extra_token);
  EXPECT_THAT(run->config.samples, ElementsAre(200, 200, 200));
  EXPECT_EQ(run->train_iters, 100);
}

TEST_F(DataFlagsTest, ATutorialsCommandLineIsTakenAsItIs) {
  const auto run = resolve({"--num-layers",
                            "24",
                            "--hidden-size",
                            "1024",
                            "--num-attention-heads",
                            "16",
                            "--seq-length",
                            "1024",
                            "--max-position-embeddings",
                            "1024",
                            "--micro-batch-size",
                            "4",
                            "--global-batch-size",
                            "16",
                            "--lr",
                            "0.00015",
                            "--train-iters",
                            "200",
                            "--lr-decay-style",
                            "cosine",
                            "--min-lr",
                            "1.0e-5",
                            "--weight-decay",
                            "1e-2",
                            "--clip-grad",
                            "1.0",
                            "--fp16",
                            "--log-interval",
                            "100",
                            "--save-interval",
                            "10000",
                            "--eval-interval",
                            "100",
                            "--eval-iters",
                            "10",
                            "--data-path",
                            "my-gpt2_text_document",
                            "--vocab-file",
                            "vocab.json",
                            "--merge-file",
                            "merges.txt",
                            "--split",
                            "949,50,1",
                            "--save",
                            "ckpt",
                            "--load",
                            "ckpt",
                            "--recompute-activations",
                            "--distributed-backend",
                            "nccl"});
  ASSERT_TRUE(run.has_value()) << run.status().message();
  EXPECT_THAT(run->config.samples, ElementsAre(3200, 480, 160));
  EXPECT_EQ(run->config.split, "949,50,1");
  EXPECT_THAT(err_.str(),
              HasSubstr("note: ignored: --num-layers, --hidden-size, --num-attention-heads, "
                        "--max-position-embeddings (model: samples do not depend on the model)"));
}

TEST_F(DataFlagsTest, RanksThatShareAModelShareItsBatches) {
  const auto run =
      resolve_run({"--tensor-model-parallel-size", "2", "--pipeline-model-parallel-size", "2",
                   "--context-parallel-size", "2", "--prepare-cache-world-size", "24"});
  ASSERT_TRUE(run.has_value()) << run.status().message();
  EXPECT_EQ(run->data_parallel_size, 3);
  EXPECT_EQ(run->batches.global_batch_size(), 6);
  EXPECT_EQ(resolve_run({"--tensor-model-parallel-size", "2"}, "8")->data_parallel_size, 4);
  EXPECT_EQ(resolve_run({"--tensor-model-parallel-size", "2"})->data_parallel_size, 1);
  EXPECT_THAT(error_of(resolve_run({"--tensor-model-parallel-size", "3"}, "8")),
              HasSubstr("world size: expected a multiple"));
  EXPECT_THAT(error_of(resolve_run({}, "eight")), HasSubstr("WORLD_SIZE: expected an integer"));
  EXPECT_THAT(error_of(resolve_run({"--tensor-model-parallel-size", "4294967296",
                                    "--pipeline-model-parallel-size", "4294967296"},
                                   "8")),
              HasSubstr("world size"));
}

TEST_F(DataFlagsTest, SamplesAreGivenDirectly) {
  const auto run = resolve({"--data-path", "p", "--seq-length", "64", "--vocab-file", "v",
                            "--merge-file", "m", "--samples", "100, 10,None"});
  ASSERT_TRUE(run.has_value()) << run.status().message();
  EXPECT_THAT(run->config.samples, ElementsAre(100, 10, std::nullopt));
  for (const char* wrong : {"1,2", "1,2,3,4", "1,,3", "1,2,-3", "1,2,x", "", "None"}) {
    EXPECT_THAT(error_of(resolve_run({"--samples", wrong})), HasSubstr("--samples: expected"))
        << wrong;
  }
}

TEST_F(DataFlagsTest, WhatIsMissingIsNamed) {
  EXPECT_EQ(error_of(resolve({})), "--data-path is required");
  EXPECT_EQ(error_of(resolve({"--data-path", "p"})), "--seq-length is required");
  EXPECT_EQ(error_of(resolve({"--data-path", "p", "--seq-length", "8"})),
            "--micro-batch-size or --global-batch-size is required");
  EXPECT_EQ(error_of(resolve({"--data-path", "p", "--seq-length", "8", "--global-batch-size", "2",
                              "--megatron-version", "core_v0.4.0"})),
            "--train-iters or --train-samples is required");
}

TEST_F(DataFlagsTest, SplitsMayHaveDatasetsOfTheirOwn) {
  const auto run = resolve({"--train-data-path", "0.3", "a", "0.7", "b", "--valid-data-path", "c",
                            "--seq-length", "8", "--samples", "5,5,5", "--tokenizer-type",
                            "NullTokenizer", "--vocab-size", "100"});
  ASSERT_TRUE(run.has_value()) << run.status().message();
  EXPECT_FALSE(run->config.blend.has_value());
  EXPECT_THAT(run->config.per_split[0]->prefixes, ElementsAre("a", "b"));
  EXPECT_TRUE(run->config.per_split[1]->single());
  EXPECT_FALSE(run->config.per_split[2].has_value());
}

TEST_F(DataFlagsTest, DocumentsHaveOneSource) {
  const auto with = [this](std::vector<std::string> sources) {
    sources.insert(sources.end(), {"--seq-length", "8", "--samples", "5,5,5"});
    return error_of(resolve(sources));
  };
  EXPECT_EQ(with({"--data-path", "p", "--valid-data-path", "q"}),
            "expected one of --data-path and --valid-data-path, found both");
  EXPECT_EQ(with({"--data-args-path", "p", "--per-split-data-args-path", "q"}),
            "expected one of --data-args-path and --per-split-data-args-path, found both");
  EXPECT_EQ(with({"--mock-data", "--data-path", "p"}),
            "expected one of --mock-data and --data-path, found both");
  EXPECT_EQ(with({"--mock-data", "--test-data-path", "p"}),
            "expected one of --mock-data and --test-data-path, found both");
}

TEST_F(DataFlagsTest, PathsMayComeFromFiles) {
  const test::TempFolder folder;
  const std::string list = folder.path("paths.txt");
  std::ofstream(list) << " 0.25 first\n\t0.75   second\n";
  std::vector<std::string> rest = {
      "--seq-length", "8",  "--samples", "5,5,5", "--tokenizer-type", "NullTokenizer",
      "--vocab-size", "100"};
  const auto with = [&](std::string flag, std::string file) {
    std::vector<std::string> arguments = rest;
    arguments.insert(arguments.end(), {std::move(flag), std::move(file)});
    return resolve(arguments);
  };
  const auto run = with("--data-args-path", list);
  ASSERT_TRUE(run.has_value()) << run.status().message();
  EXPECT_THAT(run->config.blend->prefixes, ElementsAre("first", "second"));
  EXPECT_THAT(*run->config.blend->weights, ElementsAre(0.25, 0.75));

  const std::string object = folder.path("paths.json");
  std::ofstream(object) << R"({"train": ["1", "a", "2", "b"], "valid": "c", "test": null})";
  const auto per_split = with("--per-split-data-args-path", object);
  ASSERT_TRUE(per_split.has_value()) << per_split.status().message();
  EXPECT_THAT(per_split->config.per_split[0]->prefixes, ElementsAre("a", "b"));
  EXPECT_THAT(per_split->config.per_split[1]->prefixes, ElementsAre("c"));
  EXPECT_FALSE(per_split->config.per_split[2].has_value());

  for (const char* broken : {"", "[", "[1]", "7", R"({"train": 7})", R"({"train": ["a", 7]})"}) {
    std::ofstream(object) << broken;
    EXPECT_EQ(with("--per-split-data-args-path", object).status().code(), StatusCode::kCorruption)
        << broken;
  }
  EXPECT_EQ(with("--data-args-path", folder.path("none")).status().code(), StatusCode::kNotFound);
}

TEST_F(DataFlagsTest, ARampUpIsIgnoredWhereTheNamedRevisionDoes) {
  const std::vector<std::string> ramp = {
      "--global-batch-size", "8", "--rampup-batch-size", "2", "2", "30"};
  EXPECT_EQ(resolve_run(ramp)->batches.batch_size_after(0), 2);
  std::vector<std::string> newest = ramp;
  newest.insert(newest.end(), {"--megatron-version", "core_v0.19.0"});
  const auto run = resolve_run(newest);
  EXPECT_EQ(run->batches.batch_size_after(0), 8);
  EXPECT_THAT(run->notes, ElementsAre(HasSubstr("`rampup_batch_size` has no effect")));
  EXPECT_THAT(error_of(resolve_run({"--rampup-batch-size", "2", "2"})),
              HasSubstr("expected START INCREMENT SAMPLES, found 2 values"));
}

TEST_F(DataFlagsTest, EarlierRevisionsNeedNoTokenizer) {
  const std::vector<std::string> run = {"--data-path", "p",     "--seq-length",      "8",
                                        "--samples",   "5,5,5", "--megatron-version"};
  for (const char* revision : {"v2.6", "6ef5bdc", "core_v0.4.0"}) {
    std::vector<std::string> arguments = run;
    arguments.emplace_back(revision);
    EXPECT_TRUE(resolve(arguments).has_value()) << revision;
  }
  std::vector<std::string> arguments = run;
  arguments.emplace_back("core_v0.9.0");
  EXPECT_THAT(error_of(resolve(arguments)), HasSubstr("--vocab-file"));
}

}  // namespace
}  // namespace meg::tools

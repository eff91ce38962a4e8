#include "libmeg/checkpoint/inspect/checkpoint_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "libmeg/checkpoint/inspect/checkpoint_statistics.h"
#include "libmeg/checkpoint/inspect/pickle_outline.h"
#include "tests/checkpoint/sparse_gpt.h"
#include "tests/temp_folder.h"

namespace meg::checkpoint {
namespace {

using test::SparseGpt;
using test::TempFolder;

Result<CheckpointSummary> summarize(const std::string& path, const SummaryOptions& options = {}) {
  MEG_ASSIGN_OR_RETURN(const CheckpointFolder folder, find_checkpoint(path));
  return summarize_checkpoint(folder, options);
}

std::vector<int64_t> parameters_of(const SparseGpt& gpt) {
  const TempFolder folder;
  EXPECT_TRUE(gpt.write(folder.path()).ok());
  const auto summary = summarize(folder.path());
  EXPECT_TRUE(summary.has_value()) << summary.error().message();
  std::vector<int64_t> counts;
  for (const RankSummary& rank : summary->ranks) counts.push_back(rank.parameters.value());
  return counts;
}

TEST(CheckpointSummary, CountsTheParametersThatMegatronPrints) {
  EXPECT_THAT(parameters_of({}), testing::ElementsAre(354871296));
  EXPECT_THAT(parameters_of({.tensor_size = 4}), testing::Each(89714688));
  EXPECT_THAT(parameters_of({.tensor_size = 2}), testing::Each(178100224));
  EXPECT_THAT(parameters_of({.tensor_size = 2, .pipeline_size = 2}),
              testing::ElementsAre(102483968, 101437440, 102483968, 101437440));
  EXPECT_THAT(parameters_of({.layers = 12, .hidden = 768, .heads = 12, .positions = 512}),
              testing::ElementsAre(124082688));
}

TEST(CheckpointSummary, CountsTheWholeModelWithAndWithoutPadding) {
  for (const int64_t stages : {1, 2}) {
    const TempFolder folder;
    ASSERT_TRUE(SparseGpt{.pipeline_size = stages}.write(folder.path()).ok());
    SummaryOptions options;
    options.true_vocab_size = 50257;
    const auto summary = summarize(folder.path(), options);
    ASSERT_TRUE(summary.has_value()) << summary.error().message();
    EXPECT_EQ(summary->parameters, 354871296);
    EXPECT_EQ(summary->unpadded_parameters, 354823168);
    EXPECT_EQ(summary->padded_vocab_size, 50304);
  }
}

TEST(CheckpointSummary, ReadsMetadataAlone) {
  const TempFolder folder;
  const SparseGpt gpt{.tensor_size = 2, .pipeline_size = 2, .has_optimizer = true};
  ASSERT_TRUE(gpt.write(folder.path()).ok());
  // Without its storages no file has its size; damage there goes unseen.
  const auto summary = summarize(folder.path());
  ASSERT_TRUE(summary.has_value()) << summary.error().message();
  EXPECT_GT(summary->bytes, 5'000'000'000);
  EXPECT_EQ(summary->optimizer, OptimizerForm::kMixedPrecision);
  EXPECT_TRUE(summary->whole.has_value()) << summary->whole_status.message();
  const auto largest = static_cast<double>(summary->optimizer_bytes);
  EXPECT_NEAR(largest, 12.0 * 2 * (102483968 + 101437440), 1e6);
}

TEST(CheckpointSummary, NamesMissingRanksAndShowsTheRest) {
  const TempFolder folder;
  const SparseGpt gpt{.tensor_size = 2, .pipeline_size = 2, .layers = 4, .hidden = 64, .heads = 4};
  ASSERT_TRUE(gpt.write(folder.path()).ok());
  std::filesystem::remove_all(folder.path("iter_0000100/mp_rank_00_001"));
  const auto summary = summarize(folder.path());
  ASSERT_TRUE(summary.has_value());
  EXPECT_THAT(summary->missing_ranks, testing::ElementsAre("mp_rank_00_001"));
  EXPECT_FALSE(summary->whole.has_value());
  EXPECT_EQ(summary->ranks.size(), 3U);
  EXPECT_FALSE(summary->parameters.has_value());
  EXPECT_EQ(summary->family, model::NameFamily::kLegacy);
  const auto statistics = checkpoint_statistics(*summary);
  ASSERT_TRUE(statistics.has_value());
  EXPECT_FALSE(statistics->empty());
}

TEST(CheckpointSummary, TellsWhichFileCannotBeOpened) {
  const TempFolder folder;
  const SparseGpt gpt{.tensor_size = 2, .layers = 4, .hidden = 64, .heads = 4};
  ASSERT_TRUE(gpt.write(folder.path()).ok());
  std::filesystem::resize_file(folder.path("iter_0000100/mp_rank_01/model_optim_rng.pt"), 1000);
  const auto summary = summarize(folder.path());
  ASSERT_TRUE(summary.has_value());
  EXPECT_TRUE(summary->files[0].status.ok());
  EXPECT_FALSE(summary->files[1].status.ok());
  EXPECT_FALSE(summary->ranks[1].parameters.has_value());
}

/// Writes one file whose value `make` builds.
template <class Make>
std::string write_file(const TempFolder& folder, const Make& make) {
  TorchFileContent content;
  content.root = make(content);
  auto layout = lay_out(content, "x");
  EXPECT_TRUE(layout.has_value());
  const std::string path = folder.path("x.pt");
  auto writer = TorchFileWriter::create(path, content, *std::move(layout));
  EXPECT_TRUE(writer.has_value());
  EXPECT_TRUE(writer->finish().ok());
  return path;
}

TEST(NamedTensors, StopWhereSharedPartsMultiplyATensor) {
  const TempFolder folder;
  const std::string path = write_file(folder, [](TorchFileContent& content) {
    const int storage = content.add_storage(DType::kUint8, 4, std::vector<std::byte>(4));
    PickleId value = content.add_tensor(storage, {4});
    for (int level = 0; level < 30; ++level) {
      value = content.graph().add_list(std::vector<PickleId>(10, value));
    }
    return value;
  });
  const auto file = TorchFile::open(path);
  ASSERT_TRUE(file.has_value()) << file.error().message();
  const NamedTensors found = named_tensors(*file);
  EXPECT_TRUE(found.is_cut);
  EXPECT_LE(found.tensors.size(), 1U << 20);
  EXPECT_TRUE(outline_of(*file).is_cut);
}

TEST(NamedTensors, ListOnceForEachNameAndFollowEveryKindOfKey) {
  const TempFolder folder;
  const std::string path = write_file(folder, [](TorchFileContent& content) {
    PickleGraph& graph = content.graph();
    const int storage = content.add_storage(DType::kUint8, 4, std::vector<std::byte>(4));
    const PickleId tensor = content.add_tensor(storage, {2, 2});
    const PickleId pair = graph.add_tuple({graph.add_int(0), graph.add_none()});
    return graph.add_dict({graph.add_string("a"), tensor, graph.add_int(7), tensor,
                           graph.add_global("torch", "float32"), tensor, pair,
                           graph.add_list({graph.add_int(1), tensor})});
  });
  const auto file = TorchFile::open(path);
  ASSERT_TRUE(file.has_value()) << file.error().message();
  std::vector<std::string> names;
  for (const NamedTensor& tensor : named_tensors(*file).tensors) names.push_back(tensor.name);
  EXPECT_THAT(names, testing::ElementsAre("a", "7", "torch.float32", "(0, None)/1"));
}

TEST(CheckpointStatistics, FollowStridesWhateverTheyAre) {
  const TempFolder folder;
  const std::string path = write_file(folder, [](TorchFileContent& content) {
    PickleGraph& graph = content.graph();
    const std::vector<std::byte> bytes = {std::byte{1}, std::byte{0}, std::byte{5}, std::byte{9}};
    const int storage = content.add_storage(DType::kUint8, 4, bytes);
    return graph.add_list({content.add_tensor_view(storage, 2, {1000}, {0}),
                           content.add_tensor_view(storage, 0, {2}, {2})});
  });
  const auto summary = summarize(path);
  ASSERT_TRUE(summary.has_value()) << summary.error().message();
  const auto statistics = checkpoint_statistics(*summary);
  ASSERT_TRUE(statistics.has_value());
  ASSERT_EQ(statistics->size(), 2U);
  EXPECT_EQ((*statistics)[0].statistics.sum, 5000);
  EXPECT_EQ((*statistics)[1].statistics.sum, 6);
}

TEST(Outline, ShowsEveryContainerOnce) {
  const TempFolder folder;
  const std::string path = write_file(folder, [](TorchFileContent& content) {
    PickleGraph& graph = content.graph();
    const PickleId shared = graph.add_dict({graph.add_string("x"), graph.add_int(1)});
    const PickleId root = graph.add_list({shared, shared});
    graph.mutable_node(root).children.push_back(root);
    return root;
  });
  const auto file = TorchFile::open(path);
  ASSERT_TRUE(file.has_value()) << file.error().message();
  std::vector<std::string> texts;
  for (const OutlineLine& line : outline_of(*file).lines)
    texts.push_back(line.key + "=" + line.text);
  EXPECT_THAT(
      texts, testing::ElementsAre("=list of 3", "0=dict of 1", "x=1", "1=dict of 1, as shown above",
                                  "2=list of 3, as shown above"));
}

}  // namespace
}  // namespace meg::checkpoint

// Every way to cut a tensor, from every number of ranks to every other, against shards that are
// made element by element from the rule for one element.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "libmeg/checkpoint/transfer/transfer_executor.h"
#include "tests/checkpoint/transfer/transfer_files.h"
#include "tests/temp_folder.h"

namespace meg::checkpoint {
namespace {

// 12 heads of 3 channels; every size divides by 1, 2, 3, 4 and 6.
constexpr int64_t kHeads = 12;
constexpr int64_t kChannels = 3;
constexpr int64_t kHidden = 60;
constexpr int64_t kFfn = 48;

/// A kind of parameter: the axes a transfer gives it, and where its elements lie on the ranks.
struct Kind {
  std::string name;
  std::vector<int64_t> axes;
  int cut_axis = 0;
  std::vector<int> memory_order;  // of sources

  int64_t numel() const {
    int64_t product = 1;
    for (const int64_t size : axes) product *= size;
    return product;
  }
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      {"Rows", {kFfn, kHidden}, 0, {}},
      {"Columns", {kHidden, kFfn}, 1, {}},
      {"Bias", {kFfn}, 0, {}},
      {"Qkv", {kHeads, 3 * kChannels, kHidden}, 0, {}},
      {"Gated", {2, kFfn, kHidden}, 1, {}},
      {"GatedBias", {2, kFfn}, 1, {}},
      {"QkvVersion0", {kHeads, 3, kChannels, kHidden}, 0, {1, 0, 2, 3}},
      {"QkvVersion1", {kHeads, 3, kChannels, kHidden}, 0, {0, 2, 1, 3}},
      {"QkvBiasVersion0", {kHeads, 3, kChannels}, 0, {1, 0, 2}},
      {"QkvBiasVersion1", {kHeads, 3, kChannels}, 0, {0, 2, 1}},
      {"ManyColumns", {3, 24000}, 1, {}},
  };
  return all;
}

/// Rank and place in that rank's memory of the merged tensor's element `index`.
std::pair<int64_t, int64_t> place(const Kind& kind, int64_t index, int64_t ranks,
                                  const std::vector<int>& order) {
  std::vector<int64_t> coordinates(kind.axes.size());
  for (size_t i = kind.axes.size(); i-- > 0;) {
    coordinates[i] = index % kind.axes[i];
    index /= kind.axes[i];
  }
  const auto cut = static_cast<size_t>(kind.cut_axis);
  std::vector<int64_t> sizes = kind.axes;
  sizes[cut] /= ranks;
  const int64_t rank = coordinates[cut] / sizes[cut];
  coordinates[cut] %= sizes[cut];
  int64_t offset = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto axis = order.empty() ? i : static_cast<size_t>(order[i]);
    offset = offset * sizes[axis] + coordinates[axis];
  }
  return {rank, offset};
}

/// The shards of a tensor whose element i is the number i.
std::vector<std::vector<float>> shards(const Kind& kind, int64_t ranks,
                                       const std::vector<int>& order) {
  std::vector<std::vector<float>> made(static_cast<size_t>(ranks));
  for (auto& shard : made) shard.resize(static_cast<size_t>(kind.numel() / ranks));
  for (int64_t i = 0; i < kind.numel(); ++i) {
    const auto [rank, offset] = place(kind, i, ranks, order);
    made[static_cast<size_t>(rank)][static_cast<size_t>(offset)] = static_cast<float>(i);
  }
  return made;
}

std::vector<std::byte> bytes_of(const std::vector<float>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

/// Cuts a tensor of this kind from `from` ranks to `to` ranks and compares every shard.
void check_cut(const Kind& kind, int64_t from, int64_t to, const TransferOptions& options) {
  const test::TempFolder folder;
  const auto cut = static_cast<size_t>(kind.cut_axis);
  const int64_t extent = kind.axes[cut];

  TransferPlan plan;
  TensorTransfer transfer;
  transfer.name = kind.name;
  transfer.axes = kind.axes;
  transfer.source_extent = kind.axes[0];
  const auto sources = shards(kind, from, kind.memory_order);
  for (int rank = 0; rank < from; ++rank) {
    const auto& shard = sources[static_cast<size_t>(rank)];
    const auto file = test::make_source(
        folder.path("source" + std::to_string(rank)),
        {{DType::kFloat32, bytes_of(shard), {static_cast<int64_t>(shard.size())}, 0, {}}});
    transfer.sources.push_back(test::made_piece(file, 0, kind.axes, cut, extent / from * rank,
                                                extent / from * (rank + 1), kind.memory_order));
  }
  for (int rank = 0; rank < to; ++rank) {
    plan.targets.push_back(test::make_target("rank" + std::to_string(rank) + "/model.pt",
                                             DType::kFloat32, {{kind.numel() / to}}, rank));
    transfer.targets.push_back(
        test::made_target(rank, kind.axes, cut, extent / to * rank, extent / to * (rank + 1)));
  }
  plan.transfers.push_back(transfer);

  const Status status = execute_transfers(plan, folder.path(), options);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto expected = shards(kind, to, {});
  for (int rank = 0; rank < to; ++rank) {
    const auto& target = plan.targets[static_cast<size_t>(rank)];
    EXPECT_EQ(test::written_tensor(folder.path(target.path), 0),
              bytes_of(expected[static_cast<size_t>(rank)]))
        << "rank " << rank;
  }
}

class TransferCuts : public testing::TestWithParam<std::tuple<size_t, TransferOptions>> {};

TEST_P(TransferCuts, EveryElementFindsItsPlace) {
  const auto& [number, options] = GetParam();
  for (const int64_t from : {1, 2, 3, 4, 6}) {
    for (const int64_t to : {1, 2, 3, 4, 6}) {
      SCOPED_TRACE(std::to_string(from) + " ranks to " + std::to_string(to));
      check_cut(kinds()[number], from, to, options);
    }
  }
}

TransferOptions with(int64_t buffer_bytes, int workers, bool check_crcs) {
  TransferOptions options;
  options.buffer_bytes = buffer_bytes;
  options.workers = workers;
  options.check_crcs = check_crcs;
  return options;
}

INSTANTIATE_TEST_SUITE_P(Ranks, TransferCuts,
                         testing::Combine(testing::Range<size_t>(0, kinds().size()),
                                          testing::Values(with(int64_t{1} << 28, 0, true),
                                                          with(1, 1, false),
                                                          with(100'000, 3, true))),
                         [](const auto& instance) {
                           const auto& options = std::get<1>(instance.param);
                           return kinds()[std::get<0>(instance.param)].name + "_" +
                                  std::to_string(options.buffer_bytes);
                         });

}  // namespace
}  // namespace meg::checkpoint

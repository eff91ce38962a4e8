// What a transfer may use up: memory, disk, and nothing for holes.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <vector>

#include "libmeg/checkpoint/transfer/transfer_executor.h"
#include "libmeg/io/crc32.h"
#include "tests/checkpoint/transfer/transfer_files.h"
#include "tests/child_process.h"
#include "tests/small_filesystem.h"
#include "tests/temp_folder.h"

namespace meg::checkpoint {
namespace {

constexpr int64_t kGigabyte = 1'000'000'000;
constexpr int64_t kMegabyte = 1'000'000;

/// A file of one tensor of `bytes` zero bytes that takes no space except for a few at `data_at`.
std::shared_ptr<const TorchFile> make_sparse_source(const std::string& path, int64_t bytes,
                                                    int64_t data_at) {
  const std::string content = "these bytes are there";
  const auto data = std::as_bytes(std::span(content));
  const auto before = static_cast<uint64_t>(data_at);
  const uint64_t after = static_cast<uint64_t>(bytes) - before - data.size();
  TransferTargetFile file = test::make_target(path, DType::kUint8, {{bytes}});
  auto writer = TorchFileWriter::create(path, file.content, file.layout);
  EXPECT_TRUE(writer.has_value()) << writer.status().message();
  EXPECT_TRUE(writer->write(0, before, data).ok());
  const uint32_t start =
      io::crc32_combine(io::crc32_of_zeros(before), io::crc32(data), data.size());
  writer->set_crc(0, io::crc32_combine(start, io::crc32_of_zeros(after), after));
  EXPECT_TRUE(writer->finish().ok());
  auto opened = TorchFile::open(path);
  EXPECT_TRUE(opened.has_value()) << opened.status().message();
  return std::make_shared<const TorchFile>(std::move(*opened));
}

int64_t bytes_on_disk(const std::string& path) {
  struct stat info {};

  EXPECT_EQ(::stat(path.c_str(), &info), 0);
  return info.st_blocks * 512;
}

/// The most memory that this process ever held, in bytes.
int64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  }
  return -1;
}

/// 24 GB cut by rows and 6 GB cut by columns, from two sources each to three targets.
TransferPlan sparse_plan(const test::TempFolder& folder) {
  TransferPlan plan;
  int sources = 0;
  for (const int64_t half : {12 * kGigabyte, 3 * kGigabyte}) {
    const bool is_columns = half < 12 * kGigabyte;
    TensorTransfer transfer;
    transfer.name = is_columns ? "columns" : "rows";
    transfer.axes = is_columns ? std::vector<int64_t>{kMegabyte, 6000}
                               : std::vector<int64_t>{24 * kMegabyte, 1000};
    const size_t cut = is_columns ? 1 : 0;
    transfer.target_dtype = DType::kUint8;
    const int64_t extent = transfer.axes[cut];
    transfer.source_extent = transfer.axes[0];
    for (int rank = 0; rank < 2; ++rank) {
      const auto file =
          make_sparse_source(folder.path("source" + std::to_string(sources++)), half, half / 2);
      transfer.sources.push_back(test::made_piece(file, 0, transfer.axes, cut, extent / 2 * rank,
                                                  extent / 2 * (rank + 1)));
    }
    for (int rank = 0; rank < 3; ++rank) {
      const int number = static_cast<int>(plan.targets.size());
      plan.targets.push_back(test::make_target("target" + std::to_string(number), DType::kUint8,
                                               {{half * 2 / 3}}, number));
      transfer.targets.push_back(test::made_target(number, transfer.axes, cut, extent / 3 * rank,
                                                   extent / 3 * (rank + 1)));
    }
    plan.transfers.push_back(transfer);
  }
  return plan;
}

/// Runs in a child of its own, whose peak memory is known; returns what went wrong, or nothing.
std::string move_sparse_checkpoint(const test::TempFolder& folder) {
  const TransferPlan plan = sparse_plan(folder);
  const int64_t before = peak_memory();
  TransferOptions options;
  options.buffer_bytes = 8 << 20;
  const Status status = execute_transfers(plan, folder.path(), options);
  if (!status.ok()) return status.message();
  for (const TransferTargetFile& target : plan.targets) {
    if (bytes_on_disk(folder.path(target.path)) > 4 << 20) return target.path + " has no holes";
  }
  const int64_t grown = peak_memory() - before;
  // The buffers, and what threads and lists need beside them.
  if (grown > options.buffer_bytes + (8 << 20)) return "memory grew by " + std::to_string(grown);
  return "";
}

TEST(TransferLimits, SparseThirtyGigabytesStaySparseInLittleMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need memory of their own";
#endif
  const test::TempFolder folder;
  EXPECT_EQ(test::in_child([&] { return move_sparse_checkpoint(folder); }), "");

  // The first source's data lie in its middle, which the first target takes.
  const auto target = TorchFile::open(folder.path("target0"));
  ASSERT_TRUE(target.has_value()) << target.status().message();
  std::string data(21, '\0');
  ASSERT_TRUE(target
                  ->read_storage(0, static_cast<uint64_t>(6 * kGigabyte),
                                 std::as_writable_bytes(std::span(data)))
                  .ok());
  EXPECT_EQ(data, "these bytes are there");
}

TEST(TransferLimits, FullDiskIsNamed) {
  const test::TempFolder folder;
  const test::TempFolder small;
  const auto source = test::make_source(
      folder.path("source"),
      {{DType::kUint8, std::vector<std::byte>(4 << 20, std::byte{7}), {4 << 20}, 0, {}}});
  TransferPlan plan;
  plan.targets.push_back(test::make_target("target", DType::kUint8, {{4 << 20}}));
  TensorTransfer transfer;
  transfer.name = "weight";
  transfer.axes = {4 << 20};
  transfer.source_extent = 4 << 20;
  transfer.target_dtype = DType::kUint8;
  transfer.sources.push_back(test::made_piece(source, 0, transfer.axes, 0, 0, 4 << 20));
  transfer.targets.push_back(test::made_target(0, transfer.axes, 0, 0, 4 << 20));
  plan.transfers.push_back(transfer);
  const bool ran = test::in_small_filesystem(small.path(), "size=1m", [&]() -> std::string {
    const Status status = execute_transfers(plan, small.path(), {});
    if (status.code() != StatusCode::kResourceExhausted) return "not named: " + status.message();
    const std::string expected = small.path("target") + ": No space left on device";
    return status.message() == expected ? "" : status.message();
  });
  if (!ran) GTEST_SKIP() << "may not mount a filesystem here";
}

}  // namespace
}  // namespace meg::checkpoint

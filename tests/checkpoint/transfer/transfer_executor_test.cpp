#include "libmeg/checkpoint/transfer/transfer_executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/bytes.h"
#include "libmeg/base/float_convert.h"
#include "libmeg/io/crc32.h"
#include "tests/checkpoint/transfer/transfer_files.h"
#include "tests/temp_folder.h"

namespace meg::checkpoint {
namespace {

using Bytes = std::vector<std::byte>;

/// Bytes without a pattern, the same for the same seed.
Bytes noise(size_t count, uint32_t seed = 1) {
  Bytes bytes(count);
  for (std::byte& byte : bytes) {
    seed = seed * 1664525 + 1013904223;
    byte = static_cast<std::byte>(seed >> 24);
  }
  return bytes;
}

Bytes part(const Bytes& bytes, size_t begin, size_t end) {
  return {bytes.begin() + static_cast<ptrdiff_t>(begin),
          bytes.begin() + static_cast<ptrdiff_t>(end)};
}

/// A plan with one tensor of kRows rows of kColumns bytes (uint8).
class TransferTest : public testing::Test {
 protected:
  static constexpr int64_t kRows = 40;
  static constexpr int64_t kColumns = 1000;

  TransferTest() { options_.workers = 2; }

  /// One source that holds rows [0, kRows), in a storage of its own.
  void add_source() {
    source_ = noise(kRows * kColumns);
    source_file_ = test::make_source(folder_.path("source"),
                                     {{DType::kUint8, source_, {kRows, kColumns}, 0, {}}});
    TensorTransfer transfer;
    transfer.name = "weight";
    transfer.axes = {kRows, kColumns};
    transfer.source_extent = kRows;
    transfer.target_dtype = DType::kUint8;
    transfer.sources.push_back(test::made_piece(source_file_, 0, transfer.axes, 0, 0, kRows));
    plan_.transfers.push_back(transfer);
  }

  /// A target file that takes these rows.
  void add_target(int64_t begin, int64_t end) {
    const int file = static_cast<int>(plan_.targets.size());
    plan_.targets.push_back(test::make_target("rank" + std::to_string(file) + ".pt", DType::kUint8,
                                              {{end - begin, kColumns}}, file));
    TensorTransfer& transfer = plan_.transfers[0];
    transfer.targets.push_back(test::made_target(file, transfer.axes, 0, begin, end));
  }

  Status execute() { return execute_transfers(plan_, folder_.path(), options_); }

  Bytes written(size_t file) {
    return test::written_tensor(folder_.path(plan_.targets[file].path), 0);
  }

  Bytes rows(size_t begin, size_t end) { return part(source_, begin * kColumns, end * kColumns); }

  const test::TempFolder folder_;
  Bytes source_;
  std::shared_ptr<const TorchFile> source_file_;
  TransferPlan plan_;
  TransferOptions options_;
};

TEST_F(TransferTest, TargetsMayOverlap) {
  add_source();
  add_target(0, kRows);
  add_target(10, 30);
  add_target(20, 40);
  add_target(0, kRows);
  const Status status = execute();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(written(0), source_);
  EXPECT_EQ(written(1), rows(10, 30));
  EXPECT_EQ(written(2), rows(20, 40));
  EXPECT_EQ(written(3), source_);
}

TEST_F(TransferTest, DropsRowsThatNobodyTakes) {
  add_source();
  plan_.transfers[0].axes[0] = 32;  // a shorter vocabulary
  add_target(0, 16);
  add_target(16, 32);
  const Status status = execute();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(written(0), rows(0, 16));
  EXPECT_EQ(written(1), rows(16, 32));
}

class TransferFillTest : public TransferTest, public testing::WithParamInterface<int64_t> {};

TEST_P(TransferFillTest, FillsNewRowsWithTheLastOne) {
  add_source();
  options_.buffer_bytes = GetParam();
  plan_.transfers[0].fill = PaddingFill::kRepeatLastRow;
  plan_.transfers[0].axes[0] = 60;
  add_target(0, 30);
  add_target(30, 60);
  add_target(45, 60);
  const Status status = execute();
  ASSERT_TRUE(status.ok()) << status.message();
  Bytes grown = source_;
  const Bytes last = rows(kRows - 1, kRows);
  for (int i = 0; i < 20; ++i) grown.insert(grown.end(), last.begin(), last.end());
  EXPECT_EQ(written(0), part(grown, 0, 30 * kColumns));
  EXPECT_EQ(written(1), part(grown, 30 * kColumns, 60 * kColumns));
  EXPECT_EQ(written(2), part(grown, 45 * kColumns, 60 * kColumns));
}

INSTANTIATE_TEST_SUITE_P(Buffers, TransferFillTest, testing::Values(1, 1 << 24),
                         [](const auto& instance) { return std::to_string(instance.param); });

TEST_F(TransferTest, FillsNewRowsWithZeros) {
  add_source();
  plan_.transfers[0].axes[0] = 50;
  add_target(0, 25);
  add_target(25, 50);
  const Status status = execute();
  ASSERT_TRUE(status.ok()) << status.message();
  Bytes grown = source_;
  grown.resize(50 * kColumns);
  EXPECT_EQ(written(0), part(grown, 0, 25 * kColumns));
  EXPECT_EQ(written(1), part(grown, 25 * kColumns, 50 * kColumns));
}

TEST_F(TransferTest, ConvertsFloats) {
  const DType types[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32};
  for (const DType from : types) {
    for (const DType to : types) {
      SCOPED_TRACE(std::string(dtype_name(from)) + " to " + std::string(dtype_name(to)));
      const test::TempFolder folder;
      constexpr int64_t kCount = 4 * 9000;  // columns of two sources and three targets
      const auto size = static_cast<size_t>(dtype_size(from));
      TransferPlan plan;
      TensorTransfer transfer;
      transfer.name = "weight";
      transfer.axes = {4, 9000};
      transfer.source_extent = 4;
      transfer.target_dtype = to;
      const Bytes whole = noise(kCount * size);
      Bytes converted(kCount * static_cast<size_t>(dtype_size(to)));
      ASSERT_TRUE(convert_floats(from, whole, to, converted).ok());
      const auto source =
          test::make_source(folder.path("source"), {{from, whole, {4, 9000}, 0, {}}});
      transfer.sources.push_back(test::made_piece(source, 0, transfer.axes, 1, 0, 9000));
      plan.targets.push_back(test::make_target("rank0", to, {{4, 9000}}));
      transfer.targets.push_back(test::made_target(0, transfer.axes, 1, 0, 9000));
      plan.targets.push_back(test::make_target("rank1", to, {{4, 3000}}, 1));
      transfer.targets.push_back(test::made_target(1, transfer.axes, 1, 3000, 6000));
      plan.transfers.push_back(transfer);
      const Status status = execute_transfers(plan, folder.path(), options_);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(test::written_tensor(folder.path("rank0"), 0), converted);
      Bytes middle;
      const auto out = static_cast<size_t>(dtype_size(to));
      for (size_t row = 0; row < 4; ++row) {
        const Bytes run = part(converted, (row * 9000 + 3000) * out, (row * 9000 + 6000) * out);
        middle.insert(middle.end(), run.begin(), run.end());
      }
      EXPECT_EQ(test::written_tensor(folder.path("rank1"), 0), middle);
    }
  }
}

TEST_F(TransferTest, CarriesEmptyTensors) {
  source_file_ = test::make_source(folder_.path("source"), {{DType::kFloat32, {}, {0, 8}, 0, {}}});
  TensorTransfer transfer;
  transfer.name = "empty";
  transfer.axes = {0, 8};
  transfer.sources.push_back(test::made_piece(source_file_, 0, transfer.axes, 0, 0, 0));
  plan_.targets.push_back(test::make_target("rank0.pt", DType::kFloat32, {{0, 8}}));
  transfer.targets.push_back(test::made_target(0, transfer.axes, 0, 0, 0));
  plan_.transfers.push_back(transfer);
  const Status status = execute();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(written(0), Bytes());
}

TEST_F(TransferTest, WritesFilesWithoutTransfers) {
  plan_.targets.push_back(test::make_target("a/b/model.pt", DType::kFloat32, {}));
  const Status status = execute();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(TorchFile::open(folder_.path("a/b/model.pt")).has_value());
}

TEST_F(TransferTest, ReadsViewsWithStridesAndOffsets) {
  // Two tensors in one storage: a transposed one in front, a shifted one after it.
  const Bytes storage = noise(3 * 500 * 4);
  source_file_ = test::make_source(folder_.path("source"),
                                   {{DType::kFloat32, storage, {500, 2}, 100, {1, 500}}});
  TensorTransfer transfer;
  transfer.name = "transposed";
  transfer.axes = {500, 2};
  transfer.source_extent = 500;
  transfer.sources.push_back(test::made_piece(source_file_, 0, transfer.axes, 0, 0, 500));
  plan_.targets.push_back(test::make_target("rank0", DType::kFloat32, {{500, 2}, {500}}));
  transfer.targets.push_back(test::made_target(0, transfer.axes, 0, 0, 500));
  plan_.transfers.push_back(transfer);

  const TensorView shifted{0, DType::kFloat32, 700, {500}, {1}};
  TensorTransfer second;
  second.name = "shifted";
  second.axes = {500};
  second.source_extent = 500;
  second.sources.push_back({torch_source(source_file_, shifted), Box::whole({500})});
  second.targets.push_back(test::made_target(1, second.axes, 0, 0, 500));
  plan_.transfers.push_back(second);

  const Status status = execute();
  ASSERT_TRUE(status.ok()) << status.message();
  Bytes expected;
  for (size_t i = 0; i < 500; ++i) {
    for (size_t j = 0; j < 2; ++j) {
      const Bytes element = part(storage, 4 * (100 + i + 500 * j), 4 * (101 + i + 500 * j));
      expected.insert(expected.end(), element.begin(), element.end());
    }
  }
  EXPECT_EQ(test::written_tensor(folder_.path("rank0"), 0), expected);
  EXPECT_EQ(test::written_tensor(folder_.path("rank0"), 1), part(storage, 2800, 4800));
}

/// Makes a file of make_source say that its data are big-endian.
void claim_big_endian(const std::string& path) {
  std::string file = test::read_file(path);
  const std::string name = "source/byteorder";
  const size_t local = file.find(name) - 30;
  const size_t central = file.rfind(name) - 46;
  file.replace(file.find("little", local), 3, "big");
  const auto data = std::as_bytes(std::span(file)).subspan(file.find("big", local), 3);
  for (const size_t crc : {local + 14, central + 16}) {
    store_le(file.data() + crc, io::crc32(data));
    store_le(file.data() + crc + 4, uint32_t{3});  // compressed size
    store_le(file.data() + crc + 8, uint32_t{3});
  }
  test::write_file(path, file);
}

TEST_F(TransferTest, SwapsBytesOfBigEndianFiles) {
  const Bytes storage = noise(4000);
  test::make_source(folder_.path("source"), {{DType::kFloat32, storage, {1000}, 0, {}}});
  claim_big_endian(folder_.path("source"));
  auto source = TorchFile::open(folder_.path("source"));
  ASSERT_TRUE(source.has_value()) << source.status().message();
  ASSERT_TRUE(source->is_byte_swapped());
  source_file_ = std::make_shared<const TorchFile>(std::move(*source));
  TensorTransfer transfer;
  transfer.name = "weight";
  transfer.axes = {1000};
  transfer.source_extent = 1000;
  transfer.sources.push_back(test::made_piece(source_file_, 0, transfer.axes, 0, 0, 1000));
  for (const int64_t begin : {0, 500}) {
    const int file = static_cast<int>(plan_.targets.size());
    plan_.targets.push_back(
        test::make_target("rank" + std::to_string(file), DType::kFloat32, {{500}}, file));
    transfer.targets.push_back(test::made_target(file, transfer.axes, 0, begin, begin + 500));
  }
  plan_.transfers.push_back(transfer);
  const Status status = execute();
  ASSERT_TRUE(status.ok()) << status.message();
  Bytes swapped = storage;
  for (size_t i = 0; i < swapped.size(); i += 4) {
    std::reverse(swapped.begin() + static_cast<ptrdiff_t>(i),
                 swapped.begin() + static_cast<ptrdiff_t>(i) + 4);
  }
  EXPECT_EQ(written(0), part(swapped, 0, 2000));
  EXPECT_EQ(written(1), part(swapped, 2000, 4000));
  test::flip_bit(*source_file_, 0, 3000);
  const test::TempFolder again;
  EXPECT_EQ(execute_transfers(plan_, again.path(), options_).code(), StatusCode::kCorruption);
}

TEST_F(TransferTest, NamesADamagedStorage) {
  add_source();
  add_target(0, 20);
  add_target(20, kRows);
  test::flip_bit(*source_file_, 0, 12345);
  const Status status = execute();
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  const std::string start = folder_.path("source") + ": storage 0 (weight): CRC-32: expected ";
  EXPECT_EQ(status.message().substr(0, start.size()), start) << status.message();
  EXPECT_NE(status.message().find(", found "), std::string::npos) << status.message();
}

TEST_F(TransferTest, FindsDamageInWhatNoTargetTakes) {
  add_source();
  plan_.transfers[0].axes[0] = 32;
  add_target(0, 32);
  test::flip_bit(*source_file_, 0, 39 * kColumns);
  EXPECT_EQ(execute().code(), StatusCode::kCorruption);
}

TEST_F(TransferTest, FindsDamageBesideAView) {
  const Bytes storage = noise(4000);
  source_file_ =
      test::make_source(folder_.path("source"), {{DType::kUint8, storage, {10, 100}, 1000, {}}});
  TensorTransfer transfer;
  transfer.name = "view";
  transfer.axes = {10, 100};
  transfer.source_extent = 10;
  transfer.target_dtype = DType::kUint8;
  transfer.sources.push_back(test::made_piece(source_file_, 0, transfer.axes, 0, 0, 10));
  plan_.targets.push_back(test::make_target("rank0", DType::kUint8, {{10, 100}}));
  transfer.targets.push_back(test::made_target(0, transfer.axes, 0, 0, 10));
  plan_.transfers.push_back(transfer);
  test::flip_bit(*source_file_, 0, 3999);
  const Status status = execute();
  EXPECT_EQ(status.code(), StatusCode::kCorruption) << status.message();
  EXPECT_NE(status.message().find("(view)"), std::string::npos) << status.message();
}

TEST_F(TransferTest, CarriesDamageWhereCrcsAreNotChecked) {
  add_source();
  add_target(0, kRows);
  test::flip_bit(*source_file_, 0, 5);
  options_.check_crcs = false;
  const Status status = execute();
  ASSERT_TRUE(status.ok()) << status.message();
  source_[5] ^= std::byte{0x10};
  EXPECT_EQ(written(0), source_);
}

TEST_F(TransferTest, SaysWhenASourceBecameShorter) {
  add_source();
  add_target(0, kRows);
  options_.check_crcs = false;
  const uint64_t offset = source_file_->storages()[0].file_offset;
  std::filesystem::resize_file(folder_.path("source"), offset + 1000);
  const Status status = execute();
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_NE(status.message().find("was truncated"), std::string::npos) << status.message();
}

TEST_F(TransferTest, StopsWhenToldTo) {
  add_source();
  add_target(0, kRows);
  options_.progress = [](const Progress&) { return false; };
  EXPECT_EQ(execute().code(), StatusCode::kCancelled);
}

TEST_F(TransferTest, TellsProgressUpToTheEnd) {
  add_source();
  add_target(0, kRows);
  add_target(0, 20);
  int64_t last = 0;
  std::atomic<int> inside = 0;
  options_.progress = [&](const Progress& progress) {
    EXPECT_EQ(++inside, 1) << "one thread at a time";
    EXPECT_GE(progress.bytes, last);
    EXPECT_EQ(progress.total_bytes, 60 * kColumns);
    last = progress.bytes;
    --inside;
    return true;
  };
  const Status status = execute();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(last, 60 * kColumns);
}

TEST_F(TransferTest, NeverOverwritesAFile) {
  add_source();
  add_target(0, kRows);
  test::write_file(folder_.path("rank0.pt"), "mine");
  EXPECT_EQ(execute().code(), StatusCode::kIoError);
  EXPECT_EQ(test::read_file(folder_.path("rank0.pt")), "mine");
}

TEST_F(TransferTest, RefusesPlansThatContradictTheirFiles) {
  add_source();
  add_target(0, kRows);
  const TransferPlan good = plan_;
  const std::vector<std::pair<std::string, std::function<void(TensorTransfer*)>>> faults{
      {"axes", [](auto* t) { t->axes.clear(); }},
      {"axes",
       [](auto* t) {
         t->axes = {INT64_MAX, INT64_MAX};
       }},
      {"axes", [](auto* t) { t->axes[1] = -1; }},
      {"source box", [](auto* t) { t->sources[0].box.offsets[0] = 1; }},
      {"source box", [](auto* t) { t->sources[0].box.sizes.pop_back(); }},
      {"source box", [](auto* t) { t->axes[1] = kColumns - 1; }},
      {"source range", [](auto* t) { t->sources[0].first = 1; }},
      {"source range", [](auto* t) { t->sources[0].box.sizes[1] = kColumns - 1; }},
      {"source extent", [](auto* t) { t->source_extent = kRows + 1; }},
      {"sources that overlap", [](auto* t) { t->sources.push_back(t->sources[0]); }},
      {"types", [](auto* t) { t->target_dtype = DType::kInt32; }},
      {"memory_order",
       [](auto* t) {
         t->sources[0].memory_order = {0, 0};
       }},
      {"sink", [](auto* t) { t->targets[0].sink = -1; }},
      {"sink", [](auto* t) { t->targets[0].sink = 1; }},
      {"target box", [](auto* t) { t->targets[0].box.sizes[0] = kRows + 1; }},
      {"target range",
       [](auto* t) {
         t->targets[0].range = TransferTarget::FlatRange{1, kRows * kColumns};
       }},
      {"sink's bytes", [](auto* t) { t->targets[0].offset = 1; }},
      {"written twice", [](auto* t) { t->targets.push_back(t->targets[0]); }},
  };
  for (const auto& [what, damage] : faults) {
    plan_ = good;
    damage(&plan_.transfers[0]);
    const test::TempFolder folder;
    const Status status = execute_transfers(plan_, folder.path(), options_);
    EXPECT_EQ(status.code(), StatusCode::kInternal) << what;
    EXPECT_EQ(status.message().substr(0, 14), "plan: weight: ") << what << status.message();
  }
}

TEST_F(TransferTest, RefusesAPlanThatForgetsAStorage) {
  add_source();
  add_target(0, kRows);
  plan_.transfers.clear();
  EXPECT_EQ(execute().code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace meg::checkpoint

#include "libmeg/checkpoint/state/transposed_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/state/concatenated_source.h"
#include "tests/temp_folder.h"

namespace meg::checkpoint {
namespace {

/// A matrix of random elements: [columns, rows] in memory.
struct Matrix {
  int64_t rows, columns;
  DType dtype;
  std::vector<std::byte> bytes;

  Matrix(int64_t rows_of_transpose, int64_t columns_of_transpose, DType type, std::mt19937* random)
      : rows(rows_of_transpose),
        columns(columns_of_transpose),
        dtype(type),
        bytes(static_cast<size_t>(rows * columns * dtype_size(type))) {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>((*random)());
  }

  std::shared_ptr<const TensorSource> transpose() const {
    return transposed_source(memory_source(dtype, bytes), rows, columns);
  }

  /// Element by element.
  std::vector<std::byte> expected(int64_t first, int64_t count) const {
    const auto size = static_cast<size_t>(dtype_size(dtype));
    std::vector<std::byte> found(static_cast<size_t>(count) * size);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = (first + i) / columns, column = (first + i) % columns;
      std::memcpy(found.data() + static_cast<size_t>(i) * size,
                  bytes.data() + static_cast<size_t>(column * rows + row) * size, size);
    }
    return found;
  }

  void expect_read(const TensorSource& source, int64_t first, int64_t count) const {
    std::vector<std::byte> found(static_cast<size_t>(count * dtype_size(dtype)));
    ASSERT_TRUE(source.read(first, found).ok());
    EXPECT_TRUE(found == expected(first, count))
        << rows << " x " << columns << ": " << first << " and " << count << " more";
  }
};

TEST(TransposedSource, ReadsAnyRangeOfAnyShapeAndType) {
  std::mt19937 random(7);
  for (const DType dtype : {DType::kUint8, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    // Single rows and columns, less and more than a block, several stripes.
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{1, 1},
                                        {1, 300},
                                        {300, 1},
                                        {63, 65},
                                        {128, 64},
                                        {700, 1500},
                                        {9000, 257}}) {
      const Matrix matrix(rows, columns, dtype, &random);
      const auto source = matrix.transpose();
      const int64_t all = rows * columns;
      for (int i = 0; i < 6; ++i) {
        const auto first = static_cast<int64_t>(random() % static_cast<uint64_t>(all));
        const auto most = static_cast<uint64_t>(std::min<int64_t>(all - first, 100000));
        matrix.expect_read(*source, first, 1 + static_cast<int64_t>(random() % most));
      }
      if (all < 200000) matrix.expect_read(*source, 0, all);
    }
  }
}

TEST(TransposedSource, SourcesThatTakeTurnsDoNotMixUp) {
  std::mt19937 random(8);
  std::vector<Matrix> matrices;
  std::vector<std::shared_ptr<const TensorSource>> sources;
  for (int i = 0; i < 5; ++i) matrices.emplace_back(5000, 1000, DType::kFloat16, &random);
  for (const Matrix& matrix : matrices) sources.push_back(matrix.transpose());
  for (int i = 0; i < 60; ++i) {
    // Whatever a thread may keep.
    if (i % 10 == 0) share_transposed_memory((int64_t{1} << 25) >> (i / 2));
    const size_t which = random() % sources.size();
    matrices[which].expect_read(*sources[which], static_cast<int64_t>(random() % 4990000), 10000);
  }
}

/// Another kind of source that reads one.
class Forwarded final : public TensorSource {
 public:
  explicit Forwarded(std::shared_ptr<const TensorSource> source)
      : TensorSource(source->dtype(), source->elements()), source_(std::move(source)) {}

  Status read(int64_t first, std::span<std::byte> into) const override {
    return source_->read(first, into);
  }

 private:
  std::shared_ptr<const TensorSource> source_;
};

TEST(TransposedSource, TurnedBackIsTheSource) {
  std::mt19937 random(9);
  const Matrix matrix(70, 130, DType::kFloat32, &random);
  const auto source = memory_source(matrix.dtype, matrix.bytes);
  const auto turned = transposed_source(source, 70, 130);
  EXPECT_EQ(transposed_source(turned, 130, 70), source);
  EXPECT_NE(transposed_source(turned, 70, 130), source);
}

TEST(TransposedSource, ReadsWhatIsTransposedItself) {
  std::mt19937 random(10);
  // Some stripes of the least size; each level builds those below it again, so that more levels or
  // rows take hours.
  const Matrix matrix(700, 300, DType::kFloat16, &random);
  for (const int64_t share : {int64_t{1}, int64_t{1} << 22, int64_t{1} << 25}) {
    share_transposed_memory(share);
    auto source = matrix.transpose();
    // Twice more: the same as once.
    source = transposed_source(std::make_shared<Forwarded>(source), 300, 700);
    source = transposed_source(std::make_shared<Forwarded>(source), 700, 300);
    for (int i = 0; i < 3; ++i) {
      matrix.expect_read(*source, static_cast<int64_t>(random() % 200000), 10000);
    }
  }
}

/// The bytes as one range of a file, after a few others.
std::shared_ptr<const TensorSource> in_file(const std::string& path, const Matrix& matrix) {
  constexpr uint64_t kBefore = 1000;
  std::string content(kBefore, 'x');
  content.append(reinterpret_cast<const char*>(matrix.bytes.data()), matrix.bytes.size());
  test::write_file(path, content + "more");
  auto file = io::PooledFile::open(path);
  EXPECT_TRUE(file.has_value());
  return file_source(std::make_shared<const io::PooledFile>(std::move(*file)), kBefore,
                     matrix.dtype, matrix.rows * matrix.columns);
}

TEST(TransposedSource, ReadsFilesThatAreMapped) {
  const test::TempFolder folder;
  std::mt19937 random(11);
  share_transposed_memory(int64_t{1} << 25);
  for (const DType dtype : {DType::kUint8, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    for (const auto& [rows, columns] :
         {std::pair<int64_t, int64_t>{1, 300}, {300, 1}, {128, 64}, {700, 1500}, {9000, 57}}) {
      const Matrix matrix(rows, columns, dtype, &random);
      const auto source = transposed_source(in_file(folder.path("a"), matrix), rows, columns);
      // Whole rows, many of them and few, and any others.
      matrix.expect_read(*source, 0, rows * columns);
      for (int i = 0; i < 8; ++i) {
        const auto row = static_cast<int64_t>(random() % static_cast<uint64_t>(rows));
        matrix.expect_read(*source, row * columns, std::min<int64_t>(200, rows - row) * columns);
        const auto first = static_cast<int64_t>(random() % static_cast<uint64_t>(rows * columns));
        matrix.expect_read(*source, first, std::min<int64_t>(50000, rows * columns - first));
      }
    }
  }
}

TEST(TransposedSource, ReadsRowsThatStandInAnotherOrderInTheFile) {
  const test::TempFolder folder;
  std::mt19937 random(12);
  const Matrix matrix(640, 96, DType::kBFloat16, &random);
  // Rows of the source by sixes, the last first.
  Matrix moved = matrix;
  std::vector<std::shared_ptr<const TensorSource>> parts;
  const int64_t part = 6 * matrix.rows;
  for (int64_t i = 0; i < 16; ++i) {
    const auto bytes = static_cast<size_t>(part * 2);
    std::memcpy(moved.bytes.data() + static_cast<size_t>(15 - i) * bytes,
                matrix.bytes.data() + static_cast<size_t>(i) * bytes, bytes);
  }
  const auto whole = in_file(folder.path("a"), moved);
  for (int64_t i = 0; i < 16; ++i) parts.push_back(part_of(whole, (15 - i) * part, part));
  const auto source = transposed_source(concatenated(std::move(parts)), 640, 96);
  // Mapped, and in stripes where too little memory is left.
  for (const int64_t share : {int64_t{1} << 25, int64_t{1}}) {
    share_transposed_memory(share);
    matrix.expect_read(*source, 0, 640 * 96);
    matrix.expect_read(*source, 100 * 96, 64 * 96);
    matrix.expect_read(*source, 12345, 7000);
  }
}

TEST(TransposedSource, AFileThatBecameShorterIsAnError) {
  const test::TempFolder folder;
  std::mt19937 random(13);
  share_transposed_memory(int64_t{1} << 25);
  const Matrix matrix(256, 256, DType::kFloat32, &random);
  const auto source = transposed_source(in_file(folder.path("a"), matrix), 256, 256);
  std::filesystem::resize_file(folder.path("a"), 200000);
  std::vector<std::byte> found(matrix.bytes.size());
  EXPECT_FALSE(source->read(0, found).ok());
}

}  // namespace
}  // namespace meg::checkpoint

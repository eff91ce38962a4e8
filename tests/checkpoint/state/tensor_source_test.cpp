#include "libmeg/checkpoint/state/tensor_source.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "libmeg/checkpoint/state/tensor_sink.h"
#include "tests/temp_folder.h"

namespace meg::checkpoint {
namespace {

std::shared_ptr<const io::PooledFile> file_with(const std::string& path, const std::string& text) {
  std::FILE* made = std::fopen(path.c_str(), "wb");
  EXPECT_EQ(std::fwrite(text.data(), 1, text.size(), made), text.size());
  std::fclose(made);
  auto opened = io::PooledFile::open(path);
  EXPECT_TRUE(opened.has_value()) << opened.status().message();
  return std::make_shared<const io::PooledFile>(std::move(*opened));
}

std::string read_text(const TensorSource& source, int64_t first, size_t count) {
  std::string text(count, '\0');
  const Status status = source.read(first, std::as_writable_bytes(std::span(text)));
  EXPECT_TRUE(status.ok()) << status.message();
  return text;
}

TEST(TensorSource, PartOfAPartOfAFileNamesItsBytes) {
  const test::TempFolder folder;
  const auto file = file_with(folder.path("file"), "--abcdefgh--");
  const RecordedCrc crc{{file.get(), 2, 8}, 7, "storage 3"};
  const auto whole = file_source(file, 2, DType::kUint16, 4, crc);
  const auto part = part_of(part_of(whole, 1, 3), 1, 2);
  EXPECT_EQ(part->elements(), 2);
  EXPECT_EQ(read_text(*part, 0, 4), "efgh");
  EXPECT_EQ(read_text(*part, 1, 2), "gh");
  EXPECT_EQ(part->file_extent(), (FileExtent{file.get(), 6, 4}));
  ASSERT_TRUE(part->recorded_crc().has_value());
  EXPECT_EQ(part->recorded_crc()->extent, (FileExtent{file.get(), 2, 8}));
  EXPECT_EQ(part_of(whole, 0, 4), whole);
}

TEST(TensorSource, NamesAFileThatBecameShorter) {
  const test::TempFolder folder;
  const auto file = file_with(folder.path("file"), "0123456789");
  const auto source = file_source(file, 2, DType::kUint8, 8);
  std::filesystem::resize_file(folder.path("file"), 7);
  std::array<std::byte, 4> bytes = {};
  const Status status = source->read(3, bytes);
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_EQ(status.message(),
            folder.path("file") + ": byte 5: the file was truncated: expected 4 bytes, found 2");
}

TEST(TensorSource, KnowsTheHolesOfASparseFile) {
  const test::TempFolder folder;
  const auto file = file_with(folder.path("file"), std::string(4096, 'x'));
  std::filesystem::resize_file(folder.path("file"), 1 << 20);
  const auto source = file_source(file, 0, DType::kUint8, 1 << 20);
  if (!source->is_hole(1 << 19, 1 << 19)) GTEST_SKIP() << "no sparse files here";
  EXPECT_FALSE(source->is_hole(0, 1 << 20));
  EXPECT_FALSE(part_of(source, 4000, 100)->is_hole(0, 96));
  EXPECT_TRUE(part_of(source, 4000, 1 << 19)->is_hole(1 << 18, 1));
}

TEST(TensorSource, MemoryIsASourceThatKeepsItsOwner) {
  auto text = std::make_shared<const std::string>("abcdef");
  const auto source = memory_source(DType::kUint16, std::as_bytes(std::span(*text)), text);
  const std::weak_ptr<const std::string> watched = text;
  text.reset();
  EXPECT_FALSE(watched.expired());
  EXPECT_EQ(source->elements(), 3);
  EXPECT_EQ(read_text(*source, 1, 4), "cdef");
  EXPECT_EQ(source->file_extent(), std::nullopt);
}

TEST(TensorSink, RefusesBytesOutsideItself) {
  std::array<std::byte, 4> memory = {};
  const auto sink = memory_sink(memory);
  const std::array<std::byte, 3> bytes = {std::byte{1}, std::byte{2}, std::byte{3}};
  EXPECT_TRUE(sink->write(1, bytes).ok());
  EXPECT_EQ(memory[3], std::byte{3});
  EXPECT_EQ(sink->write(2, bytes).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(sink->write(UINT64_MAX, bytes).code(), StatusCode::kOutOfRange);
}

TEST(TensorSink, WritesItsPartOfAFile) {
  const test::TempFolder folder;
  const auto opened = io::PooledFile::create(folder.path("file"));
  ASSERT_TRUE(opened.has_value()) << opened.status().message();
  const std::string before = "----------";
  ASSERT_TRUE((*opened->pin())->write_at(0, std::as_bytes(std::span(before))).ok());
  uint32_t crc = 0;
  const auto sink = file_sink(*opened, 3, 4, &crc);
  const std::string text = "cd";
  ASSERT_TRUE(sink->write(2, std::as_bytes(std::span(text))).ok());
  sink->set_crc(5);
  EXPECT_EQ(crc, 5U);
  EXPECT_EQ(sink->file(), &*opened);
  std::string found(10, '\0');
  ASSERT_TRUE((*opened->pin())->read_exactly_at(0, std::as_writable_bytes(std::span(found))).ok());
  EXPECT_EQ(found, "-----cd---");
}

}  // namespace
}  // namespace meg::checkpoint

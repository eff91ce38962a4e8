#include "libmeg/checkpoint/container/torch_file/torch_file_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <thread>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/io/crc32.h"
#include "tests/temp_folder.h"

namespace meg::checkpoint {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> bytes_counting(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7);
  return bytes;
}

/// A content of one float32 tensor of this many elements.
TorchFileContent one_tensor(int64_t elements) {
  TorchFileContent content;
  content.add_storage(DType::kFloat32, static_cast<uint64_t>(elements) * 4);
  content.root = content.add_tensor(0, {elements});
  return content;
}

TorchFileLayout layout_of(const TorchFileContent& content) {
  auto layout = lay_out(content, "model_optim_rng");
  EXPECT_TRUE(layout.has_value()) << layout.error().message();
  return std::move(layout).value();
}

TEST(TorchFileWriter, TakesStoragesInAnyOrderFromSeveralThreads) {
  const test::TempFolder folder;
  const std::string path = folder.path("out.pt");
  TorchFileContent content;
  std::vector<PickleId> tensors;
  for (int i = 0; i < 8; ++i) {
    content.add_storage(DType::kUint8, 1000);
    tensors.push_back(content.add_tensor(i, {1000}));
  }
  content.root = content.graph().add_list(tensors);
  auto writer = TorchFileWriter::create(path, content, layout_of(content));
  ASSERT_TRUE(writer.has_value()) << writer.error().message();
  std::vector<std::thread> threads;
  for (int i = 7; i >= 0; --i) {
    threads.emplace_back([&writer, i] {
      const auto bytes = bytes_counting(static_cast<size_t>(1000 + i));
      const auto mine = std::span(bytes).last(1000);
      EXPECT_TRUE(writer->write(i, 500, mine.subspan(500)).ok());
      EXPECT_TRUE(writer->write(i, 0, mine.first(500)).ok());
      writer->set_crc(i, io::crc32(mine));
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(writer->finish().ok());

  const auto file = TorchFile::open(path);
  ASSERT_TRUE(file.has_value()) << file.error().message();
  EXPECT_TRUE(file->check_crcs().ok());
  EXPECT_EQ(file->size(), writer->layout().file_size);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(file->storages()[static_cast<size_t>(i)].file_offset,
              writer->layout().storage_offsets[static_cast<size_t>(i)]);
    std::vector<std::byte> found(1000);
    ASSERT_TRUE(file->read_storage(i, 0, found).ok());
    const auto expected = bytes_counting(static_cast<size_t>(1000 + i));
    EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.end() - 1000)) << i;
  }
}

TEST(TorchFileWriter, WritesMoreThan4GiBWithItsHoles) {
  const test::TempFolder folder;
  const std::string path = folder.path("big.pt");
  TorchFileContent content;
  const uint64_t big = (uint64_t{5} << 30) + 4;
  content.add_storage(DType::kFloat32, big);
  content.add_storage(DType::kUint8, 3);
  content.root = content.graph().add_tuple(
      {content.add_tensor(0, {static_cast<int64_t>(big / 4)}), content.add_tensor(1, {3})});
  auto writer = TorchFileWriter::create(path, content, layout_of(content));
  ASSERT_TRUE(writer.has_value()) << writer.error().message();
  const auto last = bytes_counting(4);
  ASSERT_TRUE(writer->write(0, big - 4, last).ok());
  writer->set_crc(0, io::crc32_combine(io::crc32_of_zeros(big - 4), io::crc32(last), 4));
  ASSERT_TRUE(writer->write(1, 0, std::span(last).first(3)).ok());
  writer->set_crc(1, io::crc32(std::span(last).first(3)));
  ASSERT_TRUE(writer->finish().ok());

  struct stat info {};

  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_GT(info.st_size, int64_t{5} << 30);
  EXPECT_LT(info.st_blocks * 512, 1 << 20);
  const auto file = TorchFile::open(path);
  ASSERT_TRUE(file.has_value()) << file.error().message();
  std::vector<std::byte> found(4);
  const TensorView& view = *file->tensor(file->tensor_nodes()[0]);
  ASSERT_TRUE(file->read_elements(view, view.numel() - 1, found).ok());
  EXPECT_EQ(found, last);
  EXPECT_GT(file->storages()[1].file_offset, uint64_t{5} << 30);
  ASSERT_TRUE(file->read_storage(1, 0, std::span(found).first(3)).ok());
  EXPECT_EQ(file->storages()[0].crc,
            io::crc32_combine(io::crc32_of_zeros(big - 4), io::crc32(last), 4));
}

TEST(TorchFileWriter, AlignsEveryStorageTo64Bytes) {
  for (const uint64_t size : {0, 1, 63, 64, 65, 1000}) {
    TorchFileContent content;
    std::vector<PickleId> tensors;
    for (int i = 0; i < 12; ++i) {
      content.add_storage(DType::kUint8, size);
      tensors.push_back(content.add_tensor(i, {static_cast<int64_t>(size)}));
    }
    content.root = content.graph().add_list(tensors);
    for (const uint64_t offset : layout_of(content).storage_offsets) EXPECT_EQ(offset % 64, 0u);
  }
}

TEST(TorchFileWriter, RefusesAnExistingFile) {
  const test::TempFolder folder;
  test::write_file(folder.path("out.pt"), "mine");
  const TorchFileContent content = one_tensor(1);
  const auto writer = TorchFileWriter::create(folder.path("out.pt"), content, layout_of(content));
  ASSERT_FALSE(writer.has_value());
  EXPECT_EQ(writer.error().code(), StatusCode::kIoError);
  EXPECT_EQ(test::read_file(folder.path("out.pt")), "mine");
}

TEST(TorchFileWriter, RefusesWritesOutsideAStorage) {
  const test::TempFolder folder;
  const TorchFileContent content = one_tensor(2);
  const auto writer = TorchFileWriter::create(folder.path("out.pt"), content, layout_of(content));
  ASSERT_TRUE(writer.has_value());
  const auto bytes = bytes_counting(8);
  EXPECT_EQ(writer->write(0, 1, bytes).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(writer->write(0, UINT64_MAX, bytes).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(writer->write(1, 0, bytes).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(writer->write(-1, 0, bytes).code(), StatusCode::kOutOfRange);
  EXPECT_TRUE(writer->write(0, 0, bytes).ok());
}

TEST(TorchFileWriter, DoesNotFinishWithoutEveryCrc) {
  const test::TempFolder folder;
  const TorchFileContent content = one_tensor(2);
  auto writer = TorchFileWriter::create(folder.path("out.pt"), content, layout_of(content));
  ASSERT_TRUE(writer.has_value());
  const Status status = writer->finish();
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("storage 0: its CRC was not set"));
}

TEST(TorchFileWriter, RefusesLiteralContentOfAnotherSize) {
  TorchFileContent content;
  content.add_storage(DType::kFloat32, 8, bytes_counting(7));
  content.root = content.add_tensor(0, {2});
  EXPECT_EQ(lay_out(content, "name").error().code(), StatusCode::kInvalidArgument);
}

TEST(TorchFileWriter, RefusesNamesThatAreNoFolder) {
  const TorchFileContent content = one_tensor(1);
  for (const std::string& name : {std::string(), std::string("a/b"), std::string(".."),
                                  std::string("a\\b"), std::string("a\0b", 3)}) {
    EXPECT_EQ(lay_out(content, name).error().code(), StatusCode::kInvalidArgument) << name;
  }
}

TEST(TorchFileWriter, SaysWhenTheDeviceIsFull) {
  const test::TempFolder folder;
  const TorchFileContent content = one_tensor(1 << 20);
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto writer = TorchFileWriter::create(folder.path("out.pt"), content, layout_of(content));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, old_handler);
  ASSERT_FALSE(writer.has_value());
  EXPECT_EQ(writer.error().code(), StatusCode::kResourceExhausted) << writer.error().message();
}

}  // namespace
}  // namespace meg::checkpoint

#include "libmeg/checkpoint/dialects/mp_rank/training_args.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/container/zip_bytes.h"
#include "tests/temp_folder.h"

namespace meg::checkpoint {
namespace {

using ::testing::HasSubstr;

/// A string of a pickle.
std::string text(std::string_view content) {
  const auto size = static_cast<uint32_t>(content.size());
  return "X" + std::string(reinterpret_cast<const char*>(&size), sizeof(size)) +
         std::string(content);
}

/// A dict of args as torch.save keeps it: "first" with `value`, which is then remembered, and
/// `names` more that name it.
Result<TorchFile> file_of(const std::string& path, const std::string& value, int names) {
  std::string pickle = "\x80\x02}(" + text("first") + value + std::string("q\x05", 2);
  for (int i = 0; i < names; ++i) pickle += text("arg_" + std::to_string(i)) + "h\x05";
  test::ZipBytes zip;
  zip.add("archive/data.pkl", pickle + "u.");
  zip.add("archive/version", "3\n");
  zip.finish();
  test::write_file(path, zip.bytes);
  return TorchFile::open(path);
}

TEST(TrainingArgs, MayShareATextAndLists) {
  const test::TempFolder folder;
  const auto file = file_of(folder.path("shared.pt"), "(" + text("word") + "K\x07l", 100);
  ASSERT_TRUE(file.has_value()) << file.error().message();
  const auto args = read_training_args(*file, file->root());
  ASSERT_TRUE(args.has_value()) << args.error().message();
  EXPECT_EQ(args->entries().size(), 101u);
  const ArgValue* last = args->find("arg_99");
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(std::get<ArgValue::List>(last->value).size(), 2u);
}

TEST(TrainingArgs, AreRefusedWhereTheyGrowBeyondTheirFile) {
  const test::TempFolder folder;
  // Ten times as long at each of seven lists inside each other.
  std::string nested = text("word");
  for (char memo = 10; memo < 17; ++memo) {
    nested = "(" + nested + "q" + memo;
    for (int i = 0; i < 9; ++i) nested += std::string("h") + memo;
    nested += "l";
  }
  for (const std::string& value : {text(std::string(100'000, 'x')), nested}) {
    const auto file = file_of(folder.path("grows.pt"), value, 20'000);
    ASSERT_TRUE(file.has_value()) << file.error().message();
    ASSERT_LT(file->size(), 1u << 20);
    const auto args = read_training_args(*file, file->root());
    ASSERT_FALSE(args.has_value());
    EXPECT_EQ(args.error().code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(args.error().message(), HasSubstr("grows.pt: args: expected values of at most "));
  }
}

}  // namespace
}  // namespace meg::checkpoint

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "libmeg/base/bytes.h"
#include "libmeg/checkpoint/container/safetensors/safetensors_file.h"
#include "libmeg/checkpoint/container/safetensors/shard_index.h"
#include "tests/temp_folder.h"

namespace meg::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string file_bytes(const std::string& json, size_t data_bytes) {
  std::string bytes(8, '\0');
  store_le(bytes.data(), static_cast<uint64_t>(json.size()));
  return bytes + json + std::string(data_bytes, 'x');
}

Result<SafetensorsFile> open_bytes(const test::TempFolder& folder, const std::string& bytes) {
  const std::string path = folder.path("a.safetensors");
  test::write_file(path, bytes);
  return SafetensorsFile::open(path);
}

TEST(Safetensors, ReadsNamesTypesShapesAndMetadata) {
  const test::TempFolder folder;
  const auto file = open_bytes(
      folder, file_bytes(R"({"__metadata__":{"format":"pt"},)"
                         R"("b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
                         R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                         R"("none":{"dtype":"I64","shape":[0,7],"data_offsets":[4,4]}}   )",
                         16));
  ASSERT_TRUE(file.has_value()) << file.error().message();
  const SafetensorsHeader& header = file->header();
  EXPECT_THAT(header.metadata, ElementsAre(std::pair("format", "pt")));
  ASSERT_EQ(header.tensors.size(), 3);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].dtype, DType::kFloat32);
  EXPECT_THAT(header.tensors[0].shape, ElementsAre());
  EXPECT_EQ(header.tensors[1].name, "none");
  EXPECT_EQ(header.tensors[1].bytes, 0);
  EXPECT_EQ(header.tensors[2].name, "b");
  EXPECT_THAT(header.tensors[2].shape, ElementsAre(2, 3));
  EXPECT_EQ(header.tensors[2].bytes, 12);
}

struct Attack {
  std::string_view name;
  std::string json;
  size_t data_bytes;
  std::string_view message;
};

std::string one_tensor(const std::string& fields) { return R"({"a":{)" + fields + "}}"; }

TEST(Safetensors, RefusesHeadersThatBreakTheFormat) {
  const std::string f32 = R"("dtype":"F32","shape":[2])";
  const Attack attacks[] = {
      {"no object", "[]", 0, "header: expected {, found \"[\""},
      {"empty", "", 0, "header: expected {"},
      {"blank in front", " {}", 0, "header: expected {"},
      {"no JSON", "{", 0, "header: expected JSON"},
      {"behind the object", "{}{}", 0, "header: expected JSON"},
      {"not UTF-8", "{\"\xff\":1}", 0, "header: expected JSON"},
      {"deep", "{\"a\":" + std::string(5000, '['), 0, "header: expected JSON"},
      {"tensor is no object", R"({"a":[]})", 0, "\"a\": expected an object, found a list"},
      {"name twice",
       "{" + std::string(R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)") +
           R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
       0, "\"a\": expected it once, found it twice"},
      {"name twice by an escape",
       R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
       R"("\u0061":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
       0, "\"a\": expected it once, found it twice"},
      {"field twice", one_tensor(R"("dtype":"F32","dtype":"F32","data_offsets":[0,8])"), 8,
       "\"dtype\": expected it once"},
      {"field missing", one_tensor(f32), 8, "found 2 of them"},
      {"field unknown", one_tensor(f32 + R"(,"offset":1)"), 8, "found \"offset\""},
      {"type unknown", one_tensor(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])"), 8,
       "dtype: expected a type that libmeg reads, found \"F33\""},
      {"type is a number", one_tensor(R"("dtype":4,"shape":[2],"data_offsets":[0,8])"), 8,
       "dtype: expected a text, found 4"},
      {"shape negative", one_tensor(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), 8,
       "shape: expected sizes of at least 0, found -2"},
      {"shape broken", one_tensor(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), 8,
       "shape: expected sizes of at least 0, found 2.0"},
      {"shape overflows",
       one_tensor(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])"), 8,
       "expected countable bytes"},
      {"shape overflows to what is there",
       one_tensor(R"("dtype":"F32","shape":[4611686018427387906],"data_offsets":[0,8])"), 8,
       "expected countable bytes"},
      {"product is not the range", one_tensor(f32 + R"(,"data_offsets":[0,12])"), 12,
       "expected 8 bytes for float32 [2], found 12"},
      {"offsets past the end", one_tensor(f32 + R"(,"data_offsets":[0,8])"), 7,
       "expected a range within the file's 7 data bytes, found [0, 8]"},
      {"offsets backwards", one_tensor(f32 + R"(,"data_offsets":[8,0])"), 8, "found [8, 0]"},
      {"offsets huge",
       one_tensor(f32 + R"(,"data_offsets":[18446744073709551608,18446744073709551615])"), 8,
       "expected a range within the file's 8 data bytes"},
      {"offsets of three", one_tensor(f32 + R"(,"data_offsets":[0,4,8])"), 8,
       "data_offsets: expected two numbers of at least 0, found \"[0,4,8]\""},
      {"overlap",
       R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
       R"("b":{"dtype":"U8","shape":[8],"data_offsets":[4,12]}})",
       12, "\"b\": data_offsets: expected to begin at 8, where the previous tensor ends, found 4"},
      {"the same bytes twice",
       R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
       R"("b":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
       8, "expected to begin at 8"},
      {"hole",
       R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
       R"("b":{"dtype":"U8","shape":[4],"data_offsets":[8,12]}})",
       12, "expected to begin at 4"},
      {"hole in front", one_tensor(R"("dtype":"U8","shape":[4],"data_offsets":[4,8])"), 8,
       "expected to begin at 0"},
      {"data behind the last", one_tensor(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])"), 8,
       "expected 4 bytes after the header, found 8"},
      {"data without tensors", "{}", 8, "expected 0 bytes after the header, found 8"},
      {"metadata is no text", R"({"__metadata__":{"format":1}})", 0,
       "\"format\": expected a text, found 1"},
      {"metadata nested", R"({"__metadata__":{"format":{}}})", 0, "found an object"},
      {"metadata is no object", R"({"__metadata__":"pt"})", 0, "expected an object"},
      {"metadata twice", R"({"__metadata__":{},"__metadata__":{}})", 0, "expected it once"},
      {"metadata key twice", R"({"__metadata__":{"a":"1","a":"2"}})", 0, "expected it once"}};
  const test::TempFolder folder;
  for (const Attack& attack : attacks) {
    const auto file = open_bytes(folder, file_bytes(attack.json, attack.data_bytes));
    ASSERT_FALSE(file.has_value()) << attack.name;
    EXPECT_THAT(file.error().message(), HasSubstr(std::string(attack.message))) << attack.name;
    EXPECT_THAT(file.error().message(), Not(HasSubstr("\n"))) << attack.name;
    EXPECT_EQ(file.error().code(), StatusCode::kCorruption) << attack.name;
  }
}

TEST(Safetensors, NamesTypesThatItDoesNotRead) {
  const test::TempFolder folder;
  const auto file = open_bytes(
      folder, file_bytes(one_tensor(R"("dtype":"F4","shape":[2],"data_offsets":[0,1])"), 1));
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code(), StatusCode::kUnsupported);
  EXPECT_THAT(file.error().message(), HasSubstr("found \"F4\""));
}

TEST(Safetensors, RefusesHeaderLengthsPastTheFileOrTheLimit) {
  const test::TempFolder folder;
  for (const uint64_t length : {uint64_t{3}, uint64_t{1} << 40, UINT64_MAX, UINT64_MAX - 7}) {
    std::string bytes = file_bytes("{}", 0);
    store_le(bytes.data(), length);
    const auto file = open_bytes(folder, bytes);
    ASSERT_FALSE(file.has_value()) << length;
    EXPECT_THAT(file.error().message(), HasSubstr("header length: expected up to 2 "));
  }
  for (const std::string& bytes : {std::string(), std::string(7, '\0')}) {
    const auto file = open_bytes(folder, bytes);
    ASSERT_FALSE(file.has_value());
    EXPECT_THAT(file.error().message(), HasSubstr("expected 8 bytes of header length"));
  }
  // A sparse file that is long enough.
  const std::string path = folder.path("long.safetensors");
  test::write_file(path, file_bytes("{}", 0));
  std::filesystem::resize_file(path, kMaxSafetensorsHeader + 100);
  std::string head(8, '\0');
  store_le(head.data(), kMaxSafetensorsHeader + 1);
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << head;
  const auto file = SafetensorsFile::open(path);
  ASSERT_FALSE(file.has_value());
  EXPECT_THAT(file.error().message(), HasSubstr("and 100000000, found 100000001"));
}

TEST(Safetensors, ReadsWhatItWrote) {
  const test::TempFolder folder;
  const std::vector<SafetensorsTensor> tensors = {
      {.name = "small", .dtype = DType::kUint8, .shape = {3}},
      {.name = "quote\" and \\ and \n", .dtype = DType::kFloat32, .shape = {}},
      {.name = "\u00fc", .dtype = DType::kBFloat16, .shape = {1, 2}},
      {.name = "empty", .dtype = DType::kInt64, .shape = {2, 0}}};
  const std::vector<std::string> contents = {"abc", "0123", "wxyz", ""};
  const std::vector<std::pair<std::string, std::string>> metadata = {{"format", "pt"}};
  const auto layout = lay_out_safetensors(tensors, metadata);
  ASSERT_TRUE(layout.has_value()) << layout.error().message();
  EXPECT_EQ(layout->head.size() % 8, 0);
  const std::string path = folder.path("a.safetensors");
  auto writer = SafetensorsWriter::create(path, *layout);
  ASSERT_TRUE(writer.has_value()) << writer.error().message();
  for (size_t i = 0; i < contents.size(); ++i) {
    ASSERT_TRUE(writer->write(i, 0, std::as_bytes(std::span(contents[i]))).ok());
  }
  const std::byte extra{1};
  EXPECT_EQ(writer->write(0, 3, std::span(&extra, 1)).code(), StatusCode::kOutOfRange);
  ASSERT_TRUE(writer->finish().ok());

  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.has_value()) << file.error().message();
  EXPECT_EQ(file->header().metadata, metadata);
  ASSERT_EQ(file->header().tensors.size(), tensors.size());
  for (const SafetensorsTensor& found : file->header().tensors) {
    const auto wanted = std::find_if(tensors.begin(), tensors.end(),
                                     [&](const auto& t) { return t.name == found.name; });
    ASSERT_NE(wanted, tensors.end()) << found.name;
    EXPECT_EQ(found.dtype, wanted->dtype);
    EXPECT_EQ(found.shape, wanted->shape);
    std::string bytes(found.bytes, '\0');
    ASSERT_TRUE(file->read(found, 0, std::as_writable_bytes(std::span(bytes))).ok());
    EXPECT_EQ(bytes, contents[static_cast<size_t>(wanted - tensors.begin())]);
    std::byte past{};
    EXPECT_EQ(file->read(found, found.bytes, std::span(&past, 1)).code(), StatusCode::kOutOfRange);
  }
}

TEST(Safetensors, RefusesToWriteWhatNoReaderWouldTake) {
  const auto status = [](std::vector<SafetensorsTensor> tensors) {
    return lay_out_safetensors(tensors, {}).status().code();
  };
  EXPECT_EQ(status({{.name = "a", .shape = {1}}, {.name = "a", .shape = {2}}}),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(status({{.name = "__metadata__", .shape = {1}}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(status({{.name = "\xff", .shape = {1}}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(status({{.name = "a", .dtype = DType::kComplex128, .shape = {1}}}),
            StatusCode::kUnsupported);
  EXPECT_EQ(status({{.name = "a", .shape = {int64_t{1} << 60, 8}}}), StatusCode::kOutOfRange);
}

TEST(ShardIndex, ReadsTheFilesOfTensors) {
  const auto index = parse_shard_index(
      R"({"metadata":{"total_size":1.5},"weight_map":{"b":"2.bin","a":"1.bin","c":"2.bin"}})", "i");
  ASSERT_TRUE(index.has_value()) << index.error().message();
  EXPECT_THAT(index->file_names(), ElementsAre("1.bin", "2.bin"));
  EXPECT_EQ(index->files.at("c"), "2.bin");
  const auto again = parse_shard_index(shard_index_json(*index, 12, 3), "again");
  ASSERT_TRUE(again.has_value()) << again.error().message();
  EXPECT_EQ(again->files, index->files);
}

TEST(ShardIndex, RefusesNamesThatLeadElsewhereAndWhatIsNoIndex) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"({"weight_map":{"a":"../x.safetensors"}})", "found \"../x.safetensors\""},
      {R"({"weight_map":{"a":"/etc/passwd"}})", "found \"/etc/passwd\""},
      {R"({"weight_map":{"a":"sub/x"}})", "expected the name of a file beside the index"},
      {R"({"weight_map":{"a":"x\u0000y"}})", "found \"x\\x00y\""},
      {R"({"weight_map":{"a":".."}})", "found \"..\""},
      {R"({"weight_map":{"a":""}})", "found \"\""},
      {R"({"weight_map":{"a":7}})", "found 7"},
      {R"({"weight_map":{"a":"1.bin","a":"2.bin"}})", "\"a\": expected it once, found it twice"},
      {R"({"weight_map":{"a":"1.bin"},"weight_map":{}})", "expected it once"},
      {R"({"weight_map":{}})", "found none"},
      {R"({"weight_map":[]})", "expected an object, found a list"},
      {R"({})", "found none"},
      {"[]", "expected a JSON object, found a list"},
      {"", "expected JSON"}};
  for (const auto& [json, message] : cases) {
    const auto index = parse_shard_index(json, "index.json");
    ASSERT_FALSE(index.has_value()) << json;
    EXPECT_EQ(index.error().code(), StatusCode::kCorruption) << json;
    EXPECT_THAT(index.error().message(), HasSubstr(std::string(message)));
    EXPECT_THAT(index.error().message(), HasSubstr("index.json: "));
  }
}

TEST(ShardIndex, FillsShardsUpToTheirSize) {
  EXPECT_THAT(split_into_shards(std::vector<uint64_t>{4, 4, 2, 9, 0, 1, 8}, 8),
              ElementsAre(0, 0, 1, 2, 3, 3, 4));
  EXPECT_THAT(split_into_shards(std::vector<uint64_t>{9, 1}, 8), ElementsAre(0, 1));
  EXPECT_EQ(shard_file_name(0, 1), "model.safetensors");
  EXPECT_EQ(shard_file_name(1, 5), "model-00002-of-00005.safetensors");
}

}  // namespace
}  // namespace meg::checkpoint

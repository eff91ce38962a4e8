#include "libmeg/checkpoint/container/torch_dist/internal/dist_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "libmeg/checkpoint/state/assembled_source.h"
#include "tests/shared_data.h"

namespace meg::checkpoint {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::string kCases = "oracle/checkpoints";

json read_json(const std::string& path) { return json::parse(std::ifstream(path)); }

/// The iteration folders of all torch_dist checkpoints that the real Megatron wrote.
std::vector<std::filesystem::path> golden_folders() {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(test::shared_path(kCases))) {
    const std::filesystem::path folder = entry.path() / "iter_0000200";
    if (std::filesystem::exists(folder / kDistMetadataFile)) found.push_back(folder);
  }
  return found;
}

TEST(DistFolder, DescribesEveryGoldenFolderAsTorchDoes) {
  MEG_REQUIRE_SHARED(kCases);
  size_t checked = 0;
  for (const std::filesystem::path& path : golden_folders()) {
    SCOPED_TRACE(path.string());
    const auto folder = DistFolder::open(path.string());
    ASSERT_TRUE(folder.has_value()) << folder.error().message();
    const json expected = read_json((path.parent_path() / "dcp_metadata.json").string());
    std::map<std::pair<std::string, json>, json> places;
    for (const json& place : expected["storage"]) {
      places[{place["key"], place["offset"]}] = place;
    }
    const auto expect_place = [&](const std::string& name, const json& offset,
                                  const DistBlob& blob) {
      const json& place = places[{name, offset}];
      EXPECT_EQ(place["file"], folder->metadata().files[static_cast<size_t>(blob.file)]);
      EXPECT_EQ(place["at"], blob.offset);
      EXPECT_EQ(place["length"], blob.length);
      ++checked;
    };
    EXPECT_EQ(folder->metadata().tensors.size() + folder->metadata().objects.size(),
              expected["items"].size());
    for (const DistObject& object : folder->metadata().objects) {
      EXPECT_EQ(expected["items"][object.name]["kind"], "BytesStorageMetadata");
      expect_place(object.name, nullptr, object.blob);
      EXPECT_TRUE(folder->read_value(object.blob, object.name).has_value()) << object.name;
    }
    for (const DistTensor& tensor : folder->metadata().tensors) {
      const json& item = expected["items"][tensor.name];
      EXPECT_EQ(item["shape"], tensor.shape);
      EXPECT_EQ(item["dtype"], dtype_name(tensor.dtype));
      ASSERT_EQ(item["chunks"].size(), tensor.chunks.size());
      for (size_t i = 0; i < tensor.chunks.size(); ++i) {
        EXPECT_EQ(item["chunks"][i]["offsets"], tensor.chunks[i].offsets);
        EXPECT_EQ(item["chunks"][i]["sizes"], tensor.chunks[i].sizes);
        expect_place(tensor.name, tensor.chunks[i].offsets, tensor.chunks[i].blob);
      }
    }
  }
  EXPECT_GT(checked, 100U);
}

TEST(DistMetadata, ReadsWhatItWrites) {
  DistMetadata metadata;
  metadata.files = {"__0_0.distcp", "sub/__1_0.distcp"};
  metadata.tensors.push_back({"a.weight",
                              DType::kBFloat16,
                              {2, 3},
                              {{{1, 0}, {1, 3}, {1, 7, 9}}, {{0, 0}, {1, 3}, {0, 0, 7}}}});
  metadata.tensors.push_back({"scalar", DType::kInt64, {}, {{{}, {}, {1, int64_t{1} << 40, 80}}}});
  metadata.objects.push_back({"rng_state/shard_0.0_1.1", {0, 90, 10}});
  const auto bytes = write_dist_metadata(metadata);
  ASSERT_TRUE(bytes.has_value()) << bytes.error().message();
  PickleBudget budget(bytes->size());
  const auto read = read_dist_metadata(*bytes, "memory", &budget);
  ASSERT_TRUE(read.has_value()) << read.error().message();
  ASSERT_EQ(read->tensors.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read->tensors[i].name, metadata.tensors[i].name);
    EXPECT_EQ(read->tensors[i].dtype, metadata.tensors[i].dtype);
    EXPECT_EQ(read->tensors[i].shape, metadata.tensors[i].shape);
    ASSERT_EQ(read->tensors[i].chunks.size(), metadata.tensors[i].chunks.size());
    for (size_t k = 0; k < read->tensors[i].chunks.size(); ++k) {
      EXPECT_EQ(read->tensors[i].chunks[k].offsets, metadata.tensors[i].chunks[k].offsets);
      EXPECT_EQ(read->tensors[i].chunks[k].sizes, metadata.tensors[i].chunks[k].sizes);
      const DistBlob& found = read->tensors[i].chunks[k].blob;
      const DistBlob& expected = metadata.tensors[i].chunks[k].blob;
      EXPECT_EQ(read->files[static_cast<size_t>(found.file)],
                metadata.files[static_cast<size_t>(expected.file)]);
      EXPECT_EQ(found.offset, expected.offset);
      EXPECT_EQ(found.length, expected.length);
    }
  }
  ASSERT_EQ(read->objects.size(), 1U);
  EXPECT_EQ(read->objects[0].name, metadata.objects[0].name);
  EXPECT_EQ(read->objects[0].blob.offset, 90U);
}

/// A copy of a golden folder that a test may damage.
class DamagedFolder : public testing::Test {
 protected:
  void SetUp() override {
    const std::string source = kCases + "/dist_llama_tp2pp2_bf16_model/iter_0000200";
    MEG_REQUIRE_SHARED(source);
    folder_ = std::filesystem::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    for (const auto& entry : std::filesystem::directory_iterator(test::shared_path(source))) {
      const std::filesystem::path copy = folder_ / entry.path().filename();
      std::filesystem::copy_file(entry.path(), copy);
      std::filesystem::permissions(copy, std::filesystem::perms::owner_all);
    }
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Replaces the first `from` in a file by `to`, which is as long.
  void replace(const std::string& file, const std::string& from, const std::string& to) {
    std::string bytes = read(file);
    const size_t at = bytes.find(from);
    ASSERT_NE(at, std::string::npos);
    bytes.replace(at, from.size(), to);
    std::ofstream(folder_ / file, std::ios::binary) << bytes;
  }

  std::string read(const std::string& file) {
    std::ifstream in(folder_ / file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  Status open() { return DistFolder::open(folder_.string()).status(); }

  std::filesystem::path folder_;
};

TEST_F(DamagedFolder, NamesAMissingFile) {
  std::filesystem::remove(folder_ / "__2_1.distcp");
  EXPECT_EQ(open().code(), StatusCode::kNotFound);
  EXPECT_THAT(open().message(), HasSubstr("__2_1.distcp"));
}

TEST_F(DamagedFolder, NamesAFileThatIsCutShort) {
  std::filesystem::resize_file(folder_ / "__1_0.distcp", 20000);
  EXPECT_EQ(open().code(), StatusCode::kCorruption);
  EXPECT_THAT(open().message(), testing::ContainsRegex("__1_0.distcp: .*found 20000 in all"));
}

TEST_F(DamagedFolder, RefusesAFileOutsideTheFolder) {
  replace(".metadata", "__0_0.distcp", "../_0.distcp");
  EXPECT_EQ(open().code(), StatusCode::kCorruption);
  EXPECT_THAT(open().message(), HasSubstr("expected a file below the folder"));
}

TEST_F(DamagedFolder, RefusesAnotherForm) {
  replace("metadata.json", "torch_dist", "zarr_dists");
  EXPECT_EQ(open().code(), StatusCode::kUnsupported);
  EXPECT_THAT(open().message(), HasSubstr("zarr_dists"));
}

TEST_F(DamagedFolder, RefusesAFormThatIsEmptyOrTooLarge) {
  for (const size_t size : {size_t{0}, size_t{2} << 20}) {
    std::filesystem::resize_file(folder_ / "metadata.json", size);
    EXPECT_EQ(open().code(), StatusCode::kCorruption) << size;
    EXPECT_THAT(open().message(), HasSubstr("metadata.json: expected a JSON object")) << size;
  }
}

TEST_F(DamagedFolder, RefusesAnItemWithoutAPlace) {
  replace(".metadata", "decoder.final_layernorm.weight", "decoder.final_layernorm.weighs");
  EXPECT_EQ(open().code(), StatusCode::kCorruption);
}

TEST_F(DamagedFolder, FindsDamagedElementsByTheirCrc) {
  const auto folder = DistFolder::open(folder_.string());
  ASSERT_TRUE(folder.has_value());
  const DistTensor& tensor = folder->metadata().tensors[0];
  const auto source = folder->box_source(tensor, Box::whole(tensor.shape));
  ASSERT_TRUE(source.has_value());
  const RecordedCrc crc = (*source)->recorded_crcs()[0];
  std::fstream file(crc.extent.file->path(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(crc.extent.offset) + 7);
  file.put('!');
  file.close();
  EXPECT_EQ(check_recorded_crcs(**source).code(), StatusCode::kCorruption);
}

DistTensor tensor_of(std::vector<int64_t> shape, std::vector<Box> boxes) {
  DistTensor tensor{.name = "t", .dtype = DType::kFloat32, .shape = std::move(shape), .chunks = {}};
  for (Box& box : boxes) tensor.chunks.push_back({box.offsets, box.sizes, {}});
  return tensor;
}

TEST(DistChunks, CoverTheirTensorOnce) {
  EXPECT_TRUE(check_chunks(tensor_of({}, {{{}, {}}})).ok());
  EXPECT_TRUE(check_chunks(tensor_of({0, 3}, {})).ok());
  EXPECT_TRUE(check_chunks(tensor_of({4, 6}, {{{0, 0}, {4, 6}}})).ok());
  // These lie around a corner, as data-parallel ranks cut.
  EXPECT_TRUE(
      check_chunks(
          tensor_of({4, 6},
                    {{{0, 0}, {1, 6}}, {{1, 0}, {1, 2}}, {{1, 2}, {1, 4}}, {{2, 0}, {2, 6}}}))
          .ok());
}

TEST(DistChunks, AreRefusedWhereTheyDoNot) {
  const auto message = [](std::vector<int64_t> shape, std::vector<Box> boxes) {
    return check_chunks(tensor_of(std::move(shape), std::move(boxes))).message();
  };
  EXPECT_THAT(message({}, {}), HasSubstr("missing"));
  EXPECT_THAT(message({4, 6}, {{{0, 0}, {3, 6}}}), HasSubstr("missing"));
  EXPECT_THAT(message({4, 6}, {{{0, 0}, {4, 6}}, {{1, 1}, {1, 1}}}), HasSubstr("overlap"));
  EXPECT_THAT(message({4, 6}, {{{0, 0}, {3, 6}}, {{2, 0}, {1, 6}}}), HasSubstr("gaps"));
  EXPECT_THAT(message({4, 6}, {{{0, 0}, {2, 6}}, {{0, 0}, {2, 6}}}), HasSubstr("gaps"));
  EXPECT_THAT(message({4, 6}, {{{0, 1}, {4, 6}}}), HasSubstr("inside its shape [4, 6]"));
  EXPECT_THAT(message({4, 6}, {{{0}, {4}}}), HasSubstr("inside its shape [4, 6]"));
  EXPECT_THAT(message({INT64_MAX, 2}, {}), HasSubstr("2^63"));
  EXPECT_THAT(message({int64_t{1} << 62}, {}), HasSubstr("2^63"));
  EXPECT_THAT(message({1, 1, 1, 1, 1, 1, 1, 1, 1}, {}), HasSubstr("dimensions"));
}

}  // namespace
}  // namespace meg::checkpoint

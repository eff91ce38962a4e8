#include "libmeg/checkpoint/verify/checkpoint_manifest.h"

#include <gmock/gmock.h>

#include <string>

#include "tests/checkpoint/verify/damaged_copy.h"

namespace meg::checkpoint {
namespace {

using ::testing::HasSubstr;

Manifest manifest_of(const std::string& path, const ManifestOptions& options = {}) {
  const Result<Manifest> made = make_manifest(test::open_whole(path), options);
  EXPECT_TRUE(made.has_value()) << made.error().message();
  return made.has_value() ? *made : Manifest();
}

ManifestReport check(const std::string& path, const Manifest& manifest,
                     const ManifestOptions& options = {}) {
  const Result<ManifestReport> report = check_manifest(test::open_whole(path), manifest, options);
  EXPECT_TRUE(report.has_value()) << report.error().message();
  return report.has_value() ? *report : ManifestReport();
}

TEST(Manifest, IsTheSameInEveryLayout) {
  for (const char* run : {"tp2pp2", "pp2_vpp2", "distopt_tp2_dp2"}) {
    const Manifest manifest = manifest_of(test::core_checkpoint(std::string(run) + "/ranks"));
    EXPECT_EQ(manifest.iteration, 2);
    const ManifestReport report =
        check(test::core_checkpoint(std::string(run) + "/whole"), manifest);
    EXPECT_TRUE(report.ok()) << run << ": " << report.problems[0].message();
    EXPECT_EQ(report.tensors, std::ssize(manifest.tensors));
  }
}

TEST(Manifest, NamesWhatChangedIsMissingAndExtra) {
  const std::string ranks = test::core_checkpoint("tp2pp2/ranks");
  Manifest manifest = manifest_of(ranks);
  std::swap(manifest.tensors[0].digests, manifest.tensors[1].digests);
  const ManifestTensor removed = manifest.tensors.back();
  manifest.tensors.back().name = "decoder.layers.9.mlp.linear_fc2.bias";
  const ManifestReport report = check(ranks, manifest);
  std::vector<std::pair<std::string, std::string>> found;
  for (const Problem& problem : report.problems) {
    found.emplace_back(problem.check, problem.subject);
  }
  const auto subject = [](const ManifestTensor& tensor) { return tensor.name + " " + tensor.kind; };
  EXPECT_THAT(
      found, ::testing::UnorderedElementsAre(std::pair("changed", subject(manifest.tensors[0])),
                                             std::pair("changed", subject(manifest.tensors[1])),
                                             std::pair("missing", subject(manifest.tensors.back())),
                                             std::pair("extra", subject(removed))));
}

TEST(Manifest, ADamagedFileIsNotDigested) {
  test::DamagedCopy copy;
  copy.set_element("mp_rank_00_001", "model/decoder.final_layernorm.weight", 0, 5.0F);
  const Result<Manifest> made = make_manifest(test::open_whole(copy.root()), {});
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code(), StatusCode::kCorruption);
  EXPECT_THAT(made.error().message(), HasSubstr(copy.file("mp_rank_00_001")));
}

TEST(Manifest, LeavesTheOptimizerOutWhereAsked) {
  const std::string ranks = test::core_checkpoint("tp2pp2/ranks");
  for (const ManifestTensor& tensor : manifest_of(ranks, {.include_optimizer = false}).tensors) {
    EXPECT_EQ(tensor.kind, "weight") << tensor.name;
  }
}

TEST(Manifest, DigestsAVocabularyWithoutItsPadding) {
  test::DamagedCopy copy("tp2pp2/whole");
  copy.set_element("mp_rank_00", "model/embedding.word_embeddings.weight", 31 * 8, 5.0F);
  const ManifestOptions padded = {.digest = {.check_crcs = false}};
  ManifestOptions unpadded = padded;
  unpadded.vocab_size = 31;
  const std::string ranks = test::core_checkpoint("tp2pp2/ranks");
  EXPECT_FALSE(check(copy.root(), manifest_of(ranks), padded).ok());
  EXPECT_TRUE(check(copy.root(), manifest_of(ranks, unpadded), padded).ok());
  unpadded.vocab_size = 33;
  EXPECT_EQ(make_manifest(test::open_whole(ranks), unpadded).error().code(),
            StatusCode::kInvalidArgument);
}

TEST(ManifestFile, IsReadAsItWasWritten) {
  const test::TempFolder folder;
  const std::string ranks = test::core_checkpoint("tp2pp2/ranks");
  const Manifest manifest = manifest_of(ranks, {.vocab_size = 30});
  ASSERT_TRUE(write_manifest(folder.path("manifest"), manifest).ok());
  const Result<Manifest> read = read_manifest(folder.path("manifest"));
  ASSERT_TRUE(read.has_value()) << read.error().message();
  EXPECT_EQ(read->iteration, manifest.iteration);
  EXPECT_EQ(read->vocab_size, 30);
  ASSERT_EQ(read->tensors.size(), manifest.tensors.size());
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    const ManifestTensor &found = read->tensors[i], &want = manifest.tensors[i];
    EXPECT_EQ(found.name, want.name);
    EXPECT_EQ(found.kind, want.kind);
    EXPECT_EQ(found.dtype, want.dtype);
    EXPECT_EQ(found.shape, want.shape);
    EXPECT_EQ(found.block_rows, want.block_rows);
    EXPECT_EQ(found.digests, want.digests);
  }
}

TEST(ManifestFile, RefusesWhatItCannotCompare) {
  const test::TempFolder folder;
  const std::string path = folder.path("manifest");
  EXPECT_EQ(read_manifest(path).error().code(), StatusCode::kNotFound);
  for (const char* text : {"", "{", "[]", "{}", "{\"schema\":\"1\"}", "{\"schema\":0}"}) {
    test::write_file(path, text);
    const Result<Manifest> read = read_manifest(path);
    ASSERT_FALSE(read.has_value()) << text;
    EXPECT_EQ(read.error().code(), StatusCode::kCorruption) << text;
    EXPECT_THAT(read.error().message(), ::testing::StartsWith(path)) << text;
  }
  for (const char* text :
       {"{\"schema\":99,\"digest\":\"xxh3_128\"}", "{\"schema\":1,\"digest\":\"md5\"}"}) {
    test::write_file(path, text);
    EXPECT_EQ(read_manifest(path).error().code(), StatusCode::kUnsupported) << text;
  }
}

}  // namespace
}  // namespace meg::checkpoint

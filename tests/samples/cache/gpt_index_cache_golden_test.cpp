// Every index cache that the real Megatron wrote: taken as it stands, and built again to the byte.

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "libmeg/samples/cache/gpt_index_cache.h"
#include "libmeg/samples/cache/internal/cache_sidecar.h"
#include "tests/samples/oracle_samples.h"
#include "tests/temp_folder.h"

namespace meg::samples {
namespace {

using nlohmann::json;

/// What a description says, whatever its form.
struct Described {
  std::string prefix, split_name, split;  // split: empty for none
  std::optional<int64_t> samples;
  int64_t sequence_length = 0;
  uint32_t seed = 0;
};

Described described_by_lines(const std::string& text) {
  std::istringstream lines(text);
  std::map<std::string, std::string> fields;
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.rfind(' ');
    if (space != std::string::npos) fields[line.substr(0, space)] = line.substr(space + 1);
  }
  const std::string& split = fields["Split"];
  return {.prefix = fields["Data prefix"],
          .split_name = fields["Dataset name"],
          .split = split == "None" ? "" : split,
          .samples = std::stoll(fields["Number of samples"]),
          .sequence_length = std::stoll(fields["Sequence length"]),
          .seed = static_cast<uint32_t>(std::stoul(fields["Random seed"]))};
}

Described described_by(const std::string& text) {
  if (!text.starts_with("{")) return described_by_lines(text);
  const json fields = json::parse(text);
  Described described;
  described.prefix =
      fields.contains("dataset_path") ? fields["dataset_path"] : fields["path_prefix"];
  std::string name = fields["index_split"];
  if (const size_t dot = name.rfind('.'); dot != std::string::npos) name.erase(0, dot + 1);
  described.split_name = name;
  if (!fields["split"].is_null()) described.split = fields["split"];
  if (!fields["num_samples"].is_null()) described.samples = fields["num_samples"].get<int64_t>();
  described.sequence_length = fields["sequence_length"];
  described.seed = fields["random_seed"];
  return described;
}

dataset::SequenceRange range_of(const Described& described, int64_t sequences,
                                const megatron::MegatronVersion& version) {
  if (described.split.empty()) return {.begin = 0, .end = sequences};
  const auto ranges = SplitWeights::parse(described.split, version)->ranges(sequences);
  for (const Split split : kSplits) {
    if (split_name(split) == described.split_name) return *ranges[split_number(split)];
  }
  ADD_FAILURE() << described.split_name;
  return {};
}

bool option(const json& index_case, const char* name) {
  const auto options = index_case.find("options");
  return options == index_case.end() || !options->is_object() || options->value(name, true);
}

/// The files of the description at `path` (a name without folder).
GptIndexCacheFiles files_in(const std::string& folder, const std::string& description) {
  const bool is_core = description.ends_with("-description.txt");
  const std::string start =
      folder + "/" + description.substr(0, description.size() - (is_core ? 15 : 4));
  const auto part = [&](const char* core, const char* legacy) {
    return start + (is_core ? core : legacy);
  };
  return {.description = folder + "/" + description,
          .indices = {.document_index = part("document_index.npy", "_doc_idx.npy"),
                      .sample_index = part("sample_index.npy", "_sample_idx.npy"),
                      .shuffle_index = part("shuffle_index.npy", "_shuffle_idx.npy")},
          .sidecar = folder + "/" + description.substr(0, 32) + "-libmeg.json"};
}

void check_cache(const json& index_case, const std::string& description) {
  SCOPED_TRACE(index_case["revision"].get<std::string>() + "/" +
               index_case["case"].get<std::string>() + "/" + description);
  const auto version = megatron::parse_megatron_version(index_case["revision"].get<std::string>());
  ASSERT_TRUE(version.has_value());
  const test::TempFolder folder;
  GptIndexCacheRequest request;
  request.places = {files_in(folder.path(), description)};
  const GptIndexCacheFiles& files = request.places[0];
  std::map<std::string, std::string> originals;
  for (const std::string& path : {files.description, files.indices.document_index,
                                  files.indices.sample_index, files.indices.shuffle_index}) {
    originals[path] = test::oracle_output(index_case, path.substr(folder.path().size() + 1));
    test::write_file(path, originals[path]);
  }
  request.description = originals[files.description];
  const Described described = described_by(request.description);
  const auto dataset = dataset::IndexedDataset::open(
      test::shared_path(std::string(test::kDatasetOracle) + "/" + described.prefix));
  ASSERT_TRUE(dataset.has_value()) << dataset.error().message();
  request.dataset = &*dataset;
  request.range = range_of(described, dataset->sequence_count(), *version);
  request.seed = described.seed;
  request.samples = described.samples;
  request.sequence_length = described.sequence_length;
  request.extra_token = option(index_case, "add_extra_token_to_sequence");
  request.drop_last_partial = described.split_name != "valid" ||
                              option(index_case, "drop_last_partial_validation_sequence");

  const auto found = open_gpt_index_cache(request, *version);
  ASSERT_TRUE(found.has_value()) << found.error().message();
  EXPECT_EQ(found->outcome, CacheOutcome::kFound) << found->reason;
  EXPECT_FALSE(std::filesystem::exists(files.sidecar)) << "nothing is added to others' caches";

  for (const auto& [path, bytes] : originals) std::filesystem::remove(path);
  const auto built = open_gpt_index_cache(request, *version);
  ASSERT_TRUE(built.has_value()) << built.error().message();
  EXPECT_EQ(built->outcome, CacheOutcome::kBuilt);
  for (const auto& [path, bytes] : originals) EXPECT_TRUE(test::read_file(path) == bytes) << path;
  EXPECT_EQ(folder.file_count(), 5);
  EXPECT_TRUE(read_sidecar(files.sidecar).has_value());
}

TEST(GptIndexCacheGolden, MegatronsCachesAreFoundAndBuiltAgain) {
  MEG_REQUIRE_SHARED("oracle/datasets/manifest.json");
  int caches = 0;
  for (const json& index_case : test::dataset_oracle()["index"]) {
    for (const json& output : index_case["outputs"]) {
      const std::string path = output["path"];
      const std::string name = path.substr(path.rfind('/') + 1);
      const bool is_core =
          name.find("-GPTDataset-") != std::string::npos && name.ends_with("-description.txt");
      if (!is_core && !name.ends_with(".dsc")) continue;
      if (test::oracle_output(index_case, name).starts_with("Blendable")) continue;
      check_cache(index_case, name);
      ++caches;
    }
  }
  EXPECT_GT(caches, 300);
}

}  // namespace
}  // namespace meg::samples

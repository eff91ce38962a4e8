// The sample index as Megatron's own compiled helper built it.

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "libmeg/numpy/npy.h"
#include "libmeg/samples/gpt_index_plan.h"
#include "libmeg/samples/internal/gpt_index_builder.h"
#include "tests/shared_data.h"
#include "tests/temp_folder.h"

namespace meg::samples {
namespace {

using nlohmann::json;

std::string oracle_path(const std::string& name) {
  return test::shared_path("oracle/datasets/" + name);
}

json read_json(const std::string& path) {
  std::ifstream file(path);
  return json::parse(file);
}

/// Where the bytes of each output of the index cases are stored.
std::map<std::string, std::string> stored_outputs() {
  std::map<std::string, std::string> stored;
  const json manifest = read_json(oracle_path("manifest.json"));
  for (const json& entry : manifest["index"]) {
    for (const json& output : entry["outputs"]) {
      const std::string path = output["path"];
      stored[path] = output.value("stored", path);
    }
  }
  return stored;
}

GptIndexPlan plan_of(const json& call, const megatron::MegatronVersion& version) {
  const std::vector<int32_t> sizes = call["sizes"];
  GptIndexRequest request;
  request.tokens = call["tokens_per_epoch"];
  request.sequence_length = call["seq_length"];
  request.extra_token = call["add_extra_token"];
  request.drop_last_partial = call["drop_last_partial"];
  // Megatron's build_sample_idx takes epochs instead of samples: ask for as many as need them.
  const int64_t epochs = call["num_epochs"];
  request.sequences = static_cast<int64_t>(call["document_index"].size()) / epochs;
  if (epochs > 1) {
    request.samples = (epochs * request.tokens - 1) / request.sequence_length;
    while (((epochs - 1) * request.tokens - 1) / request.sequence_length >= *request.samples) {
      request.samples = *request.samples + 1;
    }
  }
  const auto plan = plan_gpt_index(request, version);
  EXPECT_TRUE(plan.has_value()) << plan.status().message();
  EXPECT_EQ(plan->epochs, epochs);
  return *plan;
}

template <class T>
std::string rows_of(const GptIndexPlan& plan, const json& call) {
  const std::vector<int32_t> sizes = call["sizes"];
  const std::vector<int32_t> documents = call["document_index"];
  std::string bytes;
  const SampleRowSink<T> sink = [&bytes](std::span<const T> rows) {
    bytes.append(reinterpret_cast<const char*>(rows.data()), rows.size_bytes());
    return Status();
  };
  const dataset::LittleEndianArray<int32_t> lengths(std::as_bytes(std::span(sizes)));
  EXPECT_TRUE(build_sample_index<T>(plan, lengths, documents, sink).ok());
  return bytes;
}

void expect_equal_sample_index(const json& call, const megatron::MegatronVersion& version,
                               const std::string& npy_path) {
  const GptIndexPlan plan = plan_of(call, version);
  const std::vector<int64_t> shape = call["shape"];
  EXPECT_EQ(plan.samples + 1, shape[0]);
  EXPECT_EQ(dtype_name(plan.sample_type), call["dtype"]);
  const auto header = numpy::npy_header(plan.sample_type, shape);
  ASSERT_TRUE(header.has_value());
  const std::string rows = plan.sample_type == DType::kInt32 ? rows_of<int32_t>(plan, call)
                                                             : rows_of<int64_t>(plan, call);
  EXPECT_TRUE(*header + rows == test::read_file(npy_path));
}

TEST(GptIndexGoldenTest, SampleIndicesAreThoseOfMegatronsHelper) {
  MEG_REQUIRE_SHARED("oracle/datasets/manifest.json");
  const auto stored = stored_outputs();
  int calls = 0;
  for (const auto& [path, where] : stored) {
    if (!path.ends_with("/helpers/helpers.json")) continue;
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    const std::string revision = path.substr(2, path.find('/', 2) - 2);
    const auto version = megatron::parse_megatron_version(revision);
    ASSERT_TRUE(version.has_value()) << revision;
    const json helpers = read_json(oracle_path(where));
    for (const json& call : helpers["build_sample_idx"]) {
      const std::string file = folder + call["file"].get<std::string>();
      SCOPED_TRACE(file);
      expect_equal_sample_index(call, *version, oracle_path(stored.at(file)));
      ++calls;
    }
  }
  EXPECT_GE(calls, 3 * 8 + 2 * 33);
}

}  // namespace
}  // namespace meg::samples

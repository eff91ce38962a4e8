#include "tests/tokenizer/golden_dataset.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "libmeg/text/text_padding.h"
#include "tests/shared_data.h"
#include "tests/temp_folder.h"

namespace meg::test {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find_first_of("\r\n", start), text.size());
    if (end > start) lines.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

std::vector<uint16_t> encoded(tokenizer::TokenEncoder& encoder, std::string text) {
  const size_t size = text.size();
  text.append(text::kTextPadding, 'x');
  tokenizer::TokenBuffer tokens(DType::kUint16);
  EXPECT_TRUE(encoder.encode(std::string_view(text).substr(0, size), tokens).ok());
  std::vector<uint16_t> ids;
  for (int64_t i = 0; i < tokens.size(); ++i) ids.push_back(static_cast<uint16_t>(tokens.at(i)));
  return ids;
}

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

std::string oracle_file(const std::string& path) {
  return read_file(shared_path(kDatasetOracle + path));
}

std::map<std::string, std::string> outputs_of(const nlohmann::json& entry) {
  std::map<std::string, std::string> outputs;
  for (const nlohmann::json& output : entry["outputs"]) {
    const std::string path = output["path"];
    outputs[path.substr(path.rfind('/') + 1)] = output.value("stored", path);
  }
  return outputs;
}

Documents encoded_documents(tokenizer::TokenEncoder& encoder, const std::string& input,
                            const std::string& key) {
  Documents documents;
  for (const std::string& line : lines_of(oracle_file(input))) {
    const nlohmann::json value = nlohmann::json::parse(line)[key];
    std::vector<std::string> texts;
    if (value.is_array()) {
      texts = value.get<std::vector<std::string>>();
    } else {
      texts.push_back(value);
    }
    std::vector<std::vector<uint16_t>> sequences;
    for (const std::string& text : texts) {
      std::vector<uint16_t> ids = encoded(encoder, text);
      if (!ids.empty()) sequences.push_back(std::move(ids));
    }
    documents.push_back(std::move(sequences));
  }
  return documents;
}

DatasetBytes dataset_of(const Documents& documents, const GoldenDatasetRules& rules) {
  DatasetBytes bytes;
  std::vector<int32_t> lengths;
  std::vector<int64_t> document_indices = {0};
  for (std::vector<std::vector<uint16_t>> document : documents) {
    if (rules.skips_empty_documents && document.empty()) continue;
    if (rules.appended_eod && !document.empty()) document.back().push_back(*rules.appended_eod);
    for (const std::vector<uint16_t>& sequence : document) {
      lengths.push_back(static_cast<int32_t>(sequence.size()));
      for (const uint16_t id : sequence) append(bytes.bin, id);
    }
    document_indices.push_back(static_cast<int64_t>(lengths.size()));
  }
  bytes.idx.append("MMIDIDX\0\0", 9);
  append<uint64_t>(bytes.idx, 1);
  append<uint8_t>(bytes.idx, 8);  // uint16
  append<uint64_t>(bytes.idx, lengths.size());
  append<uint64_t>(bytes.idx, document_indices.size());
  for (const int32_t length : lengths) append(bytes.idx, length);
  int64_t pointer = 0;
  for (const int32_t length : lengths) {
    append(bytes.idx, pointer);
    pointer += length * int64_t{2};
  }
  for (const int64_t index : document_indices) append(bytes.idx, index);
  return bytes;
}

}  // namespace meg::test

#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::test {

/// The dataset oracle of the shared folder: its manifest names paths relative to it.
constexpr char kDatasetOracle[] = "oracle/datasets/";

std::string oracle_file(const std::string& path);

/// Paths of a case's outputs by file name, followed to where the bytes are kept.
std::map<std::string, std::string> outputs_of(const nlohmann::json& entry);

/// [document][sequence][token]; a sequence is never empty, a document may be.
using Documents = std::vector<std::vector<std::vector<uint16_t>>>;

/// A document for each JSON line of `input`, a sequence for each text of its `key`.
/// encoder: for DType::kUint16.
Documents encoded_documents(tokenizer::TokenEncoder& encoder, const std::string& input,
                            const std::string& key);

struct DatasetBytes {
  std::string bin, idx;
};

struct GoldenDatasetRules {
  std::optional<uint16_t> appended_eod;  ///< Ends every document that has tokens.
  bool skips_empty_documents = false;
};

/// The files of a dataset of uint16 in Megatron-LM's mmap format, written plainly.
DatasetBytes dataset_of(const Documents& documents, const GoldenDatasetRules& rules);

}  // namespace meg::test

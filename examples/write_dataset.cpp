// write_dataset PREFIX: writes a dataset of two documents, as a tokenizer of your own would.

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/status.h"
#include "libmeg/dataset/indexed_dataset_builder.h"

/// Writes PREFIX.bin and PREFIX.idx; each document is one sequence.
meg::Status write_documents(const std::string& prefix,
                            const std::vector<std::vector<uint16_t>>& documents) {
  const meg::dataset::IndexedDatasetBuilder::Options options{.dtype = meg::DType::kUint16};
  MEG_ASSIGN_OR_RETURN(auto builder, meg::dataset::IndexedDatasetBuilder::create(prefix, options));
  for (const std::vector<uint16_t>& tokens : documents) {
    MEG_RETURN_IF_ERROR(builder.add_item(std::as_bytes(std::span(tokens))));
    MEG_RETURN_IF_ERROR(builder.end_document());
  }
  return builder.finish();
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const meg::Status status = write_documents(argv[1], {{5, 3, 8}, {13, 21}});
  if (!status.ok()) {
    std::fprintf(stderr, "error: %s\n", status.message().c_str());
    return 1;
  }
  return 0;
}

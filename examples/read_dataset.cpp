// read_dataset PREFIX VOCAB_FILE MERGE_FILE: prints the text of a dataset's first sequence.

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/tokenizer/registry/open_tokenizer.h"

/// The text of a dataset's first sequence.
meg::Result<std::string> first_text(const std::string& prefix,
                                    const meg::tokenizer::TokenizerOptions& options) {
  MEG_ASSIGN_OR_RETURN(const auto tokenizer, meg::tokenizer::open_tokenizer(options));
  MEG_ASSIGN_OR_RETURN(const auto dataset, meg::dataset::IndexedDataset::open(prefix));
  MEG_ASSIGN_OR_RETURN(const auto sequence, dataset.tokens<uint16_t>(0));
  const std::vector<int32_t> ids(sequence.begin(), sequence.end());
  return tokenizer->decode(ids);
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  meg::tokenizer::TokenizerOptions options;
  options.tokenizer_type = "GPT2BPETokenizer";
  options.vocab_file = argv[2];
  options.merge_file = argv[3];
  const auto text = first_text(argv[1], options);
  if (!text.has_value()) {
    std::fprintf(stderr, "error: %s\n", text.error().message().c_str());
    return 1;
  }
  std::puts(text->c_str());
  return 0;
}

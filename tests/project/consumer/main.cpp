#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/base/version.h"
#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/dataset/indexed_dataset_builder.h"
#include "libmeg/preprocess/read_texts.h"
#include "libmeg/samples/gpt_datasets.h"
#include "libmeg/tokenizer/registry/open_tokenizer.h"

class Ignored : public meg::preprocess::TextVisitor {
 public:
  meg::Status visit(std::string_view) override { return {}; }
};

// Prints what reading the file `path` gives.
int read(const char* path) {
  meg::preprocess::ReadTextsOptions options;
  options.inputs = {path};
  Ignored texts;
  meg::preprocess::TextVisitor* const visitor = &texts;
  const auto summary = meg::preprocess::read_texts(options, {&visitor, 1}, {});
  std::puts(summary.has_value() ? "read" : summary.error().message().c_str());
  return 0;
}

// The number of samples of two tokens in a dataset of one document of five.
meg::Result<int64_t> count_samples(const std::string& prefix) {
  MEG_ASSIGN_OR_RETURN(auto builder, meg::dataset::IndexedDatasetBuilder::create(
                                         prefix, {.dtype = meg::DType::kUint16}));
  const std::vector<uint16_t> tokens = {1, 2, 3, 4, 5};
  MEG_RETURN_IF_ERROR(builder.add_item(std::as_bytes(std::span(tokens))));
  MEG_RETURN_IF_ERROR(builder.end_document());
  MEG_RETURN_IF_ERROR(builder.finish());
  meg::samples::GptDataConfig config;
  config.blend = meg::samples::Blend{.prefixes = {prefix}};
  config.split = "1,0,0";
  config.sequence_length = 2;
  config.cache_path = prefix + ".cache";
  MEG_ASSIGN_OR_RETURN(const auto datasets, meg::samples::build_gpt_datasets(config));
  return datasets.splits[0] == nullptr ? 0 : datasets.splits[0]->size();
}

// Uses what needs other libraries, which must come with the package.
meg::Status use_components(const std::string& prefix, const std::string& tokenizer,
                           const std::string& checkpoint) {
  MEG_ASSIGN_OR_RETURN(const int64_t samples, count_samples(prefix));
  if (samples != 2) return meg::Status(meg::StatusCode::kInternal, "expected 2 samples");
  meg::tokenizer::TokenizerOptions options;
  options.tokenizer_type = "GPT2BPETokenizer";
  options.vocab_file = tokenizer + "/vocab.json";
  options.merge_file = tokenizer + "/merges.txt";
  MEG_RETURN_IF_ERROR(meg::tokenizer::open_tokenizer(options).status());
  MEG_ASSIGN_OR_RETURN(const auto folder, meg::checkpoint::find_checkpoint(checkpoint, {}));
  return meg::checkpoint::MegatronCheckpoint::open(folder).status();
}

int main(int count, char** arguments) {
  if (count == 2) return read(arguments[1]);
  if (count != 4) return 2;
  const meg::Status status = use_components(arguments[1], arguments[2], arguments[3]);
  std::printf("libmeg %s: %s\n", std::string(meg::version()).c_str(),
              status.ok() ? "ok" : status.message().c_str());
  return status.ok() ? 0 : 1;
}

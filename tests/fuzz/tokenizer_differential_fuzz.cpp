// Any text: the fast encoders give the ids of the reference, and these decode to the text.
// The first byte of the input chooses the merges (as trained, or in an order no training gives,
// where ranks fall while a word is merged), whether special tokens count, the dtype and what
// follows the text; bytes that are not UTF-8 are replaced.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/cpu.h"
#include "libmeg/text/text_padding.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/files/internal/gpt2/gpt2_bpe_tokenizer.h"
#include "tests/fuzz/fuzz_check.h"
#include "tests/temp_folder.h"

namespace {

using meg::InstructionSet;
using meg::tokenizer::GPT2BPETokenizer;

constexpr char kVocab[] = MEG_SOURCE_DIR "/testdata/tokenizer/vocab.json";
constexpr char kMerges[] = MEG_SOURCE_DIR "/testdata/tokenizer/merges.txt";

/// The lines of a merges.txt, the header first and the merges from last to first.
std::string reversed(const std::string& merges) {
  std::string result;
  size_t begin = merges.find('\n') + 1;
  const std::string header = merges.substr(0, begin);
  for (size_t end; begin < merges.size(); begin = end) {
    end = merges.find('\n', begin) + 1;
    result.insert(0, merges, begin, end - begin);
  }
  return header + result;
}

/// Who encodes, the reference first; their encoders keep their caches from text to text.
struct Contestants {
  meg::DType dtype;
  std::vector<std::unique_ptr<meg::tokenizer::GPT2BPETokenizer>> tokenizers;
  std::vector<std::unique_ptr<meg::tokenizer::TokenEncoder>> encoders;

  Contestants(const std::string& merge_file, bool special_tokens_in_text, meg::DType ids)
      : dtype(ids) {
    using enum meg::tokenizer::GPT2BPETokenizer::Implementation;
    add(merge_file, {kReference, special_tokens_in_text, InstructionSet::kPortable});
    for (const InstructionSet set :
         {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
      if (set > meg::best_instruction_set()) continue;
      add(merge_file, {kFast, special_tokens_in_text, set});
    }
  }

  void add(const std::string& merge_file,
           const meg::tokenizer::GPT2BPETokenizer::Options& options) {
    auto tokenizer = meg::tokenizer::GPT2BPETokenizer::open(kVocab, merge_file, options);
    MEG_FUZZ_CHECK(tokenizer.has_value());
    encoders.push_back((*tokenizer)->new_encoder(dtype));
    tokenizers.push_back(std::move(*tokenizer));
  }
};

std::vector<Contestants> all_contestants() {
  const meg::test::TempFolder folder;
  meg::test::write_file(folder.path("merges.txt"), reversed(meg::test::read_file(kMerges)));
  std::vector<Contestants> all;
  for (const std::string& merge_file : {std::string(kMerges), folder.path("merges.txt")}) {
    for (const bool special_tokens : {false, true}) {
      all.emplace_back(merge_file, special_tokens, meg::DType::kUint16);
      all.emplace_back(merge_file, special_tokens, meg::DType::kInt32);
    }
  }
  return all;
}

std::vector<int32_t> encoded(meg::tokenizer::TokenEncoder& encoder, meg::DType dtype,
                             std::string_view text) {
  meg::tokenizer::TokenBuffer tokens(dtype);
  MEG_FUZZ_CHECK(encoder.encode(text, tokens).ok());
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < tokens.size(); ++i) ids.push_back(tokens.at(i));
  return ids;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<Contestants> all = all_contestants();
  if (size == 0) return 0;
  const Contestants& contestants = all[data[0] % all.size()];
  std::string padded;
  meg::text::append_replacing_invalid_utf8({reinterpret_cast<const char*>(data) + 1, size - 1},
                                           padded);
  const size_t text_size = padded.size();
  padded.append(meg::text::kTextPadding, data[0] & 8 ? 'a' : '\xFF');
  const std::string_view text = std::string_view(padded).substr(0, text_size);
  const meg::DType dtype = contestants.dtype;
  const std::vector<int32_t> expected = encoded(*contestants.encoders[0], dtype, text);
  for (const auto& encoder : contestants.encoders) {
    MEG_FUZZ_CHECK(encoded(*encoder, dtype, text) == expected);
  }
  const auto decoded = contestants.tokenizers[0]->decode(expected);
  MEG_FUZZ_CHECK(decoded && *decoded == text);
  return 0;
}

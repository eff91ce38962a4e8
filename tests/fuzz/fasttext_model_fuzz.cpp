// Any bytes as a model of fastText: an error of one line, or probabilities of a text.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "libmeg/cleaning/language/fasttext_model.h"
#include "tests/checkpoint/container/memory_file.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const meg::test::MemoryFile file(std::string_view(reinterpret_cast<const char*>(data), size));
  const auto model = meg::cleaning::FastTextModel::open(file.path());
  if (!model.has_value()) {
    MEG_FUZZ_CHECK(model.error().message().find('\n') == std::string_view::npos);
    return 0;
  }
  meg::cleaning::FastTextModel::Scratch scratch;
  std::vector<float> scores;
  for (const std::string_view text :
       {"", "a b", "</s> a", "\xc3\xa9t\xc3\xa9 __label__a \n b a b"}) {
    model->predict(text, scratch, scores);
    MEG_FUZZ_CHECK(scores.size() == model->labels().size());
  }
  return 0;
}

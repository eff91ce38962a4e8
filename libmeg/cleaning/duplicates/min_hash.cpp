#include "libmeg/cleaning/duplicates/min_hash.h"

#include <xxhash.h>

#include <algorithm>

#include "libmeg/cleaning/words/simplify_text.h"
#include "libmeg/numpy/random_state.h"

namespace meg::cleaning {
namespace {

constexpr size_t kWordsPerShingle = 5;

const HashFunctions& functions() {
  static const HashFunctions drawn = [] {
    constexpr uint64_t kPrime = (uint64_t{1} << 61) - 1;
    numpy::RandomState random(1);  // datatrove's seed
    HashFunctions all;
    for (uint64_t& factor : all.factors) factor = 1 + random.bounded(kPrime - 2);
    for (uint64_t& summand : all.summands) summand = random.bounded(kPrime - 1);
    return all;
  }();
  return drawn;
}

HashKernel kernel_of(InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return min_hash_avx512;
  if (set == InstructionSet::kAvx2) return min_hash_avx2;
#endif
  static_cast<void>(set);
  return min_hash_portable;
}

}  // namespace

void min_hash_portable(const HashFunctions& functions, std::span<const uint64_t> shingles,
                       std::span<uint64_t, kHashes> least) {
  find_least(functions, shingles, least);
}

MinHasher::MinHasher(InstructionSet set) : kernel_(kernel_of(set)) {}

bool MinHasher::sign(std::string_view text, std::span<uint64_t, kHashes> signature) {
  simplify_text(text, simplified_);
  words_.split(simplified_);
  join_words();
  shingles_.clear();
  for (size_t i = 0; i + kWordsPerShingle < begins_.size(); ++i) {
    const size_t size = begins_[i + kWordsPerShingle] - 1 - begins_[i];
    shingles_.push_back(XXH64(joined_.data() + begins_[i], size, 0));
  }
  if (shingles_.empty()) return false;
  kernel_(functions(), shingles_, signature);
  return true;
}

void MinHasher::join_words() {
  joined_.clear();
  begins_.clear();
  // A simplified text has one space between words already, except where a word was split.
  std::string_view run;
  const auto end_run = [&] {
    if (!run.empty()) joined_.append(run).push_back(' ');
  };
  for (const std::string_view word : words_.words()) {
    if (!run.empty() && word.data() == run.data() + run.size() + 1) {
      run = {run.data(), run.size() + 1 + word.size()};
    } else {
      end_run();
      run = word;
    }
    begins_.push_back(joined_.size() + run.size() - word.size());
  }
  end_run();
  begins_.push_back(joined_.size());
}

std::span<const uint64_t> MinHasher::distinct_shingles() {
  std::sort(shingles_.begin(), shingles_.end());
  shingles_.erase(std::unique(shingles_.begin(), shingles_.end()), shingles_.end());
  return shingles_;
}

}  // namespace meg::cleaning

#include "libmeg/samples/internal/sample_kernels.h"

namespace meg::samples {
namespace {

/// One loop for the compiler to vectorize with what the caller's instruction set has. Copying
/// tokens and labels by memcpy instead is slower: it suffers where their places within a page are
/// alike.
[[gnu::always_inline]] inline void fill_fields(const int64_t* __restrict text, size_t length,
                                               int64_t pad, int64_t* __restrict tokens,
                                               int64_t* __restrict labels,
                                               float* __restrict loss_mask,
                                               int64_t* __restrict position_ids) {
  for (size_t i = 0; i < length; ++i) {
    const int64_t token = text[i];
    const int64_t label = text[i + 1];
    tokens[i] = token == pad ? 0 : token;
    labels[i] = label == pad ? 0 : label;
    loss_mask[i] = label == pad ? 0.0F : 1.0F;
    position_ids[i] = static_cast<int64_t>(i);
  }
}

void fill_fields_portable(const int64_t* text, size_t length, int64_t pad, int64_t* tokens,
                          int64_t* labels, float* loss_mask, int64_t* position_ids) {
  fill_fields(text, length, pad, tokens, labels, loss_mask, position_ids);
}

#ifdef __x86_64__
[[gnu::target("avx2")]] void fill_fields_avx2(const int64_t* text, size_t length, int64_t pad,
                                              int64_t* tokens, int64_t* labels, float* loss_mask,
                                              int64_t* position_ids) {
  fill_fields(text, length, pad, tokens, labels, loss_mask, position_ids);
}
#endif

}  // namespace

FillFields fill_fields_kernel([[maybe_unused]] InstructionSet set) {
#ifdef __x86_64__
  if (set >= InstructionSet::kAvx2) return fill_fields_avx2;
#endif
  return fill_fields_portable;
}

}  // namespace meg::samples

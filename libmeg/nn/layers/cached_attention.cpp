#include "libmeg/nn/layers/cached_attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

#include "libmeg/kernels/attention/cached_attention.h"
#include "libmeg/kernels/cpu/parallel_for.h"
#include "libmeg/libtorch/device_copy.h"
#include "libmeg/nn/operators/internal/attention/attention_kernels.h"
#include "libmeg/nn/operators/internal/attention/fused_attention.h"
#include "libmeg/nn/operators/kernel_call.h"

namespace meg::nn {
namespace {

/// Keys that a GPU reads for a sequence of `length`: few lengths, so that few shapes are requested,
/// and rows of masks that its kernels take as they are.
int64_t padded_length(int64_t length, int64_t capacity) {
  constexpr int64_t kStep = 64;
  return std::min((length + kStep - 1) / kStep * kStep, capacity);
}

/// [1, T, n, hn], of which each head is dense.
kernels::HeadRows head_rows(const at::Tensor& heads) {
  TORCH_CHECK(heads.stride(3) == 1, "expected dense heads, found a stride of ", heads.stride(3));
  return {.data = heads.const_data_ptr(),
          .row_stride = heads.stride(1),
          .head_stride = heads.stride(2)};
}

}  // namespace

CachePlaces::CachePlaces(const KvCache& cache, std::span<const CachedTokens> sequences) {
  std::vector<int64_t> positions, slots, lengths;
  for (const auto& [slot, count] : sequences) {
    const int64_t length = cache.length(slot);
    for (int64_t i = 0; i < count; ++i) {
      positions.push_back(length + i);
      slots.push_back(slot);
      // 0 where the sequence brings several tokens: those rows are attend_several()'s.
      lengths.push_back(count == 1 ? length + 1 : 0);
      longest = std::max(longest, lengths.back());
    }
    has_several = has_several || count > 1;
  }
  positions.insert(positions.end(), slots.begin(), slots.end());
  positions.insert(positions.end(), lengths.begin(), lengths.end());
  numbers = at::tensor(at::IntArrayRef(positions), at::kLong).view({3, -1});
}

CacheStep::CacheStep(const KvCache& cache, const CachePlaces& places,
                     std::span<const CachedTokens> sequences, at::Device device)
    // Sent once for all layers, in one piece: each transfer costs a GPU as much as a small kernel.
    : CacheStep(cache, libtorch::sent_to(device, places.numbers), places.longest) {
  sequences_.assign(sequences.begin(), sequences.end());
  has_several_ = places.has_several;
}

CacheStep::CacheStep(const KvCache& cache, const at::Tensor& numbers, int64_t longest)
    : cache_(cache),
      positions_(numbers[0]),
      slots_(numbers[1]),
      lengths_(numbers[2]),
      longest_(longest) {}

void CacheStep::write(const at::Tensor& cached, const at::Tensor& tokens) const {
  // All sequences by one kernel, however many there are.
  cached.transpose(1, 2).index_put_({slots_, positions_}, tokens[0]);
}

at::Tensor CacheStep::attention(int64_t layer, const at::Tensor& query, const at::Tensor& key,
                                const at::Tensor& value, const AttentionScores& scores) const {
  const at::Tensor output = at::empty(query.sizes(), query.options());
  if (scores.need_products() || scores.window.has_value()) {
    TORCH_CHECK(!sequences_.empty(), "special attention: expected known sequences");
    write(cache_.keys(layer), key);
    write(cache_.values(layer), value);
    attend_several(layer, query, output, scores, /*all=*/true);
    return output.flatten(2);
  }
  TORCH_CHECK(query.is_cpu() || query.size(3) <= kernels::kMaxCachedDepth,
              "generation on a GPU: expected heads of at most ", kernels::kMaxCachedDepth,
              " channels, found ", query.size(3));
  if (has_several_) {
    // Single tokens are written by the kernel that attends, in the same pass; several must be in
    // the cache before attention reads it.
    write(cache_.keys(layer), key);
    write(cache_.values(layer), value);
    attend_several(layer, query, output, scores, /*all=*/false);
  }
  if (longest_ > 0) attend_singles(layer, query, key, value, output, scores);
  return output.flatten(2);
}

void CacheStep::attend_singles(int64_t layer, const at::Tensor& query, const at::Tensor& key,
                               const at::Tensor& value, const at::Tensor& output,
                               const AttentionScores& scores) const {
  const at::Tensor& keys = cache_.keys(layer);
  const at::Tensor& values = cache_.values(layer);
  kernels::CachedAttention call;
  call.type = float_type(query);
  call.queries = head_rows(query);
  call.new_keys = head_rows(key);
  call.new_values = head_rows(value);
  call.keys = keys.mutable_data_ptr();
  call.values = values.mutable_data_ptr();
  call.slots = slots_.const_data_ptr<int64_t>();
  call.lengths = lengths_.const_data_ptr<int64_t>();
  call.output = output.mutable_data_ptr();
  call.rows = query.size(1);
  call.heads = query.size(2);
  call.groups = keys.size(1);
  call.capacity = keys.size(2);
  call.depth = keys.size(3);
  call.scale = static_cast<float>(scores.scale);
  if (query.is_cuda()) {
    const at::Tensor scratch = at::empty({kernels::cached_attention_scratch(call, longest_)},
                                         query.options().dtype(at::kFloat));
    launch_kernel("cached_attention", query.device(), [&](CUstream_st* stream) {
      return kernels::cached_attention_cuda(call, longest_, scratch.mutable_data_ptr<float>(),
                                            stream);
    });
    return;
  }
  kernels::parallel_for(call.rows * call.groups, /*grain=*/4, [&](int64_t begin, int64_t end) {
    kernels::cached_attention_cpu(call, begin, end);
  });
}

void CacheStep::attend_several(int64_t layer, const at::Tensor& query, const at::Tensor& output,
                               const AttentionScores& scores, bool all) const {
  std::optional<AttentionKernelChoice> choice;
  if (!query.is_cpu()) choice.emplace(AttentionKernels());
  int64_t begin = 0;
  for (const auto& [slot, count] : sequences_) {
    const int64_t first = begin;
    begin += count;
    if (count == 1 && !all) continue;
    const int64_t before = cache_.length(slot);
    const int64_t seen = before + count;
    // A prompt attends to itself alone, by the causal kernels, which take any length.
    const bool pads = before > 0 && !query.is_cpu();
    const int64_t keys = pads ? padded_length(seen, cache_.capacity()) : seen;
    const auto held = [slot = slot, keys](const at::Tensor& cached) {
      return cached.narrow(0, slot, 1).narrow(2, 0, keys);
    };
    std::optional<at::Tensor> mask;
    if (before > 0 || scores.need_products() || scores.hides(seen)) {
      // Token i of the new ones sees all that is held and the new ones up to itself; what pads the
      // keys follows and is never seen.
      mask = visible_keys(scores, count, keys, before, query.device());
    }
    const FusedAttention inputs = {.query = query.narrow(1, first, count).transpose(1, 2),
                                   .key = held(cache_.keys(layer)),
                                   .value = held(cache_.values(layer)),
                                   .mask = mask,
                                   .is_causal = !mask.has_value(),
                                   .scale = scores.scale};
    const at::Tensor sums =
        scores.need_products()
            ? attention_by_products(scores, inputs.query, inputs.key, inputs.value, *mask)
            : fused_attention(inputs);
    output.narrow(1, first, count).copy_(sums.transpose(1, 2));
  }
}

}  // namespace meg::nn

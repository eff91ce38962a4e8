#include "libmeg/nn/layers/cached_attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

#include "libmeg/kernels/cached_attention.h"
#include "libmeg/kernels/parallel_for.h"
#include "libmeg/libtorch/device_copy.h"
#include "libmeg/nn/operators/internal/attention_kernels.h"
#include "libmeg/nn/operators/kernel_call.h"

namespace meg::nn {
namespace {

at::Tensor numbers(const std::vector<int64_t>& values, at::Device device) {
  return libtorch::sent_to(device, at::tensor(at::IntArrayRef(values), at::kLong));
}

/// Keys that a GPU reads for a sequence of `length`: few lengths, so that few shapes are asked for,
/// and rows of masks that its kernels take as they are.
int64_t padded_length(int64_t length, int64_t capacity) {
  constexpr int64_t kStep = 64;
  return std::min((length + kStep - 1) / kStep * kStep, capacity);
}

/// query: [b, n, s, hn]; keys, values: [b, g, l, hn].
at::Tensor attend(const at::Tensor& query, at::Tensor keys, at::Tensor values,
                  const std::optional<at::Tensor>& mask, bool causal, double softmax_scale) {
  const bool on_cpu = query.is_cpu();
  bool is_grouped = keys.size(1) != query.size(1);
  if (is_grouped && on_cpu) {
    const int64_t repeats = query.size(1) / keys.size(1);
    keys = keys.repeat_interleave(repeats, 1);
    values = values.repeat_interleave(repeats, 1);
    is_grouped = false;
  }
  std::optional<AttentionKernelChoice> choice;
  if (!on_cpu) choice.emplace(AttentionKernels());
  return at::scaled_dot_product_attention(query, keys, values, mask, /*dropout_p=*/0, causal,
                                          softmax_scale, is_grouped);
}

}  // namespace

SingleTokens::SingleTokens(const std::vector<int64_t>& rows, const std::vector<int64_t>& slots,
                           const std::vector<int64_t>& lengths, int64_t capacity, at::Device device)
    : rows_(numbers(rows, device)), slots_(numbers(slots, device)) {
  const int64_t keys = padded_length(std::ranges::max(lengths), capacity);
  seen_ = at::arange(keys, at::dtype(at::kLong).device(device))
              .unsqueeze(0)
              .lt(numbers(lengths, device).unsqueeze(1))
              .view({-1, 1, 1, keys});
}

void SingleTokens::attend(const at::Tensor& query, const at::Tensor& keys, const at::Tensor& values,
                          const at::Tensor& output, double softmax_scale) const {
  const auto held = [this](const at::Tensor& cached) {
    return cached.narrow(2, 0, seen_.size(3)).index_select(0, slots_);
  };
  // The heads of a group in the place of tokens, which all see the same keys.
  const at::Tensor by_group =
      query[0].index_select(0, rows_).view({rows_.size(0), keys.size(1), -1, query.size(3)});
  const at::Tensor sums =
      nn::attend(by_group, held(keys), held(values), seen_, /*causal=*/false, softmax_scale);
  output[0].index_copy_(0, rows_, sums.flatten(1, 2));
}

CacheStep::CacheStep(const KvCache& cache, std::span<const CachedTokens> sequences,
                     at::Device device)
    : cache_(cache), sequences_(sequences.begin(), sequences.end()) {
  std::vector<int64_t> positions, single_rows, single_slots, single_lengths;
  for (const auto& [slot, count] : sequences_) {
    const int64_t length = cache_.length(slot);
    if (count == 1) {
      single_rows.push_back(static_cast<int64_t>(positions.size()));
      single_slots.push_back(slot);
      single_lengths.push_back(length + 1);
    }
    for (int64_t i = 0; i < count; ++i) {
      positions.push_back(length + i);
      slot_of_.push_back(slot);
      length_of_.push_back(count == 1 ? length + 1 : 0);
    }
  }
  has_single_ = !single_rows.empty();
  has_several_ = single_rows.size() < sequences_.size();
  positions_ = numbers(positions, device);
  slots_ = numbers(slot_of_, device);
  if (device.is_cpu() || !has_single_) return;
  singles_.emplace(single_rows, single_slots, single_lengths, cache_.capacity(), device);
}

void CacheStep::write(const at::Tensor& cached, const at::Tensor& tokens) const {
  cached.transpose(1, 2).index_put_({slots_, positions_}, tokens[0]);
}

at::Tensor CacheStep::attention(int64_t layer, const at::Tensor& query, const at::Tensor& key,
                                const at::Tensor& value, double softmax_scale) const {
  write(cache_.keys(layer), key);
  write(cache_.values(layer), value);
  const at::Tensor output = at::empty(query.sizes(), query.options());
  if (singles_.has_value()) {
    singles_->attend(query, cache_.keys(layer), cache_.values(layer), output, softmax_scale);
  } else if (has_single_) {
    attend_single_on_cpu(layer, query.contiguous(), output, softmax_scale);
  }
  if (has_several_) attend_several(layer, query, output, softmax_scale);
  return output.flatten(2);
}

void CacheStep::attend_single_on_cpu(int64_t layer, const at::Tensor& query,
                                     const at::Tensor& output, double softmax_scale) const {
  const at::Tensor& keys = cache_.keys(layer);
  const at::Tensor& values = cache_.values(layer);
  kernels::CachedAttention call;
  call.type = float_type(query);
  call.query = query.const_data_ptr();
  call.keys = keys.const_data_ptr();
  call.values = values.const_data_ptr();
  call.slots = slot_of_.data();
  call.lengths = length_of_.data();
  call.output = output.mutable_data_ptr();
  call.rows = query.size(1);
  call.heads = query.size(2);
  call.groups = keys.size(1);
  call.capacity = keys.size(2);
  call.depth = keys.size(3);
  call.scale = static_cast<float>(softmax_scale);
  kernels::parallel_for(call.rows * call.groups, /*grain=*/4, [&](int64_t begin, int64_t end) {
    kernels::cached_attention_cpu(call, begin, end);
  });
}

void CacheStep::attend_several(int64_t layer, const at::Tensor& query, const at::Tensor& output,
                               double softmax_scale) const {
  int64_t begin = 0;
  for (const auto& [slot, count] : sequences_) {
    const int64_t first = begin;
    begin += count;
    if (count == 1) continue;
    const int64_t before = cache_.length(slot);
    const int64_t seen = before + count;
    const bool pads = before > 0 && !query.is_cpu();
    const int64_t keys = pads ? padded_length(seen, cache_.capacity()) : seen;
    const auto held = [slot = slot, keys](const at::Tensor& cached) {
      return cached.narrow(0, slot, 1).narrow(2, 0, keys);
    };
    std::optional<at::Tensor> mask;
    if (before > 0) {
      mask = at::ones({count, keys}, at::dtype(at::kBool).device(query.device())).tril_(before);
    }
    const at::Tensor sums =
        attend(query.narrow(1, first, count).transpose(1, 2), held(cache_.keys(layer)),
               held(cache_.values(layer)), mask, before == 0, softmax_scale);
    output.narrow(1, first, count).copy_(sums.transpose(1, 2));
  }
}

}  // namespace meg::nn

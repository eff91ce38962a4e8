#include "libmeg/nn/layers/kv_cache.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>

#include "libmeg/libtorch/device_copy.h"
#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/model/pipeline_layout.h"
#include "libmeg/nn/internal/decode_graphs.h"

namespace meg::nn {

KvCache::KvCache(int64_t first_layer, int64_t slots, int64_t capacity)
    : first_layer_(first_layer), capacity_(capacity), lengths_(static_cast<size_t>(slots)) {}

KvCache::KvCache(KvCache&&) noexcept = default;
KvCache& KvCache::operator=(KvCache&&) noexcept = default;
KvCache::~KvCache() = default;

Result<KvCache> KvCache::create(const model::GptConfig& config, const GptOptions& options,
                                const ModelPart& part, int64_t slots, int64_t capacity) {
  if (slots < 1 || capacity < 1) {
    return make_error(StatusCode::kInvalidArgument,
                      "cache: expected slots and capacity of at least 1, found {} and {}", slots,
                      capacity);
  }
  MEG_ASSIGN_OR_RETURN(const model::PipelineLayout layout,
                       model::PipelineLayout::create(config.num_layers, part.sizes));
  KvCache cache(layout.first_layer(part.pipeline_rank, part.chunk), slots, capacity);
  MEG_RETURN_IF_ERROR(libtorch::torch_guard([&] {
    const auto like = at::dtype(options.params_dtype).device(options.device);
    if (options.device.is_cuda()) cache.graphs_ = std::make_unique<DecodeGraphs>(options.device);
    const int64_t groups = config.num_query_groups / part.sizes.tensor_model_parallel_size;
    for (int64_t i = 0; i < layout.layers(part.pipeline_rank, part.chunk); ++i) {
      for (auto* tensors : {&cache.keys_, &cache.values_}) {
        const std::array<int64_t, 4> sizes = {slots, groups, capacity, config.kv_channels};
        // Attention on GPUs reads past a sequence's end, and multiplies that by 0: no NaN there.
        tensors->push_back(options.device.is_cpu() ? at::empty(sizes, like)
                                                   : at::zeros(sizes, like));
      }
    }
    return Status();
  }));
  return cache;
}

Status KvCache::copy_prefix(int64_t source, int64_t slot, int64_t length) {
  return libtorch::torch_guard([&] {
    const c10::InferenceMode inference;
    for (const auto* tensors : {&keys_, &values_}) {
      if (source == slot) break;
      for (const at::Tensor& tensor : *tensors) {
        tensor[slot].narrow(1, 0, length).copy_(tensor[source].narrow(1, 0, length));
      }
    }
    lengths_[static_cast<size_t>(slot)] = length;
    return Status();
  });
}

Status KvCache::rearrange(std::span<const int64_t> sources) {
  return libtorch::torch_guard([&] {
    const c10::InferenceMode inference;
    const auto count = static_cast<int64_t>(sources.size());
    std::vector<int64_t> lengths;
    for (const int64_t source : sources) lengths.push_back(length(source));
    const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    // A stage may have no layers.
    const at::Device device = keys_.empty() ? at::Device(at::kCPU) : keys_.front().device();
    const at::Tensor from = libtorch::sent_to(
        device, at::tensor(at::IntArrayRef(sources.data(), sources.size()), at::kLong));
    for (auto* tensors : {&keys_, &values_}) {
      for (const at::Tensor& tensor : *tensors) {
        const at::Tensor held = tensor.narrow(2, 0, longest);
        held.narrow(0, 0, count).copy_(held.index_select(0, from));
      }
    }
    std::copy(lengths.begin(), lengths.end(), lengths_.begin());
    return Status();
  });
}

}  // namespace meg::nn

#include "libmeg/train/internal/flat_buffer.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "libmeg/model/rank_memory.h"

// Buckets are laid out one after the other. Within a bucket each parameter begins at an aligned
// place, and the bucket is padded so that its parts are equal and aligned too. This layout exists
// in memory alone: checkpoints hold parameters, so it need not be that of Megatron's
// _ParamAndGradBuffer, and runs may change buckets and ranks between a save and a load.

namespace meg::train {

FlatLayout::FlatLayout(std::span<const nn::GptParameter> parameters,
                       std::span<const size_t> bucket_ends,
                       const std::function<Division(const nn::GptParameter&)>& division) {
  size_t begin = 0;
  for (const size_t end : bucket_ends) {
    // Of a stage or chunk without layers.
    if (begin == end) continue;
    const int64_t first = elements_;
    const Division divided = division(parameters[begin]);
    int64_t padded = 0;
    while (places_.size() < end) {
      const at::Tensor& tensor = parameters[places_.size()].tensor;
      places_.push_back(
          {.first = first + padded, .shape = tensor.sizes().vec(), .count = tensor.numel()});
      padded += model::padded_elements(tensor.numel());
    }
    buckets_.push_back({.begin = begin,
                        .end = end,
                        .first = first,
                        .division = divided,
                        .part_elements = model::part_elements(padded, divided.parts),
                        .place = part_elements_});
    part_elements_ += buckets_.back().part_elements;
    elements_ += buckets_.back().part_elements * divided.parts;
    begin = end;
  }
}

at::Tensor FlatLayout::of_bucket(const Bucket& bucket, const at::Tensor& flat) const {
  const int64_t parts = bucket.division.parts;
  return flat.narrow(0, bucket.first, bucket.part_elements * parts).view({parts, -1});
}

std::vector<FlatLayout::Segment> FlatLayout::segments() const {
  std::vector<Segment> segments;
  for (const Bucket& bucket : buckets_) {
    const int64_t begin = bucket.first + bucket.division.own * bucket.part_elements;
    const int64_t end = begin + bucket.part_elements;
    for (size_t i = bucket.begin; i < bucket.end; ++i) {
      const Place& place = places_[i];
      // A parameter may lie in several parts, and a part may hold the middle of one.
      const int64_t first = std::max(place.first, begin);
      const int64_t last = std::min(place.first + place.count, end);
      if (first >= last) continue;
      segments.push_back({.parameter = i,
                          .first = first - place.first,
                          .count = last - first,
                          .place = bucket.place + first - begin});
    }
  }
  return segments;
}

std::vector<at::Tensor> FlatLayout::views(const at::Tensor& flat) const {
  std::vector<at::Tensor> views;
  for (const Place& place : places_) {
    views.push_back(flat.narrow(0, place.first, place.count).view(place.shape));
  }
  return views;
}

FlatBuffer::FlatBuffer(const FlatLayout& layout, at::TensorOptions options)
    : flat_(at::zeros({layout.elements()}, options)), views_(layout.views(flat_)) {}

}  // namespace meg::train

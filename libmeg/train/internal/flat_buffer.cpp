#include "libmeg/train/internal/flat_buffer.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "libmeg/model/rank_memory.h"

namespace meg::train {

FlatLayout::FlatLayout(std::span<const nn::GptParameter> parameters, int64_t parts)
    : parts_(parts) {
  int64_t elements = 0;
  for (const nn::GptParameter& parameter : parameters) {
    const at::Tensor& tensor = parameter.tensor;
    places_.push_back({.first = elements, .shape = tensor.sizes().vec(), .count = tensor.numel()});
    elements += model::padded_elements(tensor.numel());
  }
  part_elements_ = model::part_elements(elements, parts);
}

std::vector<FlatLayout::Segment> FlatLayout::segments(int64_t part) const {
  const int64_t begin = part * part_elements_;
  const int64_t end = begin + part_elements_;
  std::vector<Segment> segments;
  for (size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    const int64_t first = std::max(place.first, begin);
    const int64_t last = std::min(place.first + place.count, end);
    if (first >= last) continue;
    segments.push_back({.parameter = i,
                        .first = first - place.first,
                        .count = last - first,
                        .place = first - begin});
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

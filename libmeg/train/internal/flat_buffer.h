#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "libmeg/nn/gpt_model.h"

namespace meg::train {

/// The layout of one array with the elements of all parameters. The array consists of buckets, each
/// of which is divided over ranks in equal parts, an expert's possibly over others than the rest. A
/// rank's part of the array is the concatenation of its parts of the buckets, which may begin and
/// end inside parameters.
class FlatLayout {
 public:
  /// How a bucket is divided.
  struct Division {
    int64_t parts = 1;
    int64_t own = 0;  ///< This rank's part.
  };

  /// Consecutive parameters, whose elements are sent together.
  struct Bucket {
    size_t begin = 0, end = 0;  ///< Parameters.
    int64_t first = 0;          ///< First element in the array.
    Division division;
    int64_t part_elements = 0;
    int64_t place = 0;  ///< First element in a rank's part of the array.
  };

  /// The elements of one parameter that are in a part.
  struct Segment {
    size_t parameter = 0;
    int64_t first = 0;  ///< First of the parameter's elements.
    int64_t count = 0;
    int64_t place = 0;  ///< Position in the part.
  };

  FlatLayout() = default;

  /// bucket_ends: for each bucket the end of its parameters, ascending; the last one is the number
  /// of parameters. Where no parameters would be in it there is no bucket. division: of the bucket
  /// that begins with a parameter.
  FlatLayout(std::span<const nn::GptParameter> parameters, std::span<const size_t> bucket_ends,
             const std::function<Division(const nn::GptParameter&)>& division);

  int64_t elements() const { return elements_; }

  /// Returns them in their order.
  std::span<const Bucket> buckets() const { return buckets_; }

  /// The elements of a bucket in `flat`, which is as long as the array: [parts, elements of a
  /// part].
  at::Tensor of_bucket(const Bucket& bucket, const at::Tensor& flat) const;

  int64_t part_elements() const { return part_elements_; }

  /// Those of this rank's part, in the order of the parameters.
  std::vector<Segment> segments() const;

  /// Views of `flat`, which is as long as the array, in the shapes of the parameters.
  std::vector<at::Tensor> views(const at::Tensor& flat) const;

 private:
  struct Place {
    int64_t first = 0;
    std::vector<int64_t> shape;
    int64_t count = 0;
  };

  std::vector<Place> places_;
  std::vector<Bucket> buckets_;
  int64_t part_elements_ = 0;
  int64_t elements_ = 0;
};

/// One dense piece of memory with a tensor in the shape of each parameter, so that zeroing and
/// kernels over all of them handle one array. Throws LibTorch's exceptions.
class FlatBuffer {
 public:
  FlatBuffer() = default;

  /// Allocates the memory and sets it to zero.
  FlatBuffer(const FlatLayout& layout, at::TensorOptions options);

  bool defined() const { return flat_.defined(); }

  const at::Tensor& flat() const { return flat_; }

  /// Returns them in the order of the parameters.
  const std::vector<at::Tensor>& views() const { return views_; }

 private:
  at::Tensor flat_;
  std::vector<at::Tensor> views_;
};

}  // namespace meg::train

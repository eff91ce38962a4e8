#include "libmeg/train/internal/gradient_buckets.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <memory>

#include "libmeg/model/rank_memory.h"

// Overlaps the sums over data-parallel ranks with backward passes: a hook after each parameter's
// gradient accumulator marks its gradient as come, and the one that completes a bucket starts the
// bucket's reduction. Gradients come roughly in the reverse order of parameters, hence buckets are
// cut from the end.
//
// Every rank must begin its reductions in the same order. It does as all ranks run the same graph,
// whose nodes autograd executes in the same order.

namespace meg::train {

using torch::autograd::variable_list;

std::vector<size_t> bucket_ends(std::span<const nn::GptParameter> parameters, int64_t bucket_size,
                                const std::function<bool(const nn::GptParameter&)>& is_alone) {
  std::vector<size_t> ends;
  int64_t elements = 0;  // in the bucket that begins after i
  size_t end = parameters.size();
  const auto close = [&](size_t begin) {
    if (begin < end) ends.push_back(end);
    end = begin;
    elements = 0;
  };
  for (size_t i = parameters.size(); i-- > 0;) {
    const bool alone = is_alone(parameters[i]);
    if (alone) close(i + 1);
    // Aligned as FlatLayout places them, so that the bucket's size counts the padding.
    elements = model::padded_elements(elements) + parameters[i].tensor.numel();
    if (alone || elements >= bucket_size) close(i);
  }
  close(0);
  // They were found from the last to the first.
  std::ranges::reverse(ends);
  return ends;
}

class GradientBuckets::Hook : public torch::autograd::FunctionPostHook {
 public:
  Hook(GradientBuckets& buckets, size_t parameter) : buckets_(buckets), parameter_(parameter) {}

  variable_list operator()(const variable_list& outputs, const variable_list& /*inputs*/) override {
    buckets_.came(parameter_);
    return outputs;
  }

 private:
  GradientBuckets& buckets_;
  size_t parameter_;
};

GradientBuckets::GradientBuckets(std::span<const nn::GptParameter> parameters,
                                 const FlatLayout& layout, std::function<void(size_t)> ready)
    : buckets_(layout.buckets().begin(), layout.buckets().end()), ready_(std::move(ready)) {
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    for (size_t i = buckets_[bucket].begin; i < buckets_[bucket].end; ++i) {
      Parameter& parameter = parameters_.emplace_back();
      parameter.accumulator = torch::autograd::impl::grad_accumulator(parameters[i].tensor);
      // The hook runs after what adds up gradients, which runs also where an operator added its
      // own.
      parameter.hook = parameter.accumulator->add_post_hook(std::make_unique<Hook>(*this, i));
      parameter.bucket = bucket;
    }
  }
}

GradientBuckets::~GradientBuckets() {
  for (const Parameter& parameter : parameters_) {
    parameter.accumulator->del_post_hook(parameter.hook);
  }
}

void GradientBuckets::begin_step() {
  for (Parameter& parameter : parameters_) parameter.came = false;
  last_ = false;
}

void GradientBuckets::came(size_t parameter) {
  // Gradients before the last micro-batch only add up: nothing may be sent before they are
  // complete.
  if (!last_) return;
  Parameter& found = parameters_[parameter];
  // The bucket would be on its way already: what comes now would be missing from the sum, or be
  // added while it is sent.
  TORCH_CHECK(!found.came, "the last gradient of a parameter arrived twice");
  found.came = true;
  const FlatLayout::Bucket& bucket = buckets_[found.bucket];
  const auto in_bucket = std::span(parameters_).subspan(bucket.begin, bucket.end - bucket.begin);
  if (std::ranges::all_of(in_bucket, &Parameter::came)) ready_(found.bucket);
}

}  // namespace meg::train

#include "libmeg/nn/internal/decode_graphs.h"

#include <ATen/ATen.h>

#include "libmeg/libtorch/device_copy.h"

namespace meg::nn {
namespace {

/// Lengths for which one recording serves. Attention takes what it runs on from the longest, and
/// what it sees of a sequence from memory.
constexpr int64_t kKeys = 512;

int64_t rounded(int64_t longest) { return (longest + kKeys - 1) / kKeys * kKeys; }

}  // namespace

at::Tensor DecodeGraphs::run(int64_t model, const at::Tensor& tokens, const at::Tensor& numbers,
                             int64_t longest, std::vector<at::Tensor> used, const Pass& pass) {
  if (model != std::exchange(model_, model)) steps_.clear();
  const at::Tensor sent = libtorch::sent_to(tokens.device(), numbers);
  Step& step = steps_[{tokens.size(0), rounded(longest)}];
  // A pass that comes once, as the last of a text often does, is not worth recording.
  if (memory_ == nullptr || !std::exchange(step.came_before, true)) {
    return pass(tokens, sent, longest);
  }
  if (step.graph == nullptr) {
    step.tokens = tokens.clone();
    step.numbers = sent.clone();
    step.used = std::move(used);
    record(step, rounded(longest), pass);
    if (memory_ == nullptr) return pass(tokens, sent, longest);
  }
  step.tokens.copy_(tokens);
  step.numbers.copy_(sent);
  step.graph->launch();
  // The next launch writes in the same place.
  return step.states.clone();
}

void DecodeGraphs::record(Step& step, int64_t longest, const Pass& pass) {
  step.graph =
      DeviceGraph::record(memory_, [&] { step.states = pass(step.tokens, step.numbers, longest); });
  if (step.graph != nullptr) return;
  // What cannot be recorded once cannot be later.
  steps_.clear();
  memory_.reset();
}

}  // namespace meg::nn

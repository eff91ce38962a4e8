#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "libmeg/nn/internal/device_graph.h"

namespace meg::nn {

/// Records passes over one new token for each of several cached sequences, one recording for each
/// number of tokens, made when that number occurs a second time. Later passes are queued on the GPU
/// with a single call.
class DecodeGraphs {
 public:
  /// tokens: [T] int64; numbers: [3, T] int64, as CacheStep takes them; no length exceeds
  /// `longest`. Returns hidden states. The results do not depend on `longest`.
  using Pass = std::function<at::Tensor(const at::Tensor& tokens, const at::Tensor& numbers,
                                        int64_t longest)>;

  /// Passes with more tokens keep a GPU busy without a recording.
  static constexpr int64_t kMaxTokens = 64;

  explicit DecodeGraphs(at::Device device) : memory_(DeviceGraph::create_memory(device)) {}

  /// Returns the result of `pass`. model: a number that no other model has. numbers: on the host.
  /// used: tensors that the pass reads in addition to the model's parameters and the cache.
  at::Tensor run(int64_t model, const at::Tensor& tokens, const at::Tensor& numbers,
                 int64_t longest, std::vector<at::Tensor> used, const Pass& pass);

 private:
  struct Step {
    bool came_before = false;
    at::Tensor tokens, numbers, states;
    std::vector<at::Tensor> used;
    std::unique_ptr<DeviceGraph> graph;
  };

  void record(Step& step, int64_t longest, const Pass& pass);

  std::shared_ptr<DeviceGraph::Memory> memory_;  ///< Null if nothing can be recorded.
  int64_t model_ = -1;
  std::map<std::pair<int64_t, int64_t>, Step>
      steps_;  ///< By number of tokens and of keys that they may attend to.
};

}  // namespace meg::nn

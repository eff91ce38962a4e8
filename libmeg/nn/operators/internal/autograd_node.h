#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace meg::nn {

/// A node of autograd's graph, under the owner that this LibTorch has for nodes: shared_ptr, or
/// intrusive_ptr (2.15).
template <class T, class... Arguments>
auto make_node(Arguments&&... arguments) {
  using Owner = decltype(torch::autograd::Edge::function);
  if constexpr (std::is_same_v<Owner, std::shared_ptr<torch::autograd::Node>>) {
    return std::make_shared<T>(std::forward<Arguments>(arguments)...);
  } else {
    return c10::make_intrusive<T>(std::forward<Arguments>(arguments)...);
  }
}

}  // namespace meg::nn

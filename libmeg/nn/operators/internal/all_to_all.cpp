#include "libmeg/nn/operators/internal/all_to_all.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <numeric>
#include <utility>

#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/nn/operators/internal/autograd_node.h"

namespace meg::nn {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;
using Group = std::shared_ptr<parallel::ProcessGroup>;

at::Tensor exchanged(const at::Tensor& rows, const RowsOfRanks& counts, const Group& group) {
  const at::Tensor sent = rows.contiguous();
  const int64_t coming =
      std::accumulate(counts.received.begin(), counts.received.end(), int64_t{0});
  const at::Tensor received = at::empty({coming, sent.size(1)}, sent.options());
  libtorch::throw_if_error(group->all_to_all(received, counts.received, sent, counts.sent));
  return received;
}

class AllToAllBackward : public Node {
 public:
  AllToAllBackward(const at::Tensor& input, RowsOfRanks counts, Group group)
      : counts_(std::move(counts)), group_(std::move(group)) {
    set_next_edges(torch::autograd::collect_next_edges(input));
  }

 protected:
  variable_list apply(variable_list&& gradients) override {
    const c10::NoGradGuard without_gradients;
    return {exchanged(gradients[0], counts_, group_)};
  }

 private:
  RowsOfRanks counts_;  ///< Of the gradients.
  Group group_;
};

}  // namespace

at::Tensor all_to_all(const at::Tensor& rows, const RowsOfRanks& counts, const Group& group) {
  if (group->size() == 1) return rows;
  const bool has_gradient = c10::GradMode::is_enabled() && rows.requires_grad();
  at::Tensor output;
  {
    const c10::NoGradGuard without_gradients;
    output = exchanged(rows.detach(), counts, group);
  }
  if (has_gradient) {
    torch::autograd::set_history(output,
                                 make_node<AllToAllBackward>(rows, counts.reversed(), group));
  }
  return output;
}

}  // namespace meg::nn

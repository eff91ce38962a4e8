#include "libmeg/nn/operators/internal/chosen_rows.h"

#include <ATen/ATen.h>

namespace meg::nn {

at::Tensor chosen_rows(const at::Tensor& hidden_states, const at::Tensor& rows) {
  if (!rows.defined()) return hidden_states;
  return hidden_states.flatten(0, 1).index_select(0, rows).unsqueeze(0);
}

}  // namespace meg::nn

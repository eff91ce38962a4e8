#pragma once

#include <nanobind/nanobind.h>

namespace meg::python {

/// GPTDataset and its batches.
void bind_samples(nanobind::module_& module);

}  // namespace meg::python

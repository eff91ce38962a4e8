#pragma once

#include <nanobind/nanobind.h>

namespace meg::python {

/// IndexedDataset and IndexedDatasetBuilder.
void bind_dataset(nanobind::module_& module);

}  // namespace meg::python

#pragma once

#include <nanobind/nanobind.h>

namespace meg::python {

/// CheckpointReader, from which libmeg/checkpoint.py makes what users see.
void bind_checkpoint(nanobind::module_& module);

}  // namespace meg::python

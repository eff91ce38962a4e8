#pragma once

#include <nanobind/nanobind.h>

namespace meg::python {

/// Tokenizer and what decode_stream() gives.
void bind_tokenizer(nanobind::module_& module);

}  // namespace meg::python

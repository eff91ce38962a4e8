#pragma once

#include <nanobind/nanobind.h>

#include "libmeg/megatron/field_value.h"

namespace meg::python {

/// Megatron's arguments in a dict from str to None, bool, int, float, str, path or list of str.
/// TypeError for other values, which names the key.
megatron::FieldLookup fields_of(const nanobind::dict& values);

}  // namespace meg::python

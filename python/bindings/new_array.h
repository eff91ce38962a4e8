#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace meg::python {

/// A new numpy array of one dimension, and its memory, which is to be filled: numpy's own, so that
/// it may resize the array and takes huge pages where they help.
struct NewArray {
  nanobind::object array;
  std::byte* data;

  NewArray(int64_t size, const char* dtype)
      : array(nanobind::module_::import_("numpy").attr("empty")(size, dtype)),
        data(static_cast<std::byte*>(
            nanobind::cast<nanobind::ndarray<nanobind::numpy>>(array).data())) {}

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

}  // namespace meg::python

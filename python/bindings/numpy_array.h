#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>

namespace meg::python {

/// The place of an index of Python's among `count`, from whose end a negative one counts. What is
/// out of range from below stays so, so that an error has the number that was given. IndexError for
/// a number beyond 64 bits, TypeError for what is none.
inline int64_t index_of(nanobind::handle index, int64_t count) {
  const Py_ssize_t number = PyNumber_AsSsize_t(index.ptr(), PyExc_IndexError);
  if (number == -1 && PyErr_Occurred() != nullptr) throw nanobind::python_error();
  return number < 0 && number >= -count ? number + count : number;
}

enum class Writable { kNo, kYes };

/// A numpy array in place: `owner` keeps its memory until the array and all of its views are gone.
/// The address need not be a multiple of the item's size.
template <class Owner>
nanobind::object array_on(const void* data, std::initializer_list<size_t> shape,
                          nanobind::dlpack::dtype dtype, std::shared_ptr<Owner> owner,
                          Writable writable) {
  namespace nb = nanobind;
  auto held = std::make_unique<std::shared_ptr<Owner>>(std::move(owner));
  const nb::capsule capsule(
      held.get(), [](void* given) noexcept { delete static_cast<std::shared_ptr<Owner>*>(given); });
  held.release();
  // An empty file has no address, and numpy takes none for memory of its own to allocate.
  static std::byte nothing;
  void* const begin = data != nullptr ? const_cast<void*>(data) : &nothing;
  if (writable == Writable::kYes) {
    return nb::cast(
        nb::ndarray<nb::numpy>(begin, shape.size(), shape.begin(), capsule, nullptr, dtype));
  }
  return nb::cast(
      nb::ndarray<nb::numpy, nb::ro>(begin, shape.size(), shape.begin(), capsule, nullptr, dtype));
}

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

// The module libmeg._core. What users call is in libmeg/*.py, or taken from here by
// libmeg/__init__.py.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string_view.h>

#include "libmeg/base/version.h"
#include "python/bindings/checkpoint.h"
#include "python/bindings/dataset.h"
#include "python/bindings/errors.h"
#include "python/bindings/samples.h"
#include "python/bindings/tokenizer.h"

NB_MODULE(_core, module) {
  // Python refuses to load it in isolated ones alone, and that since 3.12.
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
    throw nanobind::import_error(
        "libmeg: expected the main interpreter, found a subinterpreter, which is not supported");
  }
  module.doc() = "The compiled part of libmeg.";
  module.attr("__version__") = meg::version();
  meg::python::bind_errors(module);
  meg::python::bind_checkpoint(module);
  meg::python::bind_dataset(module);
  meg::python::bind_samples(module);
  meg::python::bind_tokenizer(module);
}

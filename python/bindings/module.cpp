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
  module.doc() = "The compiled part of libmeg.";
  module.attr("__version__") = meg::version();
  meg::python::bind_errors(module);
  meg::python::bind_checkpoint(module);
  meg::python::bind_dataset(module);
  meg::python::bind_samples(module);
  meg::python::bind_tokenizer(module);
}

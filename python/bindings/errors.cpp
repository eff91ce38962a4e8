#include "python/bindings/errors.h"

#include <nanobind/stl/string.h>

#include <exception>
#include <string>

namespace meg::python {

namespace nb = nanobind;

void bind_errors(nb::module_& /*module*/) {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void* /*payload*/) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Failure& failure) {
      const nb::object error =
          nb::module_::import_("libmeg.errors")
              .attr("from_code")(std::string(status_code_name(failure.status.code())),
                                 failure.status.message());
      PyErr_SetObject(error.type().ptr(), error.ptr());
    }
  });
}

}  // namespace meg::python

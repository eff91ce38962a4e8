#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <utility>

#include "libmeg/core/status.h"

namespace meg::parallel {

/// Runs `work` and turns what LibTorch throws into a Status. LibTorch reports failure by
/// exceptions; every public function of a room below the line ends in one such guard.
/// work: callable without arguments that returns a Status.
template <class Work>
Status torch_guard(Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const std::bad_alloc&) {
    return make_error(StatusCode::kResourceExhausted, "out of memory");
  } catch (const c10::OutOfMemoryError& error) {
    return make_error(StatusCode::kResourceExhausted, "LibTorch: {}",
                      error.what_without_backtrace());
  } catch (const c10::Error& error) {
    return make_error(StatusCode::kInternal, "LibTorch: {}", error.what_without_backtrace());
  } catch (const std::exception& error) {
    return make_error(StatusCode::kInternal, "{}", error.what());
  } catch (...) {
    return make_error(StatusCode::kInternal, "unknown exception");
  }
}

}  // namespace meg::parallel

#pragma once

#include <arrow/memory_pool.h>
#include <arrow/result.h>
#include <arrow/status.h>
#include <parquet/exception.h>

#include <exception>
#include <new>
#include <string_view>

#include "libmeg/base/result.h"

namespace meg::preprocess {

/// Converts Arrow's error to one line: kResourceExhausted without memory, kUnsupported, or else
/// kCorruption, because all other errors are caused by a file's bytes.
Status status_of(const arrow::Status& status);

/// Why a file cannot be read, for Arrow, whose callers get `why` back from status_of(), without the
/// file's name in front.
arrow::Status arrow_status(const Status& why, std::string_view name);

/// The memory that reading a file may take: Arrow's allocations past it fail.
arrow::MemoryPool* limited_memory();

/// Runs `work`, which returns Status or Result, and turns what Parquet throws into a Status.
template <class Work>
auto arrow_guard(Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const parquet::ParquetStatusException& error) {
    return status_of(error.status());
  } catch (const std::exception& error) {
    return status_of(arrow::Status::Invalid(error.what()));
  }
}

}  // namespace meg::preprocess

/// Like MEG_ASSIGN_OR_RETURN, for an arrow::Result.
#define MEG_ARROW_ASSIGN(declaration, expression)                                      \
  auto MEG_CONCAT(arrow_result_, __LINE__) = (expression);                             \
  if (!MEG_CONCAT(arrow_result_, __LINE__).ok()) {                                     \
    return ::meg::preprocess::status_of(MEG_CONCAT(arrow_result_, __LINE__).status()); \
  }                                                                                    \
  declaration = std::move(MEG_CONCAT(arrow_result_, __LINE__)).ValueUnsafe()

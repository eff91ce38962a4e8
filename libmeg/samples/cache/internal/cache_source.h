#pragma once

#include <optional>

#include "libmeg/base/result.h"
#include "libmeg/megatron/megatron_version.h"
#include "libmeg/samples/cache/gpt_index_cache.h"
#include "libmeg/samples/cache/internal/idx_stamp.h"
#include "libmeg/samples/gpt_index_plan.h"

namespace meg::samples {

/// The data for a requested cache; what takes time to read is read on first use.
class CacheSource {
 public:
  /// Both must outlive it.
  CacheSource(const GptIndexCacheRequest& request, const megatron::MegatronVersion& version)
      : request_(request), version_(version) {}

  const GptIndexCacheRequest& request() const { return request_; }

  const dataset::IndexedDataset& dataset() const { return *request_.dataset; }

  /// kInvalidArgument or kOutOfRange if no cache can be built for the request.
  Status check() const;

  Result<IdxStamp> stamp();
  Result<LengthTotals> totals();

  /// kInvalidArgument if there are no tokens; otherwise the result of plan_gpt_index().
  Result<GptIndexPlan> plan(const LengthTotals& totals) const;

  /// Reads everything from which a cache is built; fails if something is wrong with it.
  Status prepare();

 private:
  const GptIndexCacheRequest& request_;
  const megatron::MegatronVersion& version_;
  std::optional<IdxStamp> stamp_;
  std::optional<LengthTotals> totals_;
};

}  // namespace meg::samples

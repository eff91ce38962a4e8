#pragma once

#include "libmeg/base/status.h"
#include "libmeg/checkpoint/transfer/tensor_transfer.h"

namespace meg::checkpoint {

/// Compares a plan with the files it names: shapes, stretches and storages fit each other, every
/// target storage is written once. kInternal names the transfer and what does not fit.
Status check_plan(const TransferPlan& plan);

}  // namespace meg::checkpoint

#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/dataset/shard_run.h"
#include "libmeg/preprocess/preprocess.h"
#include "libmeg/preprocess/sources/internal/text_source.h"

namespace meg::preprocess {

/// Names and values of the options that determine the tokens of each document.
std::vector<std::pair<std::string, std::string>> run_settings(const PreprocessOptions& options,
                                                              DType dtype);

/// What all shards of a run with these options have in common; empty of one that has no shards.
/// source: of the options' inputs.
dataset::ShardRun shard_run(const PreprocessOptions& options, DType dtype,
                            const TextSource& source);

}  // namespace meg::preprocess

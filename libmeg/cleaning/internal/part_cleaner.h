#pragma once

#include <memory>
#include <vector>

#include "libmeg/cleaning/clean.h"
#include "libmeg/cleaning/internal/shared_state.h"
#include "libmeg/cleaning/internal/step.h"
#include "libmeg/cleaning/ngrams/decontaminate.h"
#include "libmeg/preprocess/read_texts.h"

namespace meg::cleaning {

/// Takes parts of the input through all steps that look at one document alone, settles what depends
/// on the documents before, and writes, for one thread. ngrams: null where they are not looked for.
std::unique_ptr<preprocess::TextVisitor> make_part_cleaner(const CleanOptions& options,
                                                           const std::vector<StepPlan>& plans,
                                                           TestNgrams* ngrams, SharedState& shared);

}  // namespace meg::cleaning

#pragma once

#include <memory>
#include <vector>

#include "libmeg/cleaning/clean.h"
#include "libmeg/cleaning/internal/step.h"
#include "libmeg/cleaning/ngrams/decontaminate.h"
#include "libmeg/preprocess/read_texts.h"

namespace meg::cleaning {

/// Counts the n-grams of test sets in the documents that pass the steps, for one thread.
std::unique_ptr<preprocess::TextVisitor> make_ngram_counter(const CleanOptions& options,
                                                            const std::vector<StepPlan>& plans,
                                                            TestNgrams& ngrams);

}  // namespace meg::cleaning

#pragma once

#include <string_view>

namespace meg {

/// Whether another value of this field of args changes what the model computes, apart from the
/// fields that GptConfig reads.
bool changes_the_model(std::string_view dest);

}  // namespace meg

#pragma once

#include <optional>
#include <string>

namespace meg::tokenizer {

/// The folder in which huggingface_hub keeps downloads: $HF_HUB_CACHE, or else
/// $HUGGINGFACE_HUB_CACHE, or else `hub` in $HF_HOME, or else `huggingface/hub` in $XDG_CACHE_HOME
/// or ~/.cache.
std::string hub_cache_folder();

/// The folder with the files of a model such as "gpt2" or "Qwen/Qwen2.5-7B", at the last known
/// revision of `main`; nullopt if the name is not that of a model or the cache has no such model.
/// Nothing is downloaded: this is what transformers reads with HF_HUB_OFFLINE=1.
std::optional<std::string> cached_model_folder(const std::string& model);

}  // namespace meg::tokenizer

#include "libmeg/s3/find_objects.h"

#include <fnmatch.h>

#include <algorithm>
#include <memory>

#include "libmeg/s3/object_store.h"

namespace meg::s3 {
namespace {

using Addresses = std::vector<std::string>;

/// Stores keep folders as empty objects whose names end so.
bool is_folder(const std::string& address) { return address.ends_with('/'); }

bool is_hidden(const std::string& address) {
  return address.substr(address.rfind('/') + 1).starts_with('.');
}

Result<Addresses> sorted(Addresses found, const std::string& address, std::string_view none) {
  std::erase_if(found, is_folder);
  if (found.empty()) return make_error(StatusCode::kNotFound, "{}: {}", address, none);
  std::sort(found.begin(), found.end());
  return found;
}

Result<Addresses> find_matches(const ObjectStore& store, const std::string& pattern) {
  // Stores list by the begin of names alone: what stands before the first wildcard bounds the list.
  const std::string begin = pattern.substr(0, pattern.find_first_of("*?["));
  MEG_ASSIGN_OR_RETURN(Addresses found, store.list(begin, false));
  // Keys may hold these characters: an object of exactly this name is meant, not the pattern.
  if (std::find(found.begin(), found.end(), pattern) != found.end()) return Addresses{pattern};
  std::erase_if(found, [&](const std::string& address) {
    return ::fnmatch(pattern.c_str(), address.c_str(), FNM_PATHNAME | FNM_PERIOD) != 0;
  });
  return sorted(std::move(found), pattern, "no object matches this pattern");
}

Result<Addresses> list_folder(const ObjectStore& store, const std::string& folder) {
  MEG_ASSIGN_OR_RETURN(Addresses found,
                       store.list(is_folder(folder) ? folder : folder + '/', true));
  std::erase_if(found, is_hidden);
  return sorted(std::move(found), folder, "no such object, and none in a folder of this name");
}

}  // namespace

Result<Addresses> find_objects(const std::string& address) {
  MEG_ASSIGN_OR_RETURN(const ObjectStore* const store, object_store());
  if (address.find_first_of("*?[") != address.npos) return find_matches(*store, address);
  if (is_folder(address)) return list_folder(*store, address);
  // Asked for first, as most addresses are objects; only a missing one costs a list.
  const auto object = store->open(address);
  if (object.has_value()) return Addresses{address};
  if (object.error().code() != StatusCode::kNotFound) return object.error();
  return list_folder(*store, address);
}

}  // namespace meg::s3

# Finds the Arrow C++ libraries inside the PyPI wheel pyarrow and declares meg::arrow.
#
# Looked for in ${MEG_ARROW_ROOT}, then in the Python environment that scripts/setup.sh makes in
# ${MEG_DEPS:-$HOME/.cache/libmeg}/venv; for the wheel, in the environment that builds it alone.
#
# MegArrow_FOUND, MegArrow_VERSION, MegArrow_parquet_LIBRARY; target meg::arrow.

set(MEG_ARROW_ROOT "" CACHE PATH "Folder named pyarrow of a pyarrow wheel; empty: look in MEG_DEPS")

if(DEFINED ENV{MEG_DEPS})
  set(meg_deps $ENV{MEG_DEPS})
else()
  set(meg_deps $ENV{HOME}/.cache/libmeg)
endif()
file(GLOB meg_arrow_candidates ${meg_deps}/venv/lib/python3*/site-packages/pyarrow)
if(SKBUILD)
  execute_process(COMMAND ${Python_EXECUTABLE} -c
      "from importlib.util import find_spec; print(*find_spec('pyarrow').submodule_search_locations)"
    OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE meg_arrow_candidates COMMAND_ERROR_IS_FATAL ANY)
endif()
find_path(MegArrow_INCLUDE_DIR parquet/arrow/reader.h
  HINTS ${MEG_ARROW_ROOT} ${meg_arrow_candidates} PATH_SUFFIXES include NO_DEFAULT_PATH)
mark_as_advanced(MegArrow_INCLUDE_DIR)

if(MegArrow_INCLUDE_DIR)
  cmake_path(GET MegArrow_INCLUDE_DIR PARENT_PATH meg_arrow_root)
  file(STRINGS ${MegArrow_INCLUDE_DIR}/arrow/util/config.h meg_arrow_version_line
       REGEX "define ARROW_VERSION_STRING")
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" MegArrow_VERSION "${meg_arrow_version_line}")
  # The wheel has the libraries under their versioned names alone: libarrow.so.2600.
  foreach(name arrow parquet)
    file(GLOB meg_arrow_library ${meg_arrow_root}/lib${name}.so.*)
    set(MegArrow_${name}_LIBRARY "${meg_arrow_library}")
  endforeach()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(MegArrow
  REQUIRED_VARS MegArrow_INCLUDE_DIR MegArrow_arrow_LIBRARY MegArrow_parquet_LIBRARY
  VERSION_VAR MegArrow_VERSION)

if(MegArrow_FOUND AND NOT TARGET meg::arrow)
  # Those who use none of it are not bound to it.
  add_library(meg::arrow INTERFACE IMPORTED)
  set_target_properties(meg::arrow PROPERTIES
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${MegArrow_INCLUDE_DIR}
    INTERFACE_INCLUDE_DIRECTORIES ${MegArrow_INCLUDE_DIR}
    INTERFACE_LINK_LIBRARIES
      "-Wl,--push-state,--as-needed ${MegArrow_parquet_LIBRARY} ${MegArrow_arrow_LIBRARY} -Wl,--pop-state")
endif()

# Finds the LibTorch inside the PyPI torch wheel and declares meg::torch.
#
# Looked for in ${MEG_TORCH_ROOT}, then in the Python environment that scripts/setup.sh makes in
# ${MEG_DEPS:-$HOME/.cache/libmeg}/venv. The wheel's own TorchConfig.cmake stops where no CUDA toolkit
# is installed, although its libraries run there; so the libraries are named here.
#
# MegTorch_FOUND, MegTorch_VERSION, MegTorch_VENV (the environment, for torchrun), MegTorch_CUDA_FOLDERS (CUDA's libraries);
# target meg::torch.

set(MEG_TORCH_ROOT "" CACHE PATH "Folder named torch of a torch wheel; empty: look in MEG_DEPS")

if(DEFINED ENV{MEG_DEPS})
  set(meg_deps $ENV{MEG_DEPS})
else()
  set(meg_deps $ENV{HOME}/.cache/libmeg)
endif()
file(GLOB meg_torch_candidates ${meg_deps}/venv/lib/python3*/site-packages/torch)
find_path(MegTorch_INCLUDE_DIR ATen/ATen.h
  HINTS ${MEG_TORCH_ROOT} ${meg_torch_candidates} PATH_SUFFIXES include NO_DEFAULT_PATH)
mark_as_advanced(MegTorch_INCLUDE_DIR)

if(MegTorch_INCLUDE_DIR)
  cmake_path(GET MegTorch_INCLUDE_DIR PARENT_PATH meg_torch_root)
  foreach(name torch torch_cpu c10)
    find_library(MegTorch_${name}_LIBRARY ${name} PATHS ${meg_torch_root}/lib NO_DEFAULT_PATH)
    mark_as_advanced(MegTorch_${name}_LIBRARY)
  endforeach()
  file(STRINGS ${meg_torch_root}/version.py meg_torch_version_line REGEX "^__version__")
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" MegTorch_VERSION "${meg_torch_version_line}")
  cmake_path(SET MegTorch_VENV NORMALIZE ${meg_torch_root}/../../../..)
  # CUDA's libraries, which are wheels of their own beside torch's.
  cmake_path(GET meg_torch_root PARENT_PATH meg_site_packages)
  file(GLOB MegTorch_CUDA_FOLDERS ${meg_site_packages}/nvidia/*/lib)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(MegTorch
  REQUIRED_VARS MegTorch_INCLUDE_DIR MegTorch_torch_LIBRARY MegTorch_torch_cpu_LIBRARY
                MegTorch_c10_LIBRARY
  VERSION_VAR MegTorch_VERSION)

if(MegTorch_FOUND AND NOT TARGET meg::torch)
  # Put them in the run path of programs, so that they run where LibTorch does, without a CUDA toolkit.
  list(TRANSFORM MegTorch_CUDA_FOLDERS PREPEND "LINKER:-rpath," OUTPUT_VARIABLE meg_torch_run_path)
  # Search after the system's folders, because the wheel carries an fmt of its own beside ATen. The
  # C++ library is named first: LibTorch brings some of its functions too, whose remove_all crashes.
  add_library(meg::torch INTERFACE IMPORTED)
  set_target_properties(meg::torch PROPERTIES
    INTERFACE_COMPILE_OPTIONS
      "SHELL:-idirafter ${MegTorch_INCLUDE_DIR};SHELL:-idirafter ${MegTorch_INCLUDE_DIR}/torch/csrc/api/include"
    INTERFACE_LINK_OPTIONS "${meg_torch_run_path}"
    INTERFACE_COMPILE_DEFINITIONS "USE_DISTRIBUTED;USE_C10D_GLOO"
    INTERFACE_LINK_LIBRARIES
      "stdc++;${MegTorch_torch_LIBRARY};${MegTorch_torch_cpu_LIBRARY};${MegTorch_c10_LIBRARY}")
endif()

# LibTorch for the lower half, and one precompiled ATen header for all targets that include it.

find_package(MegTorch 2.11 MODULE)
if(NOT MegTorch_FOUND)
  message(FATAL_ERROR
    "LibTorch (the PyPI wheel torch==2.11.0) was not found. Install it with\n"
    "    scripts/setup.sh\n"
    "or build the torch-free half alone with -DMEG_WITH_TORCH=OFF. MEG_DEPS or -DMEG_TORCH_ROOT=... "
    "say where the wheel is.")
endif()

# Installed programs look for LibTorch elsewhere (tools/CMakeLists.txt): the folders in the build tree are not theirs.
set_target_properties(meg::torch PROPERTIES INTERFACE_LINK_OPTIONS "")
list(APPEND CMAKE_BUILD_RPATH ${MegTorch_CUDA_FOLDERS})
# Messages of LibTorch's macros name sources; not by where they lay on one machine.
set(meg_unplaced_sources -fmacro-prefix-map=${meg_site_packages}/= -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
set_property(TARGET meg::torch APPEND PROPERTY INTERFACE_COMPILE_OPTIONS ${meg_unplaced_sources})

# ATen/ATen.h takes 12 s to compile, 2 s precompiled.
add_library(meg_aten_pch OBJECT ${CMAKE_CURRENT_LIST_DIR}/aten_pch.cpp)
target_link_libraries(meg_aten_pch PRIVATE meg_options meg::torch)
target_precompile_headers(meg_aten_pch PRIVATE <ATen/ATen.h>)
target_compile_options(meg_aten_pch PRIVATE -fPIC)  # the same for libraries and programs

# meg_reuse_aten(TARGET): TARGET, which links meg::torch, compiles with the precompiled ATen header.
function(meg_reuse_aten target)
  # Optimized as the header is, whatever the folder's options are.
  target_compile_options(${target} PRIVATE -fPIC $<$<CONFIG:Release>:-O3>)
  target_precompile_headers(${target} REUSE_FROM meg_aten_pch)
endfunction()

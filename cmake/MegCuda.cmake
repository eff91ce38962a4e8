# Decides whether CUDA kernels are compiled: MEG_WITH_CUDA is AUTO (where a CUDA 13 toolkit is
# found), ON (required) or OFF. Sets MEG_CUDA_FOUND and enables the CUDA language.
#
# Kernels are compiled for sm_80 and sm_90, and as PTX for what comes after; CUDA 13 knows nothing
# older than sm_75, so Volta is out.

set(MEG_WITH_CUDA AUTO CACHE STRING "Compile CUDA kernels: AUTO, ON or OFF")
set_property(CACHE MEG_WITH_CUDA PROPERTY STRINGS AUTO ON OFF)
set(MEG_CUDA_FOUND OFF)
if(MEG_WITH_CUDA STREQUAL "OFF")
  return()
endif()

find_program(MEG_NVCC nvcc
  HINTS ENV CUDACXX ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda /usr/local/cuda-13.0
  PATH_SUFFIXES bin DOC "The CUDA compiler")
mark_as_advanced(MEG_NVCC)
set(meg_cuda_problem "")
if(NOT MEG_NVCC)
  set(meg_cuda_problem "no CUDA compiler (nvcc) found")
else()
  execute_process(COMMAND ${MEG_NVCC} --version OUTPUT_VARIABLE meg_nvcc_version)
  if(NOT meg_nvcc_version MATCHES "release 13\\.")
    set(meg_cuda_problem "${MEG_NVCC} is not of CUDA 13")
  endif()
endif()
if(meg_cuda_problem)
  if(MEG_WITH_CUDA STREQUAL "AUTO")
    message(WARNING "${meg_cuda_problem}: libmeg is built WITHOUT CUDA kernels, for CPUs only")
    return()
  endif()
  message(FATAL_ERROR "${meg_cuda_problem}, and MEG_WITH_CUDA is ${MEG_WITH_CUDA}")
endif()

if(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER ${MEG_NVCC})
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 90-virtual)
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # LibTorch brings the same libcudart.so.13
enable_language(CUDA)
# Names intermediate files after the object; by default they have nvcc's process number, which stays in the object and, by its
# build ID, in every program.
add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:--objdir-as-tempdir>)
find_package(CUDAToolkit REQUIRED)
set(MEG_CUDA_FOUND ON)

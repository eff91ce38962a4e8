# Debian packages by CPack, one for each component of the installation; scripts/build_packages.sh runs it.
set(CPACK_PACKAGE_NAME libmeg)
set(CPACK_PACKAGE_VENDOR libmeg)
set(CPACK_PACKAGE_CONTACT "libmeg maintainers <maintainers@libmeg.invalid>" CACHE STRING "Maintainer of the packages")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL tools development)
if(MEG_WITH_TORCH)
  list(APPEND CPACK_COMPONENTS_ALL train)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)
# What comes from Python packages is no package's.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${MegTorch_CUDA_FOLDERS})
foreach(headers IN LISTS MegArrow_INCLUDE_DIR MegTorch_INCLUDE_DIR)
  cmake_path(GET headers PARENT_PATH folder)
  list(APPEND CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${folder} ${folder}/lib)
endforeach()
set(meg_same_version "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME libmeg-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS "libmeg-train, python3")
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "datasets, tokenizers and checkpoints of Megatron-LM
Tokenizes text into the datasets of Megatron-LM, joins, inspects and
verifies them; trains and inspects tokenizers; reshapes, converts, inspects
and compares checkpoints. The programs take the flags of Megatron-LM and
need neither Python nor LibTorch.")

# Programs find LibTorch where pip has it; Debian 12 has no LibTorch that is new enough.
set(CPACK_DEBIAN_TRAIN_PACKAGE_NAME libmeg-train)
set(CPACK_DEBIAN_TRAIN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_TRAIN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TRAIN_PACKAGE_DEPENDS "libmeg-tools ${meg_same_version}")
set(CPACK_DEBIAN_TRAIN_PACKAGE_RECOMMENDS python3-pip)
set(CPACK_COMPONENT_TRAIN_DESCRIPTION "training, evaluation and generation with models of Megatron-LM
Trains GPT models, evaluates them, generates text and serves it, with the
flags and the checkpoints of Megatron-LM. The programs use the LibTorch of
the Python package torch, which they look for when they start.")

# What libmegConfig.cmake and libmeg.pc look for.
set(meg_needs ${meg_linked_packages})
list(FILTER meg_needs EXCLUDE REGEX "cli11|curl|pugixml")
list(JOIN meg_needs ", " meg_needs)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libmeg-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libmeg-tools ${meg_same_version}, ${meg_needs}")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "cmake, pkg-config")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "toolkit for Megatron-LM - C++ library and headers
Static libraries, headers, the CMake package and the pkg-config module of
libmeg, which reads and writes the datasets, tokenizers and checkpoints of
Megatron-LM.")

set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/MegDebianFiles.cmake)
include(CPack)

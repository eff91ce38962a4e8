# Gives the staged files of each Debian package what Debian's policy asks for.
set(staged ${CPACK_TEMPORARY_INSTALL_DIRECTORY})
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(share ${staged}/${component}/usr/share)
  set(doc ${share}/doc/${package})
  file(MAKE_DIRECTORY ${doc})
  configure_file(${CMAKE_CURRENT_LIST_DIR}/debian_copyright.in ${doc}/copyright @ONLY)
  file(WRITE ${doc}/changelog.Debian
    "libmeg (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) stable; urgency=medium\n\n"
    "  * See /usr/share/doc/libmeg/CHANGELOG.md of the package libmeg-tools.\n\n"
    " -- ${CPACK_PACKAGE_CONTACT}  $ENV{MEG_PACKAGE_DATE}\n")
  file(GLOB pages ${share}/man/man1/*.1)
  execute_process(COMMAND gzip -9n ${doc}/changelog.Debian ${pages} COMMAND_ERROR_IS_FATAL ANY)
  # Debian's zsh looks there.
  if(EXISTS ${share}/zsh/site-functions)
    file(RENAME ${share}/zsh/site-functions ${share}/zsh/vendor-completions)
  endif()
  # nvcc names its temporary files by its process, and the compiler notes their names.
  file(GLOB libraries ${staged}/${component}/usr/lib/*.a)
  if(libraries)
    execute_process(COMMAND strip --strip-unneeded --enable-deterministic-archives ${libraries} COMMAND_ERROR_IS_FATAL ANY)
  endif()
  # The licence of packages is in their copyright file.
  file(REMOVE ${share}/doc/libmeg/LICENSE)
  if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/${package}.lintian-overrides)
    configure_file(${CMAKE_CURRENT_LIST_DIR}/${package}.lintian-overrides ${share}/lintian/overrides/${package} COPYONLY)
  endif()
endforeach()

# What `cmake --install` puts where another project finds it: find_package(saccade) then gives saccade::saccade,
# which is what saccade/saccade.h declares.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

function(saccade_install)
  set(rungs ${ARGN})
  list(TRANSFORM rungs PREPEND saccade_ OUTPUT_VARIABLE targets)
  add_library(saccade_public INTERFACE)
  set_target_properties(saccade_public PROPERTIES EXPORT_NAME saccade)
  target_link_libraries(saccade_public INTERFACE ${targets})
  install(TARGETS saccade_public ${targets} EXPORT saccade ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  set(package "${CMAKE_INSTALL_LIBDIR}/cmake/saccade")
  install(EXPORT saccade NAMESPACE saccade:: FILE saccadeTargets.cmake DESTINATION "${package}")
  foreach(rung IN LISTS rungs)
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/src/saccade/${rung}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/saccade"
            FILES_MATCHING PATTERN "*.h" PATTERN "testing.h" EXCLUDE)
  endforeach()
  install(FILES "${PROJECT_SOURCE_DIR}/src/saccade/saccade.h" "${PROJECT_BINARY_DIR}/generated/saccade/version.h"
          DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/saccade")
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/saccadeConfig.cmake.in"
    "${PROJECT_BINARY_DIR}/generated/saccadeConfig.cmake" INSTALL_DESTINATION "${package}")
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/generated/saccadeConfigVersion.cmake"
    COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/generated/saccadeConfig.cmake"
    "${PROJECT_BINARY_DIR}/generated/saccadeConfigVersion.cmake"
    "${PROJECT_SOURCE_DIR}/cmake/FindLibTorch.cmake" "${PROJECT_SOURCE_DIR}/cmake/FindPCRE2.cmake"
    "${PROJECT_SOURCE_DIR}/cmake/Findutf8proc.cmake" DESTINATION "${package}")
  install(TARGETS saccade RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endfunction()

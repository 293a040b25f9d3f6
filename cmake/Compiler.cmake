# How every file of the project is compiled: C++20, strict floating point, warnings as errors.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")  # kernels are vectorised by hand; -O3 only compiles more slowly

# Contraction to fused multiply-add would make results depend on the machine; kernels ask for it by name.
add_compile_options(-ffp-contract=off)

# One flag for libraries and programs alike, where CMake would give -fPIC to the former and -fPIE to the
# latter: only then can all of them share one precompiled header.
add_compile_options(-fPIC)

if(SACCADE_SANITIZE)
  add_compile_options(-fsanitize=${SACCADE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SACCADE_SANITIZE})
endif()

# What holds for our own code but not for a program that links it.
add_library(saccade_warnings INTERFACE)
target_compile_options(saccade_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Werror
                       # Options are aggregates with designated initialisers; what is not named keeps its default.
                       -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees an overlap in "text" + std::string() where there is none (its bug 105651).
  target_compile_options(saccade_warnings INTERFACE -Wno-restrict)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  # Without these, ccache never finds a file again that was compiled with a precompiled header.
  set(sloppiness pch_defines,time_macros,include_file_mtime,include_file_ctime)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=${sloppiness} ${CCACHE})
endif()

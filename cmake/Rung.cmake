# One folder of src/saccade is one rung of the ladder: a static library, its tests, and perhaps a program.
#
#   saccade_rung(<folder> LINKS <rung or target>... [SOURCES <extra file>...] [PCH <header>] [MAIN <program>]
#                [APART <file>...|ALL] [COLD])
#
# makes from src/saccade/<folder>:
#   saccade_<folder>   the library, of all *.cc that are not named below
#   <folder>_test      of the *_test.cc, one test of ctest; --gtest_filter chooses among those in it
#   <folder>_fuzz      of fuzz.cc, always with the sanitizers; ctest gives it a short run
#   <program>          of main.cc, when MAIN gives its name
# Files are compiled several at a time (SACCADE_JOINED), which shares what headers cost; those that use the same
# names for different things stand APART. A COLD rung has no loops that take time: it is
# compiled quickly instead of thoroughly, as tests are.
# LINKS names lower rungs by their folder and anything else by its target. A folder without sources yet passes
# on what it would have linked. Without SACCADE_TORCH, rungs that stand on LibTorch are left out.

function(saccade_rung folder)
  cmake_parse_arguments(PARSE_ARGV 1 rung "COLD" "PCH;MAIN" "LINKS;SOURCES;APART")
  if(rung_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "saccade_rung(${folder}): unexpected ${rung_UNPARSED_ARGUMENTS}")
  endif()
  set(directory "${PROJECT_SOURCE_DIR}/src/saccade/${folder}")
  saccade_resolve_links(${folder} links uses_torch ${rung_LINKS})
  set_property(GLOBAL PROPERTY saccade_uses_torch_${folder} ${uses_torch})
  if(uses_torch AND NOT SACCADE_TORCH)
    return()
  endif()

  file(GLOB sources CONFIGURE_DEPENDS "${directory}/*.cc")
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(_test|/fuzz|/main)\\.cc$")
  list(APPEND sources ${rung_SOURCES})
  if(NOT sources)
    message(STATUS "src/saccade/${folder}: no sources yet")
    add_library(saccade_${folder} INTERFACE)
    target_link_libraries(saccade_${folder} INTERFACE ${links})
    return()
  endif()

  if(rung_APART STREQUAL "ALL")
    set(rung_APART ${sources} ${tests})
  else()
    list(TRANSFORM rung_APART PREPEND "${directory}/")
  endif()
  set_source_files_properties(${rung_APART} ${rung_SOURCES} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set_property(GLOBAL PROPERTY saccade_sources_${folder} ${sources})
  set_property(GLOBAL PROPERTY saccade_links_${folder} ${rung_LINKS})
  add_library(saccade_${folder} STATIC ${sources})
  target_include_directories(saccade_${folder} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>"
    "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>" "$<INSTALL_INTERFACE:include>")
  target_link_libraries(saccade_${folder} PUBLIC ${links} PRIVATE "$<BUILD_INTERFACE:saccade_warnings>")
  target_compile_features(saccade_${folder} PUBLIC cxx_std_20)
  if(rung_COLD)
    saccade_compile_quickly(saccade_${folder})
  endif()
  saccade_precompile(saccade_${folder} "${rung_PCH}")
  saccade_join(saccade_${folder})

  if(SACCADE_OPERATORS_ONLY)
    return()
  endif()
  if(tests)
    set(test_pch "${rung_PCH}")
    if(NOT test_pch AND NOT "Saccade::openmp" IN_LIST rung_LINKS)  # compiled with other switches
      set(test_pch src/saccade/test_pch.h)
    endif()
    saccade_program(${folder}_test ${folder} "${test_pch}" ${tests})
    saccade_join(${folder}_test)
    if(NOT rung_PCH AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
      # GCC 12 sees long strings overflow where they do not, when it inlines what a test compares.
      target_compile_options(${folder}_test PRIVATE -Wno-stringop-overflow -Wno-array-bounds)
    endif()
    target_link_libraries(${folder}_test PRIVATE GTest::gmock GTest::gtest_main)
    # One process for all: starting LibTorch anew for each of some thousand tests took minutes.
    add_test(NAME ${folder}_test COMMAND ${folder}_test --gtest_brief=1)
    set_tests_properties(${folder}_test PROPERTIES ENVIRONMENT "OMP_WAIT_POLICY=passive")  # others run beside it
  endif()
  if(EXISTS "${directory}/fuzz.cc")
    saccade_fuzzer(${folder} "${directory}/fuzz.cc")
  endif()
  if(rung_MAIN)
    saccade_program(${rung_MAIN} ${folder} "${rung_PCH}" "${directory}/main.cc")
  endif()
endfunction()

# The targets behind LINKS, and whether LibTorch is among them or below them. A rung must already be declared:
# that is what makes it lower.
function(saccade_resolve_links folder out_links out_uses_torch)
  set(links "")
  set(uses_torch FALSE)
  foreach(link IN LISTS ARGN)
    if(link MATCHES "::")
      list(APPEND links ${link})
      if(link STREQUAL "LibTorch::torch")
        set(uses_torch TRUE)
      endif()
    else()
      get_property(declared GLOBAL PROPERTY saccade_uses_torch_${link} SET)
      if(NOT declared)
        message(FATAL_ERROR "saccade_rung(${folder}): '${link}' is no lower rung")
      endif()
      get_property(below GLOBAL PROPERTY saccade_uses_torch_${link})
      if(below)
        set(uses_torch TRUE)
      endif()
      list(APPEND links saccade_${link})
    endif()
  endforeach()
  set(${out_links} "${links}" PARENT_SCOPE)
  set(${out_uses_torch} ${uses_torch} PARENT_SCOPE)
endfunction()

# A rung once more, with the sanitizers; those below it too. Fuzzers share them.
function(saccade_sanitized folder)
  if(TARGET saccade_${folder}_sanitized)
    return()
  endif()
  get_property(sources GLOBAL PROPERTY saccade_sources_${folder})
  get_property(links GLOBAL PROPERTY saccade_links_${folder})
  add_library(saccade_${folder}_sanitized STATIC EXCLUDE_FROM_ALL ${sources})
  set(flags -fsanitize=address,undefined -fno-sanitize-recover=all -O1 -g1)
  target_compile_options(saccade_${folder}_sanitized PUBLIC ${flags})
  target_link_options(saccade_${folder}_sanitized PUBLIC ${flags})
  target_include_directories(saccade_${folder}_sanitized PUBLIC "${PROJECT_SOURCE_DIR}/src"
                             "${PROJECT_BINARY_DIR}/generated")
  target_link_libraries(saccade_${folder}_sanitized PRIVATE saccade_warnings)
  saccade_precompile(saccade_${folder}_sanitized src/saccade/sanitized_pch.h)
  saccade_join(saccade_${folder}_sanitized)
  foreach(link IN LISTS links)
    if(NOT link MATCHES "::")
      saccade_sanitized(${link})
      set(link saccade_${link}_sanitized)
    endif()
    target_link_libraries(saccade_${folder}_sanitized PUBLIC ${link})
  endforeach()
endfunction()

# A fuzzer that does not watch memory finds little: whatever the build, it is compiled with the sanitizers.
function(saccade_fuzzer folder main)
  saccade_sanitized(${folder})
  add_executable(${folder}_fuzz ${main})
  target_link_libraries(${folder}_fuzz PRIVATE saccade_${folder}_sanitized saccade_warnings)
  add_test(NAME ${folder}_fuzz COMMAND ${folder}_fuzz --iterations 10000)  # `make fuzz` goes on for longer
endfunction()

function(saccade_program name folder pch)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE saccade_${folder} saccade_warnings)
  saccade_compile_quickly(${name})  # tests, and main() of the program
  saccade_precompile(${name} "${pch}")
endfunction()

# The first target that asks for a header compiles it, the others reuse it: LibTorch alone takes half a minute.
function(saccade_precompile target header)
  if(NOT header)
    return()
  endif()
  get_target_property(quickly ${target} SACCADE_QUICKLY)  # headers serve those with the same switches
  set(key "saccade_pch_${header}_${quickly}")
  get_property(owner GLOBAL PROPERTY "${key}")
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  else()
    target_precompile_headers(${target} PRIVATE "${PROJECT_SOURCE_DIR}/${header}")
    set_property(GLOBAL PROPERTY "${key}" ${target})
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)  # ccache needs to see which header was used
  endif()
endfunction()

# Eight files at a time: a rung in one piece would leave the other cores idle, and take long after every change.
function(saccade_join target)
  if(SACCADE_JOINED)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # takes the joined files for headers
    endif()
  endif()
endfunction()

# A quarter less time than -O2. Later switches win.
function(saccade_compile_quickly target)
  set_target_properties(${target} PROPERTIES SACCADE_QUICKLY ON)
  target_compile_options(${target} PRIVATE "$<$<CONFIG:Release>:-O1>")
endfunction()

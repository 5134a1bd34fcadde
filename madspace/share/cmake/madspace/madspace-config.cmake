# find_package(madspace 1.1 CONFIG REQUIRED) with -Dmadspace_DIR=$(python -c "import madspace.capi as c;
# print(c.get_cmake_dir())"). Gives the target madspace::capi, headers alone: nothing is linked. Who uses it brings
# Python along (find_package(Python3 COMPONENTS Development.Module), or Development.Embed).
get_filename_component(_madspace_package "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(madspace_INCLUDE_DIRS "${_madspace_package}/include")
if(NOT TARGET madspace::capi)
  add_library(madspace::capi INTERFACE IMPORTED)
  set_target_properties(madspace::capi PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${madspace_INCLUDE_DIRS}")
endif()
unset(_madspace_package)

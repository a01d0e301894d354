"""Arrays in files: read whole and checked, written complete or not at all. Used by the session's `load`, `save`, `output`
and by the command's `--x file`."""

from gla.lang.io.arrays import read_array, write_arrays
from gla.lang.io.paths import check_folder, split_place

__all__ = ["check_folder", "read_array", "split_place", "write_arrays"]

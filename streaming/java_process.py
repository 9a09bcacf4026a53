"""Sets options and classes of Spark's Java process, so that it and Python's workers return freed
memory, and so that Hadoop's local file system starts no process for each new file.

By default Java and Python keep freed memory. The figures in the comments were measured with 2,000
hostile records (69 MB, five of 8 MB each) on Kafka, driver_memory 1g (docs/decisions/0210).

Hadoop sets the mode of a file with the program `chmod` wherever its native library is missing, and
PySpark has no such library. A micro-batch makes three files with a checksum file each, so it starts
six processes: 20 to 25 ms of CPU, and more time than that. Java can set modes without a process.
"""

import re
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JError

#: Largest heap (bytes) with the serial collector; with larger ones Java chooses collector and
#: sizes, because a full collection by one thread would take seconds.
_SERIAL_UP_TO = 2 * 2**30
#: G1, Java's own choice, takes 70 MiB for itself and 130 MiB more for large arrays, each in regions
#: of its own. With less free memory, a micro-batch with 17 MB of state takes full collections
#: (docs/decisions/0257).
_SMALL_HEAP = (
    "-XX:+UseSerialGC",
    "-Xms64m",
    "-Xmn64m",
    "-XX:MinHeapFreeRatio=40",
    "-XX:MaxHeapFreeRatio=60",
    # Otherwise each thread keeps a buffer as large as the largest answer of a server: 8 MiB.
    "-Djdk.nio.maxCachedBufferSize=1048576",
)
#: What the compilers free stays in pieces between what lives: 60 of 700 MiB after 2,000
#: micro-batches (docs/decisions/0257). Java 17 knows this option since 17.0.9.
_TRIM = ("-XX:+IgnoreUnrecognizedVMOptions", "-XX:TrimNativeHeapInterval=60000")
#: Environment variables in which users set Java options.
JAVA_VARIABLES = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
_OTHER_COLLECTOR = re.compile(r"-XX:\+Use(?!Serial)\w+GC\b")
_SIZE = re.compile(r"(\d+)([kmgt]?)", re.IGNORECASE)
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
#: glibc keeps freed memory in 8 arenas per core and raises its threshold for large blocks with the
#: largest one: 100 to 140 MiB more. Arrow's own allocator keeps what a large batch took: 50 MiB
#: more.
_RETURN_MEMORY = {
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": "131072",
    "MALLOC_TRIM_THRESHOLD_": "131072",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
LOCAL_FILES = "rebalancer.LocalFiles"
#: Compiled when Spark starts, by the compiler that Spark has for its own generated code.
_SOURCE = """
package rebalancer;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermission;
import java.util.HashSet;
import java.util.Set;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class LocalFiles extends LocalFileSystem {
  public LocalFiles() {
    super(new Raw());
  }

  public static class Raw extends RawLocalFileSystem {
    public void setPermission(Path path, FsPermission permission) throws IOException {
      int bits = permission.toShort();
      if (bits > 511) {
        super.setPermission(path, permission);
        return;
      }
      PosixFilePermission[] all = PosixFilePermission.values();
      Set allowed = new HashSet();
      for (int i = 0; i < all.length; i++) {
        if ((bits & (256 >> i)) != 0) {
          allowed.add(all[i]);
        }
      }
      Files.setPosixFilePermissions(pathToFile(path).toPath(), allowed);
    }
  }
}
"""


def java_memory_options(driver_memory: str, outer: Mapping[str, str]) -> tuple[str, ...]:
    """Returns Java's options for a heap of `driver_memory` (in Java's format): those of the heap
    only if it is small and no variable of `outer` names another collector.
    """
    return (*_TRIM, *_heap_options(driver_memory, outer))


def _heap_options(driver_memory: str, outer: Mapping[str, str]) -> tuple[str, ...]:
    if any(_OTHER_COLLECTOR.search(outer.get(name, "")) for name in JAVA_VARIABLES):
        return ()  # Java does not start with two collectors
    size = _SIZE.match(driver_memory.strip())
    if size is None or int(size[1]) * _UNITS[size[2].lower()] > _SERIAL_UP_TO:
        return ()
    return _SMALL_HEAP


def allocator_environment(outer: Mapping[str, str]) -> Mapping[str, str]:
    """Returns environment variables of the driver's Java, which its Python workers inherit, except
    those that `outer` sets.
    """
    return {name: value for name, value in _RETURN_MEMORY.items() if name not in outer}


def use_local_files(gateway: Any) -> None:
    """Makes Hadoop use our class for `file:` in this Java process, from now on. Call it before
    there is a SparkContext.

    A Java process whose Spark has no such compiler keeps Hadoop's class, which does the same.
    """
    java = gateway.jvm
    try:
        compiler = java.org.codehaus.janino.SimpleCompiler()
        compiler.cook(_SOURCE)
        configuration = java.org.apache.hadoop.conf.Configuration()
        configuration.setClassLoader(compiler.getClassLoader())
        configuration.set("fs.file.impl", LOCAL_FILES)
        systems, local = java.org.apache.hadoop.fs.FileSystem, java.java.net.URI.create("file:///")
        # Hadoop keeps the first file system of a kind, and Spark has made one for its jars already.
        systems.get(local, java.org.apache.hadoop.conf.Configuration()).close()
        systems.get(local, configuration)
    except (Py4JError, TypeError):
        return

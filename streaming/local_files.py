"""Hadoop's local file system without a process for every new file.

Hadoop sets the mode of a file with the program `chmod` wherever its native library is missing, and
PySpark has no such library. A micro-batch makes three files with a checksum file each, so it starts
six processes: 20 to 25 ms of CPU, and more time than that. Java itself sets modes as well.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError

NAME = "rebalancer.LocalFiles"
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
        configuration.set("fs.file.impl", NAME)
        systems, local = java.org.apache.hadoop.fs.FileSystem, java.java.net.URI.create("file:///")
        # Hadoop keeps the first one it makes, and Spark has looked at its jars with one already.
        systems.get(local, java.org.apache.hadoop.conf.Configuration()).close()
        systems.get(local, configuration)
    except (Py4JError, TypeError):
        return

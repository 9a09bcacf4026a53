"""Python imports this module when it starts, because PYTHONPATH names its folder.

Spark puts its own archives first on the path of a worker. Each process compiles the modules of an
archive again: 0.5 s of CPU for pyspark.zip. Without them, a worker imports the installed PySpark,
which is the driver's.
"""

import sys

from streaming.cluster.early_connection import connect_early

#: Only Spark's: a user's own archives stay.
ARCHIVES = ("pyspark.zip", "py4j-", "spark-core_")

sys.path[:] = [path for path in sys.path if not path.rpartition("/")[2].startswith(ARCHIVES)]

connect_early()

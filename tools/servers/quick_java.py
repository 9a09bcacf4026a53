"""Java's options for processes that live a minute or two."""

#: One compiler, and a collector without threads of its own. The jars were checked when they were
#: downloaded: checking the code of every class again takes an eighth of the CPU time of a start.
QUICK_JAVA = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)

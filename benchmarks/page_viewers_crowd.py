"""The viewers of `benchmarks.page_viewers`, in a process of their own."""

from __future__ import annotations

import sys
import threading

from benchmarks.page_viewers import follow

if __name__ == "__main__":
    url, count = sys.argv[1], int(sys.argv[2])
    threads = [threading.Thread(target=follow, args=(url,)) for _ in range(count)]
    for thread in threads:
        thread.start()

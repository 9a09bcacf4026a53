"""What Pulsar computes from load reports besides the averages of bundles: sums, maxima, smoothed loads and orders."""

"""What specgen's generated code costs, beside its peers: `python -m benchmarks`."""

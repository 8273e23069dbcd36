"""DepL as the paper prints it: eta grid, proxies, the outer loop, and the benchmark by expected loss."""

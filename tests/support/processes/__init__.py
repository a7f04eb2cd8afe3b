"""Start, watch and end real processes: workers, brokers, proxies."""

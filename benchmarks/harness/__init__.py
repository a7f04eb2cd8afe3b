"""What every benchmark runs on: a broker, processes, messages, and what measures and checks them."""

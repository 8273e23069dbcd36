"""Where epochs run: transports that move tasks and results, and the federated epoch written once above them."""

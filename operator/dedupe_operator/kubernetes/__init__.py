"""Talk to the API server: requests, names, watches, leader election."""

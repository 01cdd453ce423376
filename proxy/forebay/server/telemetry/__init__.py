"""What Forebay tells of itself: metrics for Prometheus, one access line a request, logs without secrets."""

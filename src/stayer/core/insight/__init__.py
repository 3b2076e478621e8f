"""What is worked out from many tasks: statistics, usage, failures, forecasts, explanations."""

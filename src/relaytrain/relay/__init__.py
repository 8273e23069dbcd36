"""THE LOOP: plan, record the decision, run the epoch, record the outcome, decide again; whoever runs or simulates hands in the runner."""

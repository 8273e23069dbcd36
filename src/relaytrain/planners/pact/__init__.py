"""PACT: rules that choose the next action, the strategies it is compared with, and a plan composed from a path."""

"""All code that trains: one node's pass, the average, evaluation, handovers. Transports only move its data."""

"""Images with labels: readers, domains, and their division among nodes. Arrays only; torch serves `batches` alone."""

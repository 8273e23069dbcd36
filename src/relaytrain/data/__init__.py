"""Images with labels: readers, domains, and their division among nodes. Arrays only; torch is not needed here."""

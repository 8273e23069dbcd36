"""Exact compiled searches over a law, costs and a deadline; read `kernels` first, `solve` chooses among the others."""

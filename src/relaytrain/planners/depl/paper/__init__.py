"""DepL as the paper has it: `proxy` chooses data, `grid` versions, `outer_loop` goes back; `best_exp` beside it."""

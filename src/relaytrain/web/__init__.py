"""The dashboard: pages about the runs of a store, live, and questions about them. It reads, and writes nothing.

Read in this order: `guard` (who may ask), `shelf` (runs read as they grow), `patience` (long readings, beside),
`dashboard` (all that the routes share), `run_words` (what a page says of a run), `feed` (what is sent while it runs),
`questions` (plans for other targets), `pages`, `data` and `scenario_page` (the routes), `app` (all put together),
`serving` (the process behind `relaytrain ui`).
"""

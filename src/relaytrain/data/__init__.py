"""Images with labels, or whatever users bring: readers, domains, division among nodes, and batches of them.

Arrays alone: `dataset` (what images with labels are), `source` (one by its name) over the readers `digits`, `idx`,
`cifar` and `batchfile`, `domain` (as another camera sees them), `partition` (who holds which), `quick` (data that make
a relay pay). Torch from where data become batches: `held` (the road), `batches` (their order), `own` (what users
bring), `nested` (batches of any form), `seeding`.
"""

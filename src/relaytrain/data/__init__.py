"""Images with labels, or whatever users bring: readers, domains, division among nodes, and batches of them.

Arrays alone up to `partition` and `quick`; torch from where data become batches: `held`, `batches`, `own`, `nested`,
`seeding`.
"""

"""Trainings made to learn from: what to train, with shared beginnings, over processes, resumable; out come traces.

`campaign` is the tree of what is trained, `preset_campaigns` and `scenario_campaign` grow one, `campaign_estimate` says
beforehand what it takes. `collect` hands its pieces to a crew, `piece_training` trains one, `piece_results` keeps it.
`atlas_recording` trains relays on a grid for an atlas, `scouting` the branches that a run did not take.
"""

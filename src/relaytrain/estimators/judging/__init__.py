"""How good estimators are on what they have not seen: splits, figures of merit, the evaluation."""

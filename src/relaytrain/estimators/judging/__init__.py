"""What judges learned estimators on traces they have not seen: `evaluate` fits and forecasts fold by fold, `metrics`
scores, `kept_forecasts` lets a long evaluation go on where it was. Imports `learned`, never the reverse."""

"""Models learned from traces: fitted with torch and scikit-learn, predicting with numpy and compiled code."""

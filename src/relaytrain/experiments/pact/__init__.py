"""The evaluation of PACT: figures 5 to 9, on the toy and on the smart factory."""

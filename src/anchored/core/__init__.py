"""Networks, priors, likelihoods, and the training of many members as one state."""

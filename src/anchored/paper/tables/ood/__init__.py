"""The paper's out-of-distribution tables: how sure are ensembles of inputs unlike any they saw?"""

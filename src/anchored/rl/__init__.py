"""Reinforcement learning: agents that know what they do not know."""

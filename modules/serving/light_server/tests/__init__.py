"""Tests of the light server, on a random model of a few thousand parameters."""

"""Texts from outside, drawn at random: each gives a result or an error of lakehouse's own, soon."""

"""Owning one server, from spawn to proven-gone."""

"""The Flower app that we submit: no code of its own, only the names of ours, which every machine has installed."""

CHANNEL = "relaytrain-channel"

APP = f"""\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "relaytrain-app"
version = "1.0.0"
description = "A relay: its loop, and its nodes."
license = "Apache-2.0"
dependencies = ["flwr>=1.41,<1.42"]

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "relaytrain"

[tool.flwr.app.components]
serverapp = "relaytrain.executors.flower.serverapp:app"
clientapp = "relaytrain.executors.flower.clientapp:app"

[tool.flwr.app.config]
{CHANNEL} = ""
"""
"""Its pyproject.toml; `{CHANNEL}` is the socket at which the program waits."""

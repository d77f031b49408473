"""Runs both planes on one machine, each in a process of its own."""

from tiergate_server.supervisor.lifeline import watch_lifeline
from tiergate_server.supervisor.plane_process import PlaneCommand
from tiergate_server.supervisor.supervisor import EXIT_CONFIG, Supervisor

__all__ = ["EXIT_CONFIG", "PlaneCommand", "Supervisor", "watch_lifeline"]

"""What `fedloom doctor` looks at: this installation, and whether its numbers are right."""

from fedloom.doctor.environment import examine
from fedloom.doctor.finding import Finding
from fedloom.doctor.known_answers import solve_on_every_device

__all__ = ["Finding", "examine", "solve_on_every_device"]

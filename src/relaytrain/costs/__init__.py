"""tau and epsilon, of running and of changing a pair: written out, modelled, or learned from what was measured."""

from .analytic import AnalyticSettings, analytic_costs
from .devices import DeviceProfile, load_devices
from .table import TableCosts

__all__ = ["AnalyticSettings", "DeviceProfile", "TableCosts", "analytic_costs", "load_devices"]

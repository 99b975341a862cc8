"""From a case to a measurement, each in a process that may die."""

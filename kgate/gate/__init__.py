"""The pipeline: lint, affected, plan, measure, compare, verdict."""

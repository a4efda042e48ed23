"""Statistics of a deployed model: audits, comparisons, drift, topics."""

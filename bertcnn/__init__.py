"""From a CSV of labelled tickets to a text classifier a support team can trust."""

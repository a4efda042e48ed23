"""What people read about a model: report.html and the model card."""
